/*
 * A verifier, from its start to its end.
 *
 * A verifier has one question at a time, and the answer contains the ticket of the question, so that it cannot be taken for the
 * answer to another question. Any other message ends the verifier, which only affects the current login.
 */
#include "verify/verifier_parts.h"

#include "base/log.h"
#include "verify/process.h"

#include <errno.h>
#include <event2/event.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define ANSWERS_MOST 1000		/* then it is replaced, because modules may leak memory */

/* Ends the verifier. The caller handles its check. */
static void end(struct verifier *one)
{
	if (one->readable)
		event_free(one->readable);
	one->readable = NULL;
	close(one->fd);
	one->fd = -1;
	one->check = NULL;
	list_remove(&one->node);
	list_append(&one->of->ended, &one->node);
	verify_process_kill(one->pid);
}

void verifier_end(struct verifier *one)
{
	one->is_killed = true;
	end(one);
}

/* The verifier has failed or sent an invalid message: its current login fails. */
static void give_up(struct verifier *one, const char *what)
{
	struct verify_check *check = one->check;
	struct verify_answer answer;

	log_warning("verifier %d %s", (int)one->pid, what);
	end(one);
	if (!check)
		return;
	verify_answer_set(&answer, VERIFIED_UNKNOWN, "the verifier at work on it (process %d) %s", (int)one->pid, what);
	verify_check_finish(check, &answer);
}

/* Handles the answer. The verifier is idle or ended before the answer is reported, because the client may ask again. */
static void settle(struct verifier *one, const struct verify_answer *answer)
{
	struct verify_check *check = one->check;

	one->check = NULL;
	one->answered++;
	one->since = one->of->now;
	list_remove(&one->node);
	list_prepend(&one->of->idle, &one->node);
	if (one->is_old || one->answered >= ANSWERS_MOST || one->of->processes > one->of->limits.processes)
		verifier_end(one);
	else if (verifiers_waiting(one->of) > 0)
		verifiers_want_dispatch(one->of);
	verify_check_finish(check, answer);
}

static void on_readable(evutil_socket_t fd, short what, void *context)
{
	struct verifier *one = context;
	uint8_t data[VERIFY_ANSWER_MOST];
	struct verify_answer answer;
	uint64_t ticket;
	ssize_t size = recv(fd, data, sizeof(data), MSG_TRUNC);

	(void)what;
	if (size < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (size <= 0)
		give_up(one, one->check ? "has ended without an answer" : "has ended");
	else if (size > (ssize_t)sizeof(data) || !verify_answer_read(data, (size_t)size, &ticket, &answer))
		give_up(one, "said what is no answer");
	else if (!one->check || ticket != one->check->ticket)
		give_up(one, "answered what was not asked");
	else if (answer.has_key != (one->check->method == VERIFY_SCRAM && answer.verdict == VERIFIED_YES))
		give_up(one, "answered something else than was asked");
	else
		settle(one, &answer);
	mem_wipe(data, sizeof(data));
	mem_wipe(&answer, sizeof(answer));
}

struct verifier *verifier_start(struct verifiers *v)
{
	struct verifier *one = mem_try(sizeof(*one));

	if (!one)
		return NULL;
	one->pid = verify_process_start(&one->fd);
	if (one->pid < 0) {
		mem_free(one);
		return NULL;
	}
	one->of = v;
	one->since = v->now;
	list_init(&one->node);
	list_append(&v->idle, &one->node);
	v->processes++;
	one->readable = event_new(v->base, one->fd, EV_READ | EV_PERSIST, on_readable, one);
	if (!one->readable || event_add(one->readable, NULL) < 0) {
		verifier_end(one);
		errno = ENOMEM;
		return NULL;
	}
	log_debug("verifier %d was started", (int)one->pid);
	return one;
}

void verifier_give(struct verifier *one, struct verify_check *check)
{
	const struct bytes *question = &check->question;
	ssize_t sent = send(one->fd, bytes_front(question), bytes_size(question), MSG_NOSIGNAL | MSG_DONTWAIT);

	check->by = one;
	one->check = check;
	list_remove(&one->node);
	list_append(&one->of->busy, &one->node);
	bytes_wipe(&check->question);
	if (sent < 0)
		give_up(one, "does not take questions");
}

static void log_death(const struct verifier *one, int status)
{
	if (one->is_killed || status < 0)
		return;
	if (WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL)
		log_warning("verifier %d was ended by signal %d (%s)", (int)one->pid, WTERMSIG(status), strsignal(WTERMSIG(status)));
	else if (WIFEXITED(status) && WEXITSTATUS(status) != 0)
		log_warning("verifier %d ended with status %d", (int)one->pid, WEXITSTATUS(status));
}

void verifier_reap(struct verifier *one)
{
	int status;

	if (!verify_process_reap(one->pid, &status))
		return;
	log_death(one, status);
	one->of->processes--;
	list_remove(&one->node);
	mem_free(one);
}
