/*
 * The process of a verifier: how pgweir starts and ends it, and its inside. It reads a question,
 * asks PAM or LDAP (ldap_bind.c) or derives a key, answers, and repeats until pgweir closes the
 * socket.
 *
 * A verifier executes modules of other authors, which may block, leak, crash or be misconfigured.
 * Therefore it is a separate process with none of pgweir's memory or descriptors. The program is
 * executed again instead of forked. A fork would give the modules every password, key and session
 * in pgweir's memory. It would also copy the page tables of a process with many thousand clients,
 * while all of them wait. /proc/self/exe is the running binary, even if an upgrade has replaced the
 * file.
 *
 * The verifier ends together with pgweir (PR_SET_PDEATHSIG, and the end of the socket). Signals
 * that a service manager sends to the whole group are ignored, so that a login in progress can end.
 * The buffer with the password is wiped after each question, and core files are disabled.
 */
#include "verify/child.h"

#include "base/text.h"
#include "pg/scram.h"
#include "verify/ldap_bind.h"
#include "verify/datagram.h"

#include <errno.h>
#include <fcntl.h>
#ifdef HAVE_PAM
#include <security/pam_appl.h>
#endif
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- pgweir's side ---- */

/* Starts the verifier with the socket as standard input. Returns an errno; 0: *pid is set. */
static int spawn(int fd, pid_t *pid)
{
	char name[] = "pgweir", option[] = VERIFY_CHILD_OPTION, parent[24];
	char *const arguments[] = { name, option, parent, NULL };
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	sigset_t none, all;
	int error;

	snprintf(parent, sizeof(parent), "%ld", (long)getpid());
	sigemptyset(&none);
	sigfillset(&all);
	if ((error = posix_spawn_file_actions_init(&actions)))
		return error;
	if ((error = posix_spawnattr_init(&attributes))) {
		posix_spawn_file_actions_destroy(&actions);
		return error;
	}
	/* default signal handling, and a process group to kill the verifier together with processes
	   of its modules */
	if (!(error = posix_spawn_file_actions_adddup2(&actions, fd, STDIN_FILENO)) &&
	    !(error = posix_spawnattr_setsigmask(&attributes, &none)) &&
	    !(error = posix_spawnattr_setsigdefault(&attributes, &all)) &&
	    !(error = posix_spawnattr_setpgroup(&attributes, 0)) &&
	    !(error = posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK |
								    POSIX_SPAWN_SETSIGDEF |
								    POSIX_SPAWN_SETPGROUP)))
		error = posix_spawn(pid, "/proc/self/exe", &actions, &attributes, arguments,
				    environ);
	posix_spawnattr_destroy(&attributes);
	posix_spawn_file_actions_destroy(&actions);
	return error;
}

pid_t verify_process_start(int *fd)
{
	const int room = 2 * VERIFY_QUESTION_MOST;
	int ends[2], error;
	pid_t pid = -1;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return -1;
	/* a question must fit into the buffer as a whole */
	setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
	error = fcntl(ends[0], F_SETFL, O_NONBLOCK) < 0 ? errno : spawn(ends[1], &pid);
	close(ends[1]);
	if (error) {
		close(ends[0]);
		errno = error;
		return -1;
	}
	*fd = ends[0];
	return pid;
}

void verify_process_kill(pid_t pid)
{
	kill(-pid, SIGKILL);
}

bool verify_process_reap(pid_t pid, int *status)
{
	pid_t found = waitpid(pid, status, WNOHANG);

	if (found == 0 || (found < 0 && errno == EINTR))
		return false;
	if (found < 0)
		*status = -1;
	return true;
}

/* ---- the inside ---- */

static void ignore(int signum)
{
	(void)signum;
}

/* Moves the socket to a close-on-exec descriptor, so that programs started by modules do not
   inherit it. -1: failed. */
static int take_socket(void)
{
	struct rlimit limit;
	bool are_closed = false;
	int fd, nothing;

	/* pgweir's descriptors are close-on-exec, but descriptors that pgweir inherited may not
	   be */
#ifdef SYS_close_range
	are_closed = syscall(SYS_close_range, 3U, ~0U, 0U) == 0;
#endif
	if (!are_closed && getrlimit(RLIMIT_NOFILE, &limit) == 0)
		for (rlim_t other = 3; other < limit.rlim_cur; other++)
			close((int)other);
	fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
	nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (nothing < 0 || dup2(nothing, STDIN_FILENO) < 0 || dup2(nothing, STDOUT_FILENO) < 0)
		return -1;
	close(nothing);
	return fd;
}

/* ---- PAM ---- */

