/*
 * Online restart: the conversation of the running process with the process that replaces it, on the
 * socket of conn/takeover_socket.c.
 *
 * new                       old
 * HELLO
 *                           HELLO
 * TAKE                      ... logins and cancel requests in progress end, or a second passes
 *                           NOTIFY, PIDFILE, WORLD ... END
 * READY
 *                           GO
 *
 * Instead of HELLO, NOTIFY or GO, the old process may send a REFUSAL and continue to run; it also
 * continues if the connection ends before GO. The conversation after GO is in
 * cancel/predecessors.c.
 */
#include "handover/handover_parts.h"

#include "auth/client_address.h"
#include "base/bytes.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/service.h"
#include "base/version.h"
#include "conn/listen_sockets.h"
#include "conn/takeover_socket.h"

#include <errno.h>
#include <event2/event.h>
#include <event2/event_struct.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

/* the name of the program in HELLO; another program might use the same socket name */
#define NAME "pgweir"
#define GIVING_PATIENCE 5000		/* ms, for each message of the new process */
/* ms, for each message of the old process, which should give up first */
#define TAKING_PATIENCE 10000
#define DEATH_PATIENCE 2000		/* ms, from the end of a process's sockets to its end */
/* longest delay of new connections for logins in progress */
#define CALM_MOST USEC
#define ASKING_MOST (10 * USEC)		/* from the connection to the request */
#define TELL_EVERY (60 * USEC)		/* between log lines about refused connections */

/* ---- greeting ---- */

/* Each process sends the name of the program and its handover version. */
static bool say_hello(struct records *records, int patience)
{
	struct bytes out = BYTES_EMPTY;
	bool said;

	pack_text(&out, NAME);
	bytes_append_u32(&out, HANDOVER_VERSION);
	pack_text(&out, PGWEIR_VERSION);
	said = records_send(records, HANDOVER_HELLO, &out, -1, patience);
	bytes_free(&out);
	return said;
}

/* Checks the HELLO of the other side. False: another version; `why` says which. */
static bool read_hello(const struct record *record, char *why, size_t why_size)
{
	struct unpack in = unpack_of(record->body, record->size);
	const char *name = unpack_text(&in), *version;
	uint32_t handover = unpack_u32(&in);

	version = unpack_text(&in);
	/* later versions may add fields after it; they are refused below */
	if (record->type != HANDOVER_HELLO || in.bad || !name || !version ||
	    strcmp(name, NAME) != 0) {
		snprintf(why, why_size, "the other process is no pgweir");
		return false;
	}
	if (handover == HANDOVER_VERSION)
		return true;
	snprintf(why, why_size,
		 "pgweir %.32s hands over in version %u, pgweir " PGWEIR_VERSION " in version %d",
		 version, (unsigned)handover, HANDOVER_VERSION);
	return false;
}

/* ---- the old process ---- */

/*
 * One process at a time may ask. Nothing changes until its request. Then new connections wait in
 * the kernel's queue, which is handed over too, until the logins and cancel requests in progress
 * have ended: these cannot be handed over, and usually take some milliseconds. A client stays in
 * this process if its login takes longer than CALM_MOST.
 *
 * The handover takes place in one turn: from the first record to the answer this process does
 * nothing else, so the state that it sends does not change. It waits at most GIVING_PATIENCE for
 * each message of the new process. The point of no return is GO: when the socket has accepted it,
 * everything belongs to the new process and is closed here.
 */

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
	struct listen_socket *socket;	/* NULL: not open, or closed after the handover */
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

static bool send_text(struct records *to, uint8_t type, const char *text, int patience)
{
	struct bytes out = BYTES_EMPTY;
	bool sent;

	pack_text(&out, text);
	sent = records_send(to, type, &out, -1, patience);
	bytes_free(&out);
	return sent;
}

/* Sends a refusal and closes the connection. */
static void conversation_refuse(struct giver *g, const char *why)
{
	log_warning("process %d cannot take over: %s", (int)g->asker->pid, why);
	send_text(g->asker->records, HANDOVER_REFUSAL, why, 0);
	asker_free(&g->asker);
}

/* The handover failed: this process continues. */
static void conversation_resume(struct giver *g, const char *why)
{
	log_warning("process %d has not taken over: %s", (int)g->asker->pid, why);
	if (g->asker->wants)
		world_set_accepting(g->world, true);
	asker_free(&g->asker);
}

