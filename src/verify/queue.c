/*
 * The queue in front of the verifiers: one line for each source, served by turns.
 *
 * An unauthenticated client can ask as often as it likes, and make each question as long as PAM makes a wrong password. In one line for
 * all it would be before all others. So each source has a share of its own, and the shares take turns: a client from an address
 * where no other waits is served after at most one question of each other address, however many those have.
 *
 * How many may wait is the caller's to say. When the queue is full, a question from a source that has few in it displaces the youngest
 * of that which has most; a source that has as many as the fullest, the newcomer counted, displaces none. So no source can keep
 * another one out, and a crowd from one address does not throw itself out.
 *
 * Invariant: a share is there as long as a question waits in it, in `turns` and in `by_source`; `waiting` is the sum of theirs.
 */
#include "verify/queue.h"

#include "base/assert.h"

struct verify_share {
	struct list node;		/* turns */
	struct list places;		/* oldest first */
	int waiting;
	struct verify_source source;
	UT_hash_handle hh;
};

void verify_place_init(struct verify_place *place)
{
	list_init(&place->node);
	place->share = NULL;
}

void verify_queue_init(struct verify_queue *q)
{
	list_init(&q->turns);
	q->by_source = NULL;
	q->waiting = 0;
}

static struct verify_share *find(const struct verify_queue *q, const struct verify_source *source)
{
	struct verify_share *share;

	HASH_FIND(hh, q->by_source, source, sizeof(*source), share);
	return share;
}

static struct verify_share *share_new(struct verify_queue *q, const struct verify_source *source)
{
	struct verify_share *share = mem_try(sizeof(*share));

	if (!share)
		return NULL;
	share->source = *source;
	HASH_ADD(hh, q->by_source, source, sizeof(share->source), share);
	if (!HASH_HAS(hh, share)) {
		mem_free(share);
		return NULL;
	}
	list_init(&share->places);
	list_init(&share->node);
	list_append(&q->turns, &share->node);
	return share;
}

static void join(struct verify_queue *q, struct verify_share *share, struct verify_place *place)
{
	place->share = share;
	list_append(&share->places, &place->node);
	share->waiting++;
	q->waiting++;
}

bool verify_queue_add(struct verify_queue *q, struct verify_place *place, const struct verify_source *source)
{
	struct verify_share *share = find(q, source);

	ASSERT(!place->share);
	if (!share && !(share = share_new(q, source)))
		return false;
	join(q, share, place);
	return true;
}

void verify_queue_remove(struct verify_queue *q, struct verify_place *place)
{
	struct verify_share *share = place->share;

	if (!share)
		return;
	place->share = NULL;
	list_remove(&place->node);
	q->waiting--;
	if (--share->waiting > 0)
		return;
	list_remove(&share->node);
	HASH_DEL(q->by_source, share);
	mem_free(share);
}

/* More than `count` are before it in its share, so that it waits for more rounds than one behind `count` others. */
static bool is_behind(const struct verify_place *place, int count)
{
	LIST_EACH(node, &place->share->places) {
		if (node == &place->node)
			return false;
		if (count-- == 0)
			return true;
	}
	return false;
}

void verify_queue_share(struct verify_queue *q, struct verify_place *place, const struct verify_source *source)
{
	struct verify_share *share = find(q, source);

	if (!place->share || !is_behind(place, share ? share->waiting : 0) || (!share && !(share = share_new(q, source))))
		return;
	verify_queue_remove(q, place);
	join(q, share, place);
}

/* Takes a place out. Its source has had its turn. */
static struct verify_place *take(struct verify_queue *q, struct verify_place *place)
{
	struct list *node = &place->share->node;

	list_remove(node);
	list_append(&q->turns, node);
	verify_queue_remove(q, place);
	return place;
}

static struct verify_place *oldest_that_fits(const struct verify_share *share, const struct verify_fit *fit)
{
	LIST_EACH(node, &share->places) {
		struct verify_place *place = LIST_OBJECT(node, struct verify_place, node);

		if (fit->place(fit->context, place))
			return place;
	}
	return NULL;
}

struct verify_place *verify_queue_next_if(struct verify_queue *q, const struct verify_fit *fit)
{
	LIST_EACH(turn, &q->turns) {
		const struct verify_share *share = LIST_OBJECT(turn, struct verify_share, node);
		struct verify_place *place = fit->source(fit->context, &share->source) ? oldest_that_fits(share, fit) : NULL;

		if (place)
			return take(q, place);
	}
	return NULL;
}

struct verify_place *verify_queue_next(struct verify_queue *q)
{
	struct list *turn = list_first(&q->turns);
	const struct verify_share *share = turn ? LIST_OBJECT(turn, struct verify_share, node) : NULL;

	return share ? take(q, LIST_OBJECT(share->places.next, struct verify_place, node)) : NULL;
}

struct verify_place *verify_queue_displace(struct verify_queue *q, const struct verify_source *source)
{
	const struct verify_share *own = find(q, source);
	struct verify_share *fullest = NULL;
	struct verify_place *youngest;

	LIST_EACH(node, &q->turns) {
		struct verify_share *share = LIST_OBJECT(node, struct verify_share, node);

		if (!fullest || share->waiting > fullest->waiting)
			fullest = share;
	}
	if (!fullest || fullest->waiting <= (own ? own->waiting : 0) + 1)
		return NULL;
	youngest = LIST_OBJECT(fullest->places.prev, struct verify_place, node);
	verify_queue_remove(q, youngest);
	return youngest;
}

void verify_queue_each(const struct verify_queue *q, void (*visit)(void *context, struct verify_place *place), void *context)
{
	LIST_EACH(turn, &q->turns)
		LIST_EACH(node, &LIST_OBJECT(turn, struct verify_share, node)->places)
			visit(context, LIST_OBJECT(node, struct verify_place, node));
}
