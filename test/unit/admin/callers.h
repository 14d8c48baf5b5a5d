#ifndef CALLERS_H
#define CALLERS_H

/* A fixture for tests of console commands: two databases, an administrator, a server in use. */
#include "fake_world.h"

static const char ini[] =
	"[databases]\n"
	"shop = host=10.0.0.5\n"
	"Many = host=10.0.0.6\n"
	"[pgbouncer]\n";

static inline struct client *begin(void)
{
	fake_start(ini);
	return fake_caller("boss", true);
}

static inline struct database *database(const char *name)
{
	return database_find(fake.world.pools, name);
}

/* A server connection of the database that a client is using. */
static inline struct server *busy_server(const char *name)
{
	struct server *s = fake_server_new(name, "anna");
	struct client *c = fake_client_new(name, "anna");

	if (pool_want(&c->pooled, fake.world.now) != &s->pooled)
		abort();
	return s;
}

static inline void release(struct server *s)
{
	enum close_reason why = pool_server_is_spent(&s->pooled, fake.world.now);

	pool_unlink(&s->pooled, SERVER_IDLE, false, fake.world.now);
	if (why != REASON_NONE)
		fake_server_dies(&s->pooled);
}

#endif