static void hear_asker(struct giver *g, const struct record *r)
{
	struct asker *a = g->asker;
	const char *refusal;
	char why[128] = "";

	if (r->fd >= 0)
		close(r->fd);
	if (!a->is_known && read_hello(r, why, sizeof(why))) {
		a->is_known = true;
	} else if (!a->is_known) {
		conversation_refuse(g, why);
	} else if (r->type != HANDOVER_TAKE || a->wants) {
		conversation_resume(g, "it has said something that makes no sense here");
	} else if ((refusal = handover_refusal(g->world)) != NULL) {
		conversation_refuse(g, refusal);
	} else {
		log_info("process %d is about to take over", (int)a->pid);
		a->wants = true;
		a->since = g->world->now;
		world_set_accepting(g->world, false);
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
		switch (records_next(g->asker->records, &r, 0)) {
		case RECORDS_AGAIN:
			return;
		case RECORDS_OK:
			hear_asker(g, &r);
			continue;
		case RECORDS_END:
		case RECORDS_BROKEN:
			conversation_resume(g, g->asker->records->error);
		}
	}
}

/* Logs the first refused connection at once, then at most one line a minute, because any user may
   be able to connect. */
static void tell_refused(struct giver *g)
{
	usec_t now = g->world->now;

	if (g->refused == 0 || (g->told != 0 && now - g->told < TELL_EVERY))
		return;
	log_warning("online restart: connections refused: %u, the last one %s", g->refused,
		    g->reason);
	g->refused = 0;
	g->told = now;
}

/* A process has connected. Only one process of this user may ask at a time. */
static void on_connection(void *context, int fd, const struct address *peer,
			  struct listen_socket *from)
{
	struct giver *g = context;
	struct asker *a;
	int32_t pid = 0;
	uint32_t uid;

	(void)peer, (void)from;
	world_wake(g->world);
	if (!address_unix_peer(fd, &pid, &uid)) {
		snprintf(g->reason, sizeof(g->reason), "of an unknown user");
	} else if (uid != geteuid()) {
		snprintf(g->reason, sizeof(g->reason), "of process %d, which is of user %u",
			 (int)pid, (unsigned)uid);
	} else if (g->asker) {
		snprintf(g->reason, sizeof(g->reason), "of process %d, while process %d takes over",
			 (int)pid, (int)g->asker->pid);
	} else {
		a = mem_try(sizeof(*a));
		if (!a || !(a->records = records_new(fd))) {
			mem_free(a);
			close(fd);
			return;
		}
		a->pid = pid;
		a->since = g->world->now;
		event_assign(&a->readable, g->base, fd, EV_READ | EV_PERSIST, on_asker, g);
		g->asker = a;
		if (event_add(&a->readable, NULL) != 0)
			asker_free(&g->asker);
		else if (!say_hello(a->records, 0))
			conversation_resume(g, a->records->error);
		return;
	}
	g->refused++;
	close(fd);
	tell_refused(g);
}

/* False with a text: no process can take over from now on. */
static bool open_handover_socket(struct giver *g, char *why, size_t why_size)
{
	g->socket = takeover_socket_open(g->base, &g->world->conf->settings, on_connection, g, why,
					 why_size);
	return g->socket;
}

/* Waits for READY and sends GO. Returns NULL, or why the handover failed. */
static const char *confirm_giving(struct giver *g, bool *takes_pidfile)
{
	struct records *channel = g->asker->records;
	struct record r;
	struct unpack in;
	char why[512];

	if (records_next(channel, &r, GIVING_PATIENCE) != RECORDS_OK)
		return channel->error;
	if (r.fd >= 0)
		close(r.fd);
	in = unpack_of(r.body, r.size);
	*takes_pidfile = unpack_bool(&in);
	if (r.type != HANDOVER_READY || !unpack_is_done(&in))
		return "it has answered something that makes no sense here";
	/* stops listening before GO, so that the new process can bind the name */
	listen_socket_close(&g->socket, true);
	if (records_send(channel, HANDOVER_GO, NULL, -1, 0))
		return NULL;
	if (!open_handover_socket(g, why, sizeof(why)))
		log_warning("an online restart (-R) of this process is not possible any more: %s",
			    why);
	return channel->error;
}

static void conversation_give(struct giver *g)
{
	struct records *to = g->asker->records;
	const char *notify = getenv(SERVICE_NOTIFY_SOCKET), *why;
	struct handover_counts counts;
	bool takes_pidfile = false;
	int32_t pid = g->asker->pid;

	if ((notify && !send_text(to, HANDOVER_NOTIFY, notify, GIVING_PATIENCE)) ||
	    (*g->pidfile &&
	     !records_send(to, HANDOVER_PIDFILE, NULL, (*g->pidfile)->lock, GIVING_PATIENCE)) ||
	    !handover_send(g->world, to, GIVING_PATIENCE, &counts)) {
		conversation_resume(g, to->error);
		return;
	}
	why = confirm_giving(g, &takes_pidfile);
	if (why) {
		/* the new process may be alive and still send READY: it must be told */
		send_text(g->asker->records, HANDOVER_REFUSAL, why, GIVING_PATIENCE);
		conversation_resume(g, why);
		return;
	}
	/* everything belongs to the new process; only clients that could not be handed over
	   remain */
	pidfile_release(g->pidfile, !takes_pidfile);
	service_notify("MAINPID=%d", pid);
	unsetenv(SERVICE_NOTIFY_SOCKET);
	event_del(&g->asker->readable);
	g->asker->records = NULL;
	asker_free(&g->asker);
	handover_done(g->world, &to);
	log_info("process %d has taken over: %u clients, %u servers, %u listening sockets; %u "
		 "clients stay here to their end",
		 (int)pid, counts.clients, counts.servers, counts.listeners, counts.staying);
}

