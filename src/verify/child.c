/*
 * The inside of a verifier: reads a question, asks PAM or LDAP or derives a key, answers, and repeats until its parent closes
 * the socket.
 *
 * A verifier executes modules of other authors, which may block, leak, crash or be misconfigured. Therefore it is a separate process,
 * started by exec: it has none of pgweir's memory or descriptors. It ends together with its parent (PR_SET_PDEATHSIG, and the
 * end of the socket). Signals that a service manager sends to the whole group are ignored, so that a login in progress can end.
 *
 * The buffer with the password is wiped after each question, and core files are disabled.
 */
#include "verify/child.h"

#include "base/text.h"
#include "verify/ldap.h"

#include <errno.h>
#include <fcntl.h>
#ifdef HAVE_PAM
#include <security/pam_appl.h>
#endif
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The last answer, prepared for sending from a signal handler. */
static int late_socket = -1;
static uint8_t late_answer[VERIFY_ANSWER_MOST];
static size_t late_size;

bool verify_child_is_wanted(int argc, char *const *argv)
{
	return argc == 3 && strcmp(argv[1], VERIFY_CHILD_OPTION) == 0;
}

static void pass_over(int signum)
{
	(void)signum;
}

static void give_up(void)
{
	send(late_socket, late_answer, late_size, MSG_NOSIGNAL);
	_exit(0);
}

/* Handlers instead of SIG_IGN, because programs started by modules would inherit SIG_IGN. */
static void set_signals(void)
{
	static const int passed[] = { SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2 };
	struct sigaction action = { .sa_handler = pass_over, .sa_flags = SA_RESTART };

	for (size_t i = 0; i < sizeof(passed) / sizeof(passed[0]); i++)
		sigaction(passed[i], &action, NULL);
	action.sa_handler = SIG_IGN;
	sigaction(SIGPIPE, &action, NULL);
}

/* pgweir's descriptors are close-on-exec, but descriptors that pgweir inherited may not be. */
static void close_others(void)
{
	struct rlimit limit;

#ifdef SYS_close_range
	if (syscall(SYS_close_range, 3U, ~0U, 0U) == 0)
		return;
#endif
	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return;
	for (rlim_t fd = 3; fd < limit.rlim_cur; fd++)
		close((int)fd);
}

/* Moves the socket to a close-on-exec descriptor, so that programs started by modules do not inherit it. -1: failed. */
static int take_socket(void)
{
	int fd, nothing;

	close_others();
	fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
	nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (nothing < 0 || dup2(nothing, STDIN_FILENO) < 0 || dup2(nothing, STDOUT_FILENO) < 0)
		return -1;
	close(nothing);
	return fd;
}

/* ---- PAM ---- */

/*
 * Asks whether the modules of the service accept the user and its password, and whether the account is valid.
 *
 * The conversation function answers every prompt without echo with the password. Messages of modules to the user are logged,
 * because PostgreSQL's protocol cannot deliver them. An account that is locked, has expired, or requires a new password is
 * refused, even with the correct password.
 */
#ifdef HAVE_PAM
struct conversation {
	const char *password;
	char said[160];			/* the last error message of a module */
};

static void forget_replies(struct pam_response *replies, int count)
{
	for (int i = 0; i < count; i++) {
		if (replies[i].resp)
			mem_wipe(replies[i].resp, strlen(replies[i].resp));
		free(replies[i].resp);
	}
	free(replies);
}

/* The replies are allocated with malloc, because PAM frees (and wipes) them. */
static int converse(int count, const struct pam_message **messages, struct pam_response **out, void *context)
{
	struct conversation *talk = context;
	struct pam_response *replies;

	if (count <= 0 || count > PAM_MAX_NUM_MSG)
		return PAM_CONV_ERR;
	replies = calloc((size_t)count, sizeof(*replies));
	if (!replies)
		return PAM_BUF_ERR;
	for (int i = 0; i < count; i++) {
		switch (messages[i]->msg_style) {
		case PAM_PROMPT_ECHO_OFF:
			replies[i].resp = strdup(talk->password);
			if (replies[i].resp)
				continue;
			forget_replies(replies, count);
			return PAM_BUF_ERR;
		case PAM_ERROR_MSG:
			snprintf(talk->said, sizeof(talk->said), "%s", messages[i]->msg ? messages[i]->msg : "");
			continue;
		case PAM_TEXT_INFO:
			continue;
		default:
			snprintf(talk->said, sizeof(talk->said), "a module asks for more than a password: %s",
				 messages[i]->msg ? messages[i]->msg : "");
			forget_replies(replies, count);
			return PAM_CONV_ERR;
		}
	}
	*out = replies;
	return PAM_SUCCESS;
}

static int start(const struct verify_question *q, const struct pam_conv *conv, pam_handle_t **handle)
{
#ifdef PGWEIR_TEST_BUILD
	/* tests use their own services, and do not run as root */
	const char *directory = getenv("PGWEIR_PAM_CONFDIR");

	if (directory)
		return pam_start_confdir(q->service, q->user, conv, directory, handle);
#endif
	return pam_start(q->service, q->user, conv, handle);
}

