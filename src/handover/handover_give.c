/*
 * Online restart, the old process: a process of the same user wants to replace this one.
 *
 * One process at a time may ask. Nothing changes until its request. Then new connections wait in the kernel's queue, which is
 * handed over too, until the logins and cancel requests in progress have ended: these cannot be handed over, and usually take
 * some milliseconds. A client stays in this process if its login takes longer than CALM_MOST.
 *
 * The handover takes place in one turn: from the first record to the answer this process does nothing else, so the state that
 * it sends does not change. It waits at most PATIENCE for each message of the new process. The point of no return is GO: when
 * the socket has accepted it, everything belongs to the new process and is closed here.
 */
#include "handover/handover.h"

#include "auth/refusal.h"
#include "base/bytes.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/service.h"
#include "conn/listening.h"

#include <errno.h>
#include <event2/event.h>
#include <event2/event_struct.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PATIENCE 5000			/* ms, for each message */
#define CALM_MOST USEC			/* longest delay of new connections for logins in progress */
#define ASKING_MOST (10 * USEC)		/* from the connection to the request */
#define ACCEPTED_MOST 64			/* connections accepted per event */
#define TELL_EVERY (60 * USEC)		/* between log lines about refused connections */

/* The process that asks. */
struct asker {
	struct records *records;
	struct event readable;
	int32_t pid;
	usec_t since;			/* when it connected, or when it sent the request */
	bool is_known;			/* it has sent a valid HELLO */
	bool wants;			/* it has sent TAKE */
};

struct giver {
	struct event_base *base;
	struct world *world;
	struct pidfile **pidfile;
	bool *due;
	struct handover_socket socket;	/* closed after the handover */
	struct event readable;
	bool is_accept_failing;		/* accepting failed: waiting for the socket would spin */
	struct asker *asker;
	unsigned refused;		/* connections since the last log line about them */
	usec_t told;			/* time of that line; 0: none yet */
	char reason[96];		/* for the last of them */
};

/* ---- the process that asks ---- */

static void asker_free(struct asker **place)
{
	struct asker *a = *place;

	*place = NULL;
	if (!a)
		return;
	if (a->records)
		event_del(&a->readable);
	records_free(&a->records);
	mem_free(a);
}

/* Sends a refusal and closes the connection. */
static void refuse(struct giver *g, const char *why)
{
	struct bytes out = BYTES_EMPTY;

	log_warning("process %d cannot take over: %s", (int)g->asker->pid, why);
	pack_text(&out, why);
	records_send(g->asker->records, HANDOVER_REFUSAL, &out, -1, 0);
	bytes_free(&out);
	asker_free(&g->asker);
}

/* The handover failed: this process continues. */
static void resume(struct giver *g, const char *why)
{
	log_warning("process %d has not taken over: %s", (int)g->asker->pid, why);
	if (g->asker->wants)
		listening_set_accepting(&g->world->listening, true);
	asker_free(&g->asker);
}

static void hear(struct giver *g, const struct record *r)
{
	struct asker *a = g->asker;
	const char *refusal;
	char why[128] = "";

	if (r->fd >= 0)
		close(r->fd);
	if (!a->is_known && handover_read_hello(r, why, sizeof(why))) {
		a->is_known = true;
	} else if (!a->is_known) {
		refuse(g, why);
	} else if (r->type != HANDOVER_TAKE || a->wants) {
		resume(g, "it has said something that makes no sense here");
	} else if ((refusal = handover_refusal(g->world)) != NULL) {
		refuse(g, refusal);
	} else {
		log_info("process %d is about to take over", (int)a->pid);
		a->wants = true;
		a->since = g->world->now;
		listening_set_accepting(&g->world->listening, false);
		*g->due = true;
	}
}

