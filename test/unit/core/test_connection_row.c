/* Walks over connections, in pieces and while connections come and go. The contents of rows are tested with SHOW (unit/admin). */
#include "core/connection_row.h"

#include "core/lifecycle.h"
#include "unit.h"

#include <stdlib.h>

static struct world world;
static struct client clients[8];
static char given[256];

static void give(void *context, const struct connection_row *row)
{
	size_t used = strlen(given);

	CHECK(context == &world);
	CHECK(row->is_client && !row->is_authenticated && !row->is_shown && !row->is_console);
	CHECK_TEXT(row->user, "(nouser)");
	CHECK_TEXT(row->database, "(nodb)");
	CHECK_TEXT(row->state, "new");
	CHECK_TEXT(row->tls, "");
	CHECK_INT(row->fd, -1);
	CHECK_INT(row->in_state, 7);
	CHECK_INT(row->waits, 0);
	CHECK_INT(row->request_at, 5);
	snprintf(given + used, sizeof(given) - used, "%s%llu", used > 0 ? " " : "", (unsigned long long)row->id);
}

static void come(int i)
{
	struct client *c = &clients[i];

	*c = (struct client){ .peer = { .world = &world, .is_client = true, .id = ++world.peers.last_id, .connected_at = 5, .stream = { .fd = -1 } } };
	c->pooled.state = CLIENT_STARTUP;
	c->pooled.since = 3;
	list_append(&world.peers.clients, &c->peer.node);
}

static void begin(int count)
{
	world = (struct world){ .now = 10 };
	list_init(&world.peers.clients);
	list_init(&world.peers.servers);
	given[0] = '\0';
	for (int i = 0; i < count; i++)
		come(i);
}

static bool walk(struct connection_walk *w, enum connection_kinds kinds, int most)
{
	connections_walk(&world, w, kinds, most, give, &world);
	return w->goes_on;
}

TEST(all_at_once)
{
	struct connection_walk w = { .goes_on = false };

	begin(5);
	CHECK(!walk(&w, CONNECTION_CLIENTS, 5));
	CHECK_TEXT(given, "1 2 3 4 5");
	/* again from the beginning */
	CHECK(!walk(&w, CONNECTION_ALL, 100));
	CHECK_TEXT(given, "1 2 3 4 5 1 2 3 4 5");
	CHECK(!walk(&w, CONNECTION_SERVERS, 100));
	CHECK_TEXT(given, "1 2 3 4 5 1 2 3 4 5");
	begin(0);
	CHECK(!walk(&w, CONNECTION_ALL, 1));
}

TEST(in_pieces)
{
	struct connection_walk w = { .goes_on = false };

	begin(5);
	CHECK(walk(&w, CONNECTION_ALL, 2));
	CHECK_TEXT(given, "1 2");
	/* the last connection returned, a later connection, and a new connection */
	list_remove(&clients[1].peer.node);
	list_remove(&clients[2].peer.node);
	come(5);
	CHECK(walk(&w, CONNECTION_ALL, 1));
	CHECK_TEXT(given, "1 2 4");
	CHECK(!walk(&w, CONNECTION_ALL, 1));
	CHECK_TEXT(given, "1 2 4 5");
}

TEST(totals)
{
	struct connection_totals sum;

	begin(3);
	bytes_append(&clients[1].peer.held, "abc", 3);
	bytes_append(&clients[2].peer.stream.out, "defg", 4);
	sum = connections_total(&world);
	CHECK_INT(sum.clients, 3);
	CHECK_INT(sum.servers, 0);
	CHECK_INT(sum.buffered, 7);
	CHECK(sum.buffers >= 7);
	bytes_free(&clients[1].peer.held);
	bytes_free(&clients[2].peer.stream.out);
}

UNIT_MAIN