void giver_turn(struct giver *g)
{
	const struct world *w;
	struct asker *a;
	usec_t most;

	if (!g)
		return;
	tell_refused(g);
	if (!g->asker)
		return;
	w = g->world;
	a = g->asker;
	if (!a->wants) {
		if (w->now - a->since >= ASKING_MOST)
			conversation_resume(g, "it does not say what it wants");
		return;
	}
	/* a PAUSE or SHUTDOWN may have come since the request */
	if (handover_refusal(w)) {
		world_set_accepting(g->world, true);
		conversation_refuse(g, handover_refusal(w));
		return;
	}
	/* a failed login that waits for its refusal is ended at once */
	refusals_tick(g->world->logins.addresses, INT64_MAX);
	most = w->conf->settings.suspend_timeout;
	if (most <= 0 || most > CALM_MOST)
		most = CALM_MOST;
	if (handover_is_calm(w) || w->now - a->since >= most)
		conversation_give(g);
}

struct giver *giver_open(struct event_base *base, struct world *world, struct pidfile **pidfile,
			 bool *due)
{
	struct giver *g = mem_try(sizeof(*g));
	char why[512] = "no memory";

	if (!g)
		return NULL;
	g->base = base;
	g->world = world;
	g->pidfile = pidfile;
	g->due = due;
	if (open_handover_socket(g, why, sizeof(why)))
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
	listen_socket_close(&g->socket, true);
	mem_free(g);
}

/* ---- the new process ---- */

/*
 * Everything that can fail is done before the confirmation. Before the running process is asked,
 * the configuration is read and checked and the world created. Before READY, missing sockets are
 * opened, the pidfile is locked and every connection is built. After GO everything belongs to this
 * process.
 *
 * If the connection ends between READY and GO, it matters whether the old process is alive. If it
 * is, it has given up the handover and continues; if it has died, this process has everything and
 * continues in its place. A descriptor of the old process, opened while it certainly was the peer
 * (pidfd_open), tells the two cases apart.
 */

struct taker {
	struct records *records;
	int32_t pid;
	/* pidfd of the old process; -1: not supported by the kernel */
	int process;
};

void taker_free(struct taker **place)
{
	struct taker *t = *place;

	*place = NULL;
	if (!t)
		return;
	records_free(&t->records);
	if (t->process >= 0)
		close(t->process);
	mem_free(t);
}

/* Waits for the answer to a request. False: a REFUSAL, or no answer. */
static bool hear(struct taker *t, struct record *r, char *why, size_t why_size, int patience)
{
	struct unpack in;
	const char *text;

	if (records_next(t->records, r, patience) != RECORDS_OK) {
		snprintf(why, why_size, "%s", t->records->error);
		return false;
	}
	if (r->type != HANDOVER_REFUSAL)
		return true;
	if (r->fd >= 0)
		close(r->fd);
	r->fd = -1;
	in = unpack_of(r->body, r->size);
	text = unpack_text(&in);
	snprintf(why, why_size, "%s", text ? text : "it says no");
	return false;
}

enum taker_found taker_find(const struct settings *settings, struct taker **taker, char *why,
			    size_t why_size)
{
	enum taker_found found;
	struct taker *t;
	struct record r;
	int fd;

	*taker = NULL;
	found = takeover_socket_connect(settings, &fd, why, why_size);
	if (found != TAKER_FOUND)
		return found;
	t = mem_must(sizeof(*t));
	t->process = -1;
	t->records = records_new(fd);
	if (!t->records)
		close(fd);
	if (t->records && takeover_check_user(fd, &t->pid)) {
#ifdef SYS_pidfd_open
		t->process = (int)syscall(SYS_pidfd_open, (pid_t)t->pid, 0u);
#endif
		if (!say_hello(t->records, TAKING_PATIENCE)) {
			snprintf(why, why_size, "%s", t->records->error);
		} else if (hear(t, &r, why, why_size, TAKING_PATIENCE)) {
			if (r.fd >= 0)
				close(r.fd);
			if (read_hello(&r, why, why_size)) {
				*taker = t;
				return TAKER_FOUND;
			}
		}
	} else {
		snprintf(why, why_size, "it belongs to another user");
	}
	taker_free(&t);
	return TAKER_REFUSED;
}