static void on_asker(evutil_socket_t fd, short what, void *arg)
{
	struct giver *g = arg;
	struct record r;

	(void)fd, (void)what;
	world_wake(g->world);
	while (g->asker) {
		switch (records_next(g->asker->records, &r)) {
		case RECORDS_AGAIN:
			return;
		case RECORDS_OK:
			hear(g, &r);
			continue;
		case RECORDS_END:
		case RECORDS_BROKEN:
			resume(g, g->asker->records->error);
		}
	}
}

static struct asker *asker_new(struct giver *g, int fd, int32_t pid)
{
	struct asker *a = mem_try(sizeof(*a));

	if (!a || !(a->records = records_new(fd))) {
		mem_free(a);
		close(fd);
		return NULL;
	}
	a->pid = pid;
	a->since = g->world->now;
	event_assign(&a->readable, g->base, fd, EV_READ | EV_PERSIST, on_asker, g);
	if (event_add(&a->readable, NULL) == 0)
		return a;
	asker_free(&a);
	return NULL;
}

/* ---- connections ---- */

/* Logs the first refused connection at once, then at most one line a minute, because any user may be able to connect. */
static void tell_refused(struct giver *g)
{
	usec_t now = g->world->now;

	if (g->refused == 0 || (g->told != 0 && now - g->told < TELL_EVERY))
		return;
	log_warning("online restart: connections refused: %u, the last one %s", g->refused, g->reason);
	g->refused = 0;
	g->told = now;
}

