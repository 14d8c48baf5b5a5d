/*
 * Other poolers of the group as seen by this one: cancel requests go to them, and they close the connection after processing (cancel/peers.c).
 *
 * Each key is drawn for one request, so the expected request is known: a client sent it to this peer number, with one more hop left; and it arrives
 * once. client.c checks that the canceller is answered in any case.
 */
#include "neighbours.h"

#include "base/list.h"
#include "base/mem.h"
#include "chance.h"
#include "sim.h"

#include <string.h>

#define SENT_KEPT 8192			/* more than are ever on their way at a time */
#define KEY 24
#define HOPS 0x03			/* in the second byte */
#define CANCEL_CODE 80877102

struct sent {
	uint32_t pid;
	uint8_t key[KEY];
	size_t size;
	bool is_awaited;
};

/* A connection from the pooler. */
struct neighbour {
	struct list node;
	struct actor actor;
	struct wire *wire;
	usec_t ends;			/* when it closes; 0: nothing has come yet */
};

static struct sent sent[SENT_KEPT];
static uint32_t sent_count;
static struct list neighbours;

void neighbours_begin(void)
{
	memset(sent, 0, sizeof(sent));
	sent_count = 0;
	list_init(&neighbours);
}

static void neighbour_end(struct neighbour *n)
{
	actor_rest(&n->actor);
	wire_close(&n->wire, chance_one_in(4));
	list_remove(&n->node);
	mem_free(n);
}

void neighbours_end(void)
{
	while (!list_is_empty(&neighbours))
		neighbour_end(SIM_OBJECT(neighbours.next, struct neighbour, node));
}

bool neighbours_draw_key(uint32_t *pid, uint8_t *key, size_t *size)
{
	struct sent *s = &sent[sent_count++ % SENT_KEPT];
	int id = chance_one_in(6) ? 3 : NEIGHBOUR_ID, hops = (int)chance_below(4);

	*s = (struct sent){ .pid = (uint32_t)chance_draw() & INT32_MAX, .size = chance_one_in(2) ? 4 : KEY };
	for (size_t i = 0; i < s->size; i++)
		s->key[i] = (uint8_t)chance_draw();
	s->key[0] = (uint8_t)(id >> 6);
	s->key[1] = (uint8_t)((id & 0x3f) << 2 | hops);
	s->is_awaited = id == NEIGHBOUR_ID && hops > 0;
	*pid = s->pid;
	*size = s->size;
	memcpy(key, s->key, s->size);
	return s->is_awaited;
}

/* ---- received requests ---- */

static void judge(const uint8_t *at, size_t size)
{
	uint32_t pid = sim_u32(at + 8);
	uint8_t key[KEY];

	SIM_CHECK(sim_u32(at + 4) == CANCEL_CODE && size - 12 <= sizeof(key), "a neighbour got a packet of %zu bytes", size);
	memcpy(key, at + 12, size - 12);
	SIM_CHECK((key[1] & HOPS) < HOPS, "a neighbour got a request that has not come any nearer");
	key[1]++;
	for (int i = 0; i < SENT_KEPT; i++) {
		struct sent *s = &sent[i];

		if (!s->is_awaited || s->pid != pid || s->size != size - 12 || memcmp(s->key, key, s->size) != 0)
			continue;
		s->is_awaited = false;
		sim_counts.handed_on++;
		return;
	}
	SIM_CHECK(false, "a neighbour got a request for %u, which nobody has sent, or twice", pid);
}

static void act(struct actor *actor)
{
	struct neighbour *n = SIM_OBJECT(actor, struct neighbour, actor);
	size_t here;
	const uint8_t *at = wire_come(n->wire, &here);

	if (n->ends == 0 && here >= 4 && here >= sim_u32(at)) {
		SIM_CHECK(here == sim_u32(at), "a neighbour got %zu bytes", here);
		judge(at, here);
		wire_take(n->wire, here);
		/* now and then it takes longer than any client waits */
		n->ends = loop_now() + (!sim_is_calm && chance_one_in(10) ? 1000 * USEC : chance_spread(1, plan.slowness + 1));
	}
	if (wire_has_ended(n->wire) || (n->ends > 0 && (loop_now() >= n->ends || sim_is_calm)))
		neighbour_end(n);
	else if (n->ends > 0)
		actor_at(actor, n->ends);
}

enum reception neighbours_asked(usec_t *delay)
{
	bool fails = plan.faulty_servers && !sim_is_calm;

	*delay = chance_spread(0, plan.slowness);
	if (fails && chance_one_in(8))
		return RECEPTION_REFUSED;
	return fails && chance_one_in(8) ? RECEPTION_SILENCE : RECEPTION_ACCEPTED;
}

struct actor *neighbours_connected(struct wire *wire)
{
	struct neighbour *n = mem_must(sizeof(*n));

	actor_init(&n->actor, act, plan.slowness);
	list_append(&neighbours, &n->node);
	n->wire = wire;
	return &n->actor;
}