/* Requests and handles all records. False, with a problem: not all of them could be used. */
static bool take_all(struct taker *t, struct world *w, struct handover *h, struct pidfile **pidfile,
		     struct conf_problems *problems)
{
	const char *path = w->conf->settings.pidfile;
	struct pidfile *had;
	const char *address;
	struct unpack in;
	struct record r;
	char why[256];

	if (!records_send(t->records, HANDOVER_TAKE, NULL, -1, TAKING_PATIENCE)) {
		conf_problem_add(problems, false, NULL, 0, "cannot take over from process %d: %s",
				 (int)t->pid, t->records->error);
		return false;
	}
	while (!h->is_whole) {
		if (!hear(t, &r, why, sizeof(why), TAKING_PATIENCE)) {
			conf_problem_add(problems, false, NULL, 0,
					 "cannot take over from process %d: %s", (int)t->pid, why);
			return false;
		}
		switch (r.type) {
		case HANDOVER_NOTIFY:
			if (r.fd >= 0)
				close(r.fd);
			in = unpack_of(r.body, r.size);
			address = unpack_text(&in);
			if (address)
				setenv(SERVICE_NOTIFY_SOCKET, address, 1);
			break;
		case HANDOVER_PIDFILE:
			/* The descriptor of the old process's lock, which is shared with it.
			   Earlier versions send the pidfile's descriptor instead; pidfile_adopt()
			   accepts both, so HANDOVER_VERSION did not change. */
			had = *pidfile;
			if (r.fd >= 0 && path && *path && !had)
				*pidfile = pidfile_adopt(path, r.fd);
			if (r.fd >= 0 && *pidfile == had)
				close(r.fd);
			break;
		default:
			if (!handover_take(h, &r, problems))
				return false;
		}
	}
	return true;
}

/* Sends READY, and waits for GO. */
static bool confirm_taking(struct taker *t, bool has_old_pidfile, struct conf_problems *problems)
{
	struct bytes out = BYTES_EMPTY;
	struct record r = { .type = 0, .fd = -1 };
	struct pollfd died = { .fd = t->process, .events = POLLIN };
	char why[256] = "";
	bool heard;

	pack_bool(&out, has_old_pidfile);
	records_send(t->records, HANDOVER_READY, &out, -1, TAKING_PATIENCE);
	bytes_free(&out);
	/* also if READY could not be sent: a REFUSAL may have arrived */
	heard = hear(t, &r, why, sizeof(why), TAKING_PATIENCE);
	if (!heard && r.type == 0) {
		/* from now on GO cannot arrive any more, but it may have arrived before */
		shutdown(t->records->fd, SHUT_RD);
		heard = hear(t, &r, why, sizeof(why), 1);
	}
	if (r.fd >= 0)
		close(r.fd);
	if (heard && r.type == HANDOVER_GO)
		return true;
	if (heard) {
		snprintf(why, sizeof(why), "it has answered something that makes no sense here");
	} else if (r.type == 0 && t->process >= 0 && poll(&died, 1, DEATH_PATIENCE) > 0 &&
		   died.revents & POLLIN) {
		log_warning("process %d has died during the handover: going on in its place",
			    (int)t->pid);
		return true;
	}
	conf_problem_add(problems, false, NULL, 0, "cannot take over from process %d: %s",
			 (int)t->pid, why);
	return false;
}

bool taker_take(struct taker *t, struct world *w, struct pidfile **pidfile,
		struct conf_problems *problems)
{
	const char *path = w->conf->settings.pidfile;
	struct handover *h = handover_begin(w);
	struct handover_counts counts;
	bool has_old_pidfile, is_done;
	char why[512];

	if (!h) {
		conf_problem_add(problems, false, NULL, 0, "out of memory");
		return false;
	}
	is_done = take_all(t, w, h, pidfile, problems);
	has_old_pidfile = *pidfile != NULL;
	/* the sockets and the pidfile of the configuration that were not handed over */
	if (is_done && path && *path && !*pidfile &&
	    !(*pidfile = pidfile_take(path, why, sizeof(why)))) {
		conf_problem_add(problems, false, NULL, 0, "%s", why);
		is_done = false;
	}
	if (!is_done || !world_listen(w, NULL, 0, problems) ||
	    !confirm_taking(t, has_old_pidfile, problems)) {
		handover_undo(&h);
		pidfile_release(pidfile, !has_old_pidfile);
		return false;
	}
	if (has_old_pidfile && !pidfile_write(*pidfile))
		log_warning("cannot write the pidfile: %s", strerror(errno));
	counts = h->counts;
	handover_finish(&h, &t->records);
	log_info("took over from process %d: %u clients, %u servers, %u listening sockets; %u "
		 "clients stay there to their end",
		 (int)t->pid, counts.clients, counts.servers, counts.listeners, counts.staying);
	return true;
}
