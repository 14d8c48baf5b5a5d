#ifndef TWO_WORLDS_H
#define TWO_WORLDS_H

/*
 * A world that sends (whole.h) and a fresh world that receives, for the tests of the records of one connection: a function packs a record, and its
 * counterpart unpacks it. A record's descriptor is one end of a socket pair.
 */
#include "handover/handover_parts.h"
#include "state/notify.h"

#include "unit.h"
#include "whole.h"

#include <sys/socket.h>
#include <unistd.h>

static struct house fresh;
static struct handover *taking;
static struct bytes record;
static struct sender sender;
static int other_end = -1;		/* of the last received descriptor */
static struct house_end *near, *far;
static struct client *client;
static struct server *server;

static inline void worlds_open(const char *ini)
{
	whole_open(ini);
	house_open(&fresh, ini);
	taking = handover_begin(fresh.world);
	other_end = -1;
	near = far = NULL;
}

static inline void other_end_close(void)
{
	if (other_end >= 0)
		close(other_end);
	other_end = -1;
}

/* Ends the received connections silently and begins a new handover. */
static inline void taken_undo(void)
{
	handover_undo(&taking);
	CHECK(!taking);
	house_settle(&fresh);
	CHECK(list_is_empty(&fresh.world->peers.clients) && list_is_empty(&fresh.world->peers.servers));
	other_end_close();
	taking = handover_begin(fresh.world);
}

static inline void worlds_close(void)
{
	taken_undo();
	handover_undo(&taking);
	bytes_free(&record);
	house_close(&fresh);
	whole.holds_answers = false;
	whole_close();
}

static inline int descriptor(void)
{
	int fds[2];

	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
	other_end_close();
	other_end = fds[0];
	return fds[1];
}

/* Returns the pool of database d in the fresh world, created from its record. */
static inline void take_pool(void)
{
	struct pools *pools = fresh.world->pools;

	taking->pool = pool_get(database_get(pools, "d", true, fresh.world->now), user_get(pools, "u"), false, fresh.world->now);
}

/* Opens both worlds, with an idle client in the first one. */
static inline bool worlds_begin(const char *ini)
{
	worlds_open(ini);
	client = whole_login(&near);
	far = house_server(&whole);
	if (!client)
		return false;
	take_pool();
	return true;
}

/* ... whose server executes a transaction. */
static inline bool worlds_begin_in_transaction(const char *ini)
{
	worlds_open(ini);
	client = whole_in_transaction(&near, &far);
	server = whole_last_server();
	take_pool();
	return client && server;
}

/* ... whose server has become idle. */
static inline bool worlds_begin_idle(const char *ini)
{
	if (!worlds_begin_in_transaction(ini))
		return false;
	whole_query(near, "C");
	return server->pooled.state == SERVER_IDLE;
}

/* ... that listens, and whose server has become the listener of the pool; NULL: it has not. */
static inline struct notify_server *worlds_begin_listening(void)
{
	struct notify_server *listener;

	if (!worlds_begin_in_transaction(WHOLE_INI("pool_size=3", "session_state=full\n")))
		return NULL;
	whole_query(near, "ALISTEN");
	whole_query(near, "C");
	listener = notify_server_of(client->pooled.pool);
	return listener && listener->server == server ? listener : NULL;
}

static inline struct client *last_client(void)
{
	const struct list *all = &fresh.world->peers.clients;

	return list_is_empty(all) ? NULL : LIST_OBJECT(all->prev, struct client, peer.node);
}

static inline struct server *last_server(void)
{
	const struct list *all = &fresh.world->peers.servers;

	return list_is_empty(all) ? NULL : LIST_OBJECT(all->prev, struct server, peer.node);
}

/* Takes the first n bytes of the record, in memory of that size. Returns true if the bytes are a valid record. */
static inline bool take_n(void (*unpack)(struct unpack *, struct handover *, int), size_t n)
{
	uint8_t *copy = fuzz_copy(bytes_front(&record), n);
	struct unpack in = unpack_of(copy, n);

	unpack(&in, taking, descriptor());
	free(copy);
	return unpack_is_done(&in);
}

static inline void pack_client(void)
{
	bytes_consume(&record, bytes_size(&record));
	client_record_pack(&sender, &record, client);
	CHECK(!record.failed);
}

static inline void pack_server(void)
{
	bytes_consume(&record, bytes_size(&record));
	server_record_pack(&sender, &record, server);
	CHECK(!record.failed);
}

/* NULL: the record is invalid. */
static inline struct client *take_client(void)
{
	return take_n(client_record_unpack, bytes_size(&record)) ? last_client() : NULL;
}

static inline struct server *take_server(void)
{
	return take_n(server_record_unpack, bytes_size(&record)) ? last_server() : NULL;
}

#endif
