#ifndef HOUSE_H
#define HOUSE_H

#include "fuzz.h"
#include "session/world.h"

/*
 * All of pgweir in one process with the target: a real world with its pools, sessions and console, whose
 * clients and servers the target plays over sockets of its own. The turn is main's, but for the tick, which
 * comes when the target says so. sandbox_begin comes before.
 */
/* What every configuration has: no door of its own, and in [databases] where the servers of this process are. */
#define HOUSE_SETTINGS "\n[pgbouncer]\nlisten_port=6432\nlisten_addr=127.0.0.1\nunix_socket_dir=\n"
#define HOUSE_SERVER "host=%s port=5432 "
#define HOUSE_ENDS 16		/* connections of one input */

struct backend;

/* The target's end of a connection. */
struct house_end {
	int fd;				/* -1: closed by us */
	bool is_server, is_gone;	/* pgweir has closed */
	bool begins;			/* a server: its start-up message is not whole yet */
	struct bytes got;		/* all that pgweir has sent */
	size_t seen;			/* of `got`, by the backend or the target */
	struct backend *backend;	/* answers for it; NULL: nobody does */
};

struct house {
	struct event_base *base;
	struct world *world;
	struct console *console;
	struct house_end ends[HOUSE_ENDS];
	int end_count;
	/* Whoever answers for a server that pgweir opens (from the next on): a backend, or with false nobody. */
	bool servers_answer;
	bool holds_answers;		/* backends say nothing for now */
};

/* Opens it with this configuration, a constant text. "%s" in it is the host where servers are to be reached. */
void house_open(struct house *h, const char *ini);
/* Ends everything, and checks that nothing is left. */
void house_close(struct house *h);

/* A client connects; NULL: too many ends. */
struct house_end *house_connect(struct house *h);
/* The last server that pgweir has opened; NULL: none. */
struct house_end *house_server(struct house *h);
/* Sends for that end; what the socket does not take is tried again in turns. */
void house_send(struct house *h, struct house_end *e, const void *data, size_t size);
/* The same, cut in this way, with everything settled behind each piece. */
void house_feed(struct house *h, struct house_end *e, const void *data, size_t size, enum fuzz_cut cut);
void house_hang_up(struct house_end *e);
/* Turns until nothing moves. */
void house_settle(struct house *h);
/* The same, and time passes: time-outs, lifetimes, statistics. */
void house_tick(struct house *h, usec_t time);

/* A client that has logged in with this name and protocol 3.minor; what it was welcomed with is taken off `got`.
   NULL: it was not let in. */
struct house_end *house_login(struct house *h, const char *user, const char *database, unsigned minor);
/* What was sent to this end since `seen`, which moves. */
struct bytes house_news(struct house_end *e);
/* Takes notices, notifications and parameters off the end: behind the last answer they are the client's only as long as the server is. */
void house_trim_asides(struct bytes *news);
/* Once a COPY has begun: what is sent into it, and is neither data nor its end, may be passed over with it, or be answered behind it, and
   in which order is a matter of time. Both end where one begins. */
void house_trim_after_copy(struct bytes *one, struct bytes *other);
/* Takes ParseComplete and CloseComplete off the end: when the pooler gives them itself, and neither Flush nor Sync asks for them, they come
   now or with what comes next. */
void house_trim_promises(struct bytes *news);

/* Somebody else comes, asks, and gets exactly the answers to what he asks: whatever was done before him. */
void house_check_neighbour(struct house *h, const char *database);

#endif