/*
 * Asks whether the modules of the service accept the user and its password, and whether the account
 * is valid.
 *
 * The conversation function answers every prompt without echo with the password. Messages of
 * modules to the user are logged, because PostgreSQL's protocol cannot deliver them. A locked or
 * expired account, or one in need of a new password, is refused, even with the correct password.
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
static int converse(int count, const struct pam_message **messages, struct pam_response **out,
		    void *context)
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
			snprintf(talk->said, sizeof(talk->said), "%s",
				 messages[i]->msg ? messages[i]->msg : "");
			continue;
		case PAM_TEXT_INFO:
			continue;
		default:
			snprintf(talk->said, sizeof(talk->said),
				 "a module asks for more than a password: %s",
				 messages[i]->msg ? messages[i]->msg : "");
			forget_replies(replies, count);
			return PAM_CONV_ERR;
		}
	}
	*out = replies;
	return PAM_SUCCESS;
}

static void verify_pam(const struct verify_question *q, struct verify_answer *answer)
{
	struct conversation talk = { .password = q->password };
	const struct pam_conv conv = { converse, &talk };
	enum verify_verdict verdict = VERIFIED_UNKNOWN;
	pam_handle_t *handle = NULL;
	const char *step = "pam_start";
	int status;

#ifdef PGWEIR_TEST_BUILD
	/* tests use their own services, and do not run as root */
	if (getenv("PGWEIR_PAM_CONFDIR"))
		status = pam_start_confdir(q->service, q->user, &conv, getenv("PGWEIR_PAM_CONFDIR"),
					   &handle);
	else
#endif
		status = pam_start(q->service, q->user, &conv, &handle);
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
	switch (status) {
	case PAM_AUTH_ERR:
	case PAM_USER_UNKNOWN:
	case PAM_MAXTRIES:
	case PAM_PERM_DENIED:
	case PAM_ACCT_EXPIRED:
	case PAM_NEW_AUTHTOK_REQD: case PAM_CRED_EXPIRED: case PAM_AUTHTOK_EXPIRED:
		/* the fault of the user, not of the system */
		verdict = VERIFIED_NO;
		break;
	default:
		break;
	}
	if (status == PAM_SUCCESS)
		verify_answer_set(answer, VERIFIED_YES, "%s", "");
	else
		verify_answer_set(answer, verdict, "%s: %s%s%s%s", step,
				  pam_strerror(handle, status), *talk.said ? " (" : "", talk.said,
				  *talk.said ? ")" : "");
	if (handle)
		pam_end(handle, status);
}
#endif

/* ---- SCRAM ---- */

/*
 * Derives SaltedPassword from a password, a salt and an iteration count (RFC 5802, 3), which is
 * slow by design. This runs in a verifier so that it does not block the event loop.
 *
 * pgweir compares the result with the secret, which is not sent to the verifier.
 */
#define DERIVES_NICE 10			/* nice value */

/* ---- questions ---- */

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
	if (size <= 0 || size > VERIFY_QUESTION_MOST ||
	    !verify_question_read(buffer, (size_t)size, &ticket, &q, &options))
		return false;
	switch (q.method) {
	case VERIFY_PAM:
#ifdef HAVE_PAM
		verify_pam(&q, &answer);
#else
		verify_answer_set(&answer, VERIFIED_UNKNOWN, "this pgweir was built without PAM");
#endif
		break;
	case VERIFY_LDAP:
#ifdef HAVE_LDAP
		verify_ldap(fd, ticket, &q, &answer);
#else
		verify_answer_set(&answer, VERIFIED_UNKNOWN, "this pgweir was built without LDAP");
#endif
		break;
	case VERIFY_SCRAM:
		/* even if an attack keeps this process busy, it gets only CPU time that other
		   processes do not use */
		setpriority(PRIO_PROCESS, 0, DERIVES_NICE);
		verify_answer_set(&answer, VERIFIED_YES, "%s", "");
		answer.has_key = scram_salted_derive(q.password, q.salt, q.salt_size, q.iterations,
						     answer.salted);
		if (!answer.has_key)
			verify_answer_set(&answer, VERIFIED_UNKNOWN,
					  "no memory, or OpenSSL derives no such key");
		break;
	}
	mem_wipe(buffer, (size_t)size);
	verify_answer_write(&out, ticket, &answer);
	mem_wipe(&answer, sizeof(answer));
	ok = !out.failed && send(fd, bytes_front(&out), bytes_size(&out), MSG_NOSIGNAL) >= 0;
	bytes_wipe(&out);
	return ok;
}

bool verify_child_run(int argc, char **argv)
{
	static const int ignored[] = { SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2 };
	struct sigaction action = { .sa_handler = ignore, .sa_flags = SA_RESTART };
	uint8_t *buffer;
	int64_t parent;
	int fd;

	if (argc != 3 || strcmp(argv[1], VERIFY_CHILD_OPTION) != 0)
		return false;
	/* a handler, because programs that modules start would inherit SIG_IGN */
	for (size_t i = 0; i < sizeof(ignored) / sizeof(ignored[0]); i++)
		sigaction(ignored[i], &action, NULL);
	action.sa_handler = SIG_IGN;
	sigaction(SIGPIPE, &action, NULL);
	prctl(PR_SET_NAME, "pgweir-verifier");
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || !text_to_int64(argv[2], &parent) ||
	    parent != getppid())
		_exit(1);
	setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
#ifndef PGWEIR_TEST_BUILD	/* the sanitizer must be able to trace */
	prctl(PR_SET_DUMPABLE, 0UL, 0UL, 0UL, 0UL);
#endif
	buffer = mem_must(VERIFY_QUESTION_MOST);
	fd = take_socket();
	while (fd >= 0 && serve(fd, buffer))
		;
	/* not exit: exit handlers of modules may block */
	_exit(0);
}