/* Tells failures of the user from failures of the system. */
static enum verify_verdict verdict_of(int status)
{
	switch (status) {
	case PAM_AUTH_ERR: case PAM_USER_UNKNOWN: case PAM_MAXTRIES: case PAM_PERM_DENIED: case PAM_ACCT_EXPIRED:
	case PAM_NEW_AUTHTOK_REQD: case PAM_CRED_EXPIRED: case PAM_AUTHTOK_EXPIRED:
		return VERIFIED_NO;
	default:
		return VERIFIED_UNKNOWN;
	}
}

static void verify_pam(const struct verify_question *q, struct verify_answer *answer)
{
	struct conversation talk = { .password = q->password };
	const struct pam_conv conv = { converse, &talk };
	pam_handle_t *handle = NULL;
	const char *step = "pam_start";
	int status = start(q, &conv, &handle);

	if (status == PAM_SUCCESS && q->remote) {
		step = "pam_set_item";
		status = pam_set_item(handle, PAM_RHOST, q->remote);
	}
	if (status == PAM_SUCCESS) {
		step = "pam_authenticate";
		status = pam_authenticate(handle, 0);
	}
	if (status == PAM_SUCCESS) {
		step = "pam_acct_mgmt";
		status = pam_acct_mgmt(handle, 0);
	}
	if (status == PAM_SUCCESS)
		verify_answer_set(answer, VERIFIED_YES, "%s", "");
	else
		verify_answer_set(answer, verdict_of(status), "%s: %s%s%s%s", step, pam_strerror(handle, status),
				  *talk.said ? " (" : "", talk.said, *talk.said ? ")" : "");
	if (handle)
		pam_end(handle, status);
}
#else
static void verify_pam(const struct verify_question *q, struct verify_answer *answer)
{
	(void)q;
	verify_answer_set(answer, VERIFIED_UNKNOWN, "this pgweir was built without PAM");
}
#endif

/* ---- SCRAM ---- */

/*
 * Derives SaltedPassword from a password, a salt and an iteration count (RFC 5802, 3), which is slow by design. This
 * runs in a verifier so that it does not block the event loop.
 *
 * pgweir compares the result with the secret, which is not sent to the verifier.
 */
#define BEHIND_OTHERS 10		/* nice value */

static void verify_scram(const struct verify_question *q, struct verify_answer *answer)
{
	/* an attack that keeps this process busy gets only CPU time that other processes do not use */
	setpriority(PRIO_PROCESS, 0, BEHIND_OTHERS);
	verify_answer_set(answer, VERIFIED_YES, "%s", "");
	answer->has_key = scram_salted_derive(q->password, q->salt, q->salt_size, q->iterations, answer->salted);
	if (!answer->has_key)
		verify_answer_set(answer, VERIFIED_UNKNOWN, "no memory, or OpenSSL derives no such key");
}

/* ---- questions ---- */

static void prepare_to_give_up(uint64_t ticket, const struct verify_question *q)
{
	struct verify_answer late;
	struct bytes out = BYTES_EMPTY;

	verify_answer_set(&late, VERIFIED_UNKNOWN, "%.256s: no answer in time", q->ldap->servers);
	verify_answer_write(&out, ticket, &late);
	late_size = !out.failed && bytes_size(&out) <= sizeof(late_answer) ? bytes_size(&out) : 0;
	memcpy(late_answer, bytes_front(&out), late_size);
	bytes_free(&out);
}

static void ask(uint64_t ticket, const struct verify_question *q, struct verify_answer *answer)
{
	switch (q->method) {
	case VERIFY_PAM:
		verify_pam(q, answer);
		return;
	case VERIFY_LDAP:
		prepare_to_give_up(ticket, q);
		verify_ldap(q, answer, give_up);
		return;
	case VERIFY_SCRAM:
		verify_scram(q, answer);
		return;
	}
}

/* Answers one question. False: no more questions, or the parent has ended. */
static bool serve(int fd, uint8_t *buffer)
{
	ssize_t size = recv(fd, buffer, VERIFY_QUESTION_MOST, MSG_TRUNC);
	struct bytes out = BYTES_EMPTY;
	struct verify_question q;
	struct verify_answer answer;
	struct ldap_options options;
	uint64_t ticket;
	bool ok;

	if (size < 0 && errno == EINTR)
		return true;
	if (size <= 0 || size > VERIFY_QUESTION_MOST || !verify_question_read(buffer, (size_t)size, &ticket, &q, &options))
		return false;
	ask(ticket, &q, &answer);
	mem_wipe(buffer, (size_t)size);
	verify_answer_write(&out, ticket, &answer);
	mem_wipe(&answer, sizeof(answer));
	ok = !out.failed && send(fd, bytes_front(&out), bytes_size(&out), MSG_NOSIGNAL) >= 0;
	bytes_wipe(&out);
	return ok;
}

int verify_child_run(char **argv)
{
	uint8_t *buffer = mem_must(VERIFY_QUESTION_MOST);
	int64_t parent;

	set_signals();
	prctl(PR_SET_NAME, "pgweir-verifier");
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || !text_to_int64(argv[2], &parent) || parent != getppid())
		return 1;
	setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
#ifndef PGWEIR_TEST_BUILD	/* the sanitizer must be able to trace */
	prctl(PR_SET_DUMPABLE, 0UL, 0UL, 0UL, 0UL);
#endif
	late_socket = take_socket();
	while (late_socket >= 0 && serve(late_socket, buffer))
		;
	/* not exit: exit handlers of modules may block */
	_exit(0);
}