/* Accepts a connection; only one process of this user may ask at a time. False: no connection, or accepting failed. */
static bool accept_one(struct giver *g)
{
	int fd = accept4(g->socket.fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	int32_t pid = 0;
	uint32_t uid;

	if (fd < 0 && (errno == ECONNABORTED || errno == EINTR))
		return true;
	if (fd < 0) {
		g->is_accept_failing = errno != EAGAIN;
		if (g->is_accept_failing)
			event_del(&g->readable);
		return false;
	}
	if (!address_unix_peer(fd, &pid, &uid)) {
		snprintf(g->reason, sizeof(g->reason), "of an unknown user");
	} else if (uid != geteuid()) {
		snprintf(g->reason, sizeof(g->reason), "of process %d, which is of user %u", (int)pid, (unsigned)uid);
	} else if (g->asker) {
		snprintf(g->reason, sizeof(g->reason), "of process %d, while process %d takes over", (int)pid, (int)g->asker->pid);
	} else {
		g->asker = asker_new(g, fd, pid);
		if (g->asker && !handover_say_hello(g->asker->records, 0))
			resume(g, g->asker->records->error);
		return true;
	}
	g->refused++;
	close(fd);
	return true;
}

static void on_connection(evutil_socket_t listening, short what, void *arg)
{
	struct giver *g = arg;

	(void)listening, (void)what;
	world_wake(g->world);
	for (int i = 0; i < ACCEPTED_MOST && accept_one(g); i++)
		;
	tell_refused(g);
}

/* ---- listening ---- */

static void stop_listening(struct giver *g)
{
	if (g->socket.fd >= 0)
		event_del(&g->readable);
	handover_unlisten(&g->socket);
}

/* False with a text: no process can take over from now on. */
static bool start_listening(struct giver *g, char *why, size_t why_size)
{
	if (!handover_listen(&g->socket, &g->world->conf->settings, why, why_size))
		return false;
	event_assign(&g->readable, g->base, g->socket.fd, EV_READ | EV_PERSIST, on_connection, g);
	if (event_add(&g->readable, NULL) == 0)
		return true;
	snprintf(why, why_size, "out of memory");
	handover_unlisten(&g->socket);
	return false;
}

/* ---- giving ---- */

static bool send_text(struct records *to, uint8_t type, const char *text)
{
	struct bytes out = BYTES_EMPTY;
	bool sent;

	pack_text(&out, text);
	sent = records_send(to, type, &out, -1, PATIENCE);
	bytes_free(&out);
	return sent;
}

/* Waits for READY and sends GO. Returns NULL, or why the handover failed. */
static const char *confirm(struct giver *g, bool *takes_pidfile)
{
	struct records *channel = g->asker->records;
	struct record r;
	struct unpack in;
	char why[256];

	if (records_wait(channel, &r, PATIENCE) != RECORDS_OK)
		return channel->error;
	if (r.fd >= 0)
		close(r.fd);
	in = unpack_of(r.body, r.size);
	*takes_pidfile = unpack_bool(&in);
	if (r.type != HANDOVER_READY || !unpack_is_done(&in))
		return "it has answered something that makes no sense here";
	/* stops listening before GO, so that the new process can bind the name */
	stop_listening(g);
	if (records_send(channel, HANDOVER_GO, NULL, -1, 0))
		return NULL;
	if (!start_listening(g, why, sizeof(why)))
		log_warning("an online restart (-R) of this process is not possible any more: %s", why);
	return channel->error;
}

static void give(struct giver *g)
{
	struct records *to = g->asker->records;
	const char *notify = getenv(SERVICE_NOTIFY_SOCKET), *why;
	struct handover_counts counts;
	bool takes_pidfile = false;
	int32_t pid = g->asker->pid;

	if ((notify && !send_text(to, HANDOVER_NOTIFY, notify)) ||
	    (*g->pidfile && !records_send(to, HANDOVER_PIDFILE, NULL, pidfile_descriptor(*g->pidfile), PATIENCE)) ||
	    !handover_send(g->world, to, PATIENCE, &counts)) {
		resume(g, to->error);
		return;
	}
	why = confirm(g, &takes_pidfile);
	if (why) {
		/* the new process may be alive and still send READY: it must be told */
		send_text(g->asker->records, HANDOVER_REFUSAL, why);
		resume(g, why);
		return;
	}
	/* everything belongs to the new process; only clients that could not be handed over remain */
	pidfile_release(g->pidfile, !takes_pidfile);
	service_notify("MAINPID=%d", pid);
	unsetenv(SERVICE_NOTIFY_SOCKET);
	event_del(&g->asker->readable);
	g->asker->records = NULL;
	asker_free(&g->asker);
	handover_done(g->world, &to);
	log_info("process %d has taken over: %u clients, %u servers, %u listening sockets; %u clients stay here to their end", (int)pid,
		 counts.clients, counts.servers, counts.listeners, counts.staying);
}

void giver_turn(struct giver *g)
{
	const struct world *w;
	struct asker *a;
	usec_t most;

	if (!g)
		return;
	if (g->is_accept_failing && g->socket.fd >= 0)
		g->is_accept_failing = event_add(&g->readable, NULL) != 0;
	tell_refused(g);
	if (!g->asker)
		return;
	w = g->world;
	a = g->asker;
	if (!a->wants) {
		if (w->now - a->since >= ASKING_MOST)
			resume(g, "it does not say what it wants");
		return;
	}
	/* a PAUSE or SHUTDOWN may have come since the request */
	if (handover_refusal(w)) {
		listening_set_accepting(&g->world->listening, true);
		refuse(g, handover_refusal(w));
		return;
	}
	/* a failed login that waits for its refusal is ended at once */
	refusals_tick(g->world->refusals, INT64_MAX);
	most = w->conf->settings.suspend_timeout;
	if (most <= 0 || most > CALM_MOST)
		most = CALM_MOST;
	if (handover_is_calm(w) || w->now - a->since >= most)
		give(g);
}

struct giver *giver_open(struct event_base *base, struct world *world, struct pidfile **pidfile, bool *due)
{
	struct giver *g = mem_try(sizeof(*g));
	char why[256] = "no memory";

	if (!g)
		return NULL;
	g->base = base;
	g->world = world;
	g->pidfile = pidfile;
	g->due = due;
	if (start_listening(g, why, sizeof(why)))
		return g;
	log_warning("an online restart (-R) of this process will not be possible: %s", why);
	mem_free(g);
	return NULL;
}

void giver_close(struct giver **giver)
{
	struct giver *g = *giver;

	*giver = NULL;
	if (!g)
		return;
	asker_free(&g->asker);
	stop_listening(g);
	mem_free(g);
}
