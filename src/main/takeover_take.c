/*
 * Online restart, the new process: finds the running process, receives everything, and confirms.
 *
 * Everything that can fail is done before the confirmation: the configuration is read and checked and the world created before
 * the running process is asked; missing sockets are opened, the pidfile is locked and every connection is built before READY.
 * After GO everything belongs to this process.
 *
 * If the connection ends between READY and GO, it matters whether the old process is alive. If it is, it has given up the
 * handover and continues; if it has died, this process has everything and continues in its place. A descriptor of the old
 * process, opened while it certainly was the peer (pidfd_open), tells the two cases apart.
 */
#include "main/takeover.h"

#include "base/bytes.h"
#include "base/log.h"
#include "base/mem.h"
#include "main/daemon.h"
#include "core/world.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PATIENCE 10000			/* ms, for each message; longer than PATIENCE of the old process, which should give up first */
#define DEATH_PATIENCE 2000		/* ms, from the end of a process's sockets to its end */

struct taker {
	struct records *records;
	int32_t pid;
	int process;			/* pidfd of the old process; -1: not supported by the kernel */
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

/* ---- finding the old process ---- */

static int open_process(int32_t pid)
{
#ifdef SYS_pidfd_open
	return (int)syscall(SYS_pidfd_open, (pid_t)pid, 0u);
#else
	(void)pid;
	return -1;
#endif
}

/* Waits for the answer to a request. False: a REFUSAL, or no answer. */
static bool hear(struct taker *t, struct record *r, char *why, size_t why_size, int patience)
{
	struct unpack in;
	const char *text;

	if (records_wait(t->records, r, patience) != RECORDS_OK) {
		snprintf(why, why_size, "%s", records_error(t->records));
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

static bool greet(struct taker *t, char *why, size_t why_size)
{
	struct record r;

	if (!takeover_say_hello(t->records, PATIENCE)) {
		snprintf(why, why_size, "%s", records_error(t->records));
		return false;
	}
	if (!hear(t, &r, why, why_size, PATIENCE))
		return false;
	if (r.fd >= 0)
		close(r.fd);
	return takeover_read_hello(&r, why, why_size);
}

enum taker_found taker_find(const struct settings *settings, struct taker **taker, char *why, size_t why_size)
{
	enum taker_found found;
	struct taker *t;
	int fd;

	*taker = NULL;
	found = takeover_connect(settings, &fd, why, why_size);
	if (found != TAKER_FOUND)
		return found;
	t = mem_must(sizeof(*t));
	t->process = -1;
	t->records = records_new(fd);
	if (!t->records)
		close(fd);
	if (t->records && takeover_check_user(fd, &t->pid)) {
		t->process = open_process(t->pid);
		if (greet(t, why, why_size)) {
			*taker = t;
			return TAKER_FOUND;
		}
	} else {
		snprintf(why, why_size, "it belongs to another user");
	}
	taker_free(&t);
	return TAKER_REFUSED;
}

/* ---- taking ---- */

/* Handles the descriptor of the old process's lock, which is shared with it. Earlier versions send the pidfile's descriptor
   instead; pidfile_adopt() accepts both, so HANDOVER_VERSION did not change. */
static void offer_pidfile(const struct settings *settings, struct pidfile **pidfile, int fd)
{
	struct pidfile *ours = NULL;

	if (settings->pidfile && *settings->pidfile && !*pidfile)
		ours = pidfile_adopt(settings->pidfile, fd);
	if (ours)
		*pidfile = ours;
	else
		close(fd);
}

static bool take_one(struct world *w, struct handover *h, const struct record *r, struct pidfile **pidfile, struct conf_problems *problems)
{
	struct unpack in = unpack_of(r->body, r->size);

	switch (r->type) {
	case HANDOVER_NOTIFY:
		if (r->fd >= 0)
			close(r->fd);
		notify_adopt(unpack_text(&in));
		return true;
	case HANDOVER_PIDFILE:
		if (r->fd >= 0)
			offer_pidfile(&w->conf->settings, pidfile, r->fd);
		return true;
	default:
		return handover_take(h, r, problems);
	}
}

static bool take_all(struct taker *t, struct world *w, struct handover *h, struct pidfile **pidfile, struct conf_problems *problems)
{
	struct record r;
	char why[256];

	if (!records_send(t->records, HANDOVER_TAKE, NULL, -1, PATIENCE)) {
		conf_problem_add(problems, false, NULL, 0, "cannot take over from process %d: %s", (int)t->pid, records_error(t->records));
		return false;
	}
	while (!handover_is_whole(h)) {
		if (!hear(t, &r, why, sizeof(why), PATIENCE)) {
			conf_problem_add(problems, false, NULL, 0, "cannot take over from process %d: %s", (int)t->pid, why);
			return false;
		}
		if (!take_one(w, h, &r, pidfile, problems))
			return false;
	}
	return true;
}

/* Opens the sockets and the pidfile of the configuration that were not handed over. */
static bool add_own(struct world *w, bool *has_old_pidfile, struct pidfile **pidfile, struct conf_problems *problems)
{
	const char *path = w->conf->settings.pidfile;
	char why[512];

	*has_old_pidfile = *pidfile != NULL;
	if (path && *path && !*pidfile && !(*pidfile = pidfile_take(path, why, sizeof(why)))) {
		conf_problem_add(problems, false, NULL, 0, "%s", why);
		return false;
	}
	return world_listen(w, NULL, 0, problems);
}

static bool old_process_has_died(const struct taker *t)
{
	struct pollfd p = { .fd = t->process, .events = POLLIN };

	return t->process >= 0 && poll(&p, 1, DEATH_PATIENCE) > 0 && (p.revents & POLLIN);
}

/* Sends READY, and waits for GO. */
static bool get_the_word(struct taker *t, bool has_old_pidfile, struct conf_problems *problems)
{
	struct bytes out = BYTES_EMPTY;
	struct record r = { .type = 0, .fd = -1 };
	char why[256] = "";
	bool heard;

	pack_bool(&out, has_old_pidfile);
	records_send(t->records, HANDOVER_READY, &out, -1, PATIENCE);
	bytes_free(&out);
	/* also if READY could not be sent: a REFUSAL may have arrived */
	heard = hear(t, &r, why, sizeof(why), PATIENCE);
	if (!heard && r.type == 0) {
		/* from now on GO cannot arrive any more, but it may have arrived before */
		shutdown(records_fd(t->records), SHUT_RD);
		heard = hear(t, &r, why, sizeof(why), 0);
	}
	if (r.fd >= 0)
		close(r.fd);
	if (heard && r.type == HANDOVER_GO)
		return true;
	if (heard) {
		snprintf(why, sizeof(why), "it has answered something that makes no sense here");
	} else if (r.type == 0 && old_process_has_died(t)) {
		log_warning("process %d has died during the hand-over: going on in its place", (int)t->pid);
		return true;
	}
	conf_problem_add(problems, false, NULL, 0, "cannot take over from process %d: %s", (int)t->pid, why);
	return false;
}

static void give_up(struct handover **h, struct pidfile **pidfile, bool has_old_pidfile)
{
	handover_undo(h);
	if (has_old_pidfile)
		pidfile_forget(pidfile);
	else
		pidfile_release(pidfile);
}

bool taker_take(struct taker *t, struct world *w, struct pidfile **pidfile, struct conf_problems *problems)
{
	struct handover *h = handover_begin(w);
	struct handover_counts counts;
	bool has_old_pidfile = true;

	if (!h) {
		conf_problem_add(problems, false, NULL, 0, "out of memory");
		return false;
	}
	if (!take_all(t, w, h, pidfile, problems) || !add_own(w, &has_old_pidfile, pidfile, problems) ||
	    !get_the_word(t, has_old_pidfile, problems)) {
		give_up(&h, pidfile, has_old_pidfile);
		return false;
	}
	if (has_old_pidfile && !pidfile_write(*pidfile))
		log_warning("cannot write the pidfile: %s", strerror(errno));
	counts = *handover_counted(h);
	handover_finish(&h, &t->records);
	log_info("took over from process %d: %u clients, %u servers, %u listening sockets; %u clients stay there to their end", (int)t->pid,
		 counts.clients, counts.servers, counts.listeners, counts.staying);
	return true;
}
