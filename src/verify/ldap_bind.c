/*
 * LDAP: a user is authenticated by a bind (RFC 4511, 4.2; RFC 4513, 5.1.3) with its password.
 *
 * simple bind     binds as prefix + user + suffix
 * search + bind   finds the only entry that matches the filter, then binds as it, over the same
 *                 connection
 *
 * Directories return success in more cases than a correct password, and none of them may be
 * accepted. A bind with an empty password or an empty name is anonymous and succeeds (RFC 4513,
 * 5.1.2), so neither is sent. Referrals lead to servers that are not configured, so they are not
 * followed. A user name with special characters in a filter or a DN could select another user's
 * entry, so it is refused.
 *
 * If the search finds no user, a bind with a random name and password follows: otherwise the time
 * of the answer would show which users exist.
 *
 * Each server has ldap_timeout for all requests; the next server is tried only if a server cannot
 * be reached, never because of its answer. The library's timeout does not apply while an answer
 * arrives slowly, nor in a TLS handshake. Therefore an alarm shuts down the socket, which ends all
 * waiting of the library, and the next server is tried. If this does not help (there is no socket
 * during a name lookup), the verifier gives up.
 */
#include "verify/ldap_bind.h"

#ifdef HAVE_LDAP

#include "base/assert.h"
#include "base/list.h"
#include "base/text.h"

#include <errno.h>
#include <lber.h>
#include <ldap.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#define MESSAGE_MOST (256 * 1024)	/* bytes; a search without attributes has small answers */
/* bytes of all messages: the library keeps the messages of a search until the last one */
#define ANSWERS_MOST (1024 * 1024)
#define HOST_MOST 256
#define DN_MOST 8192

struct attempt {
	const struct verify_question *question;
	struct verify_answer *answer;
	char host[HOST_MOST];
	LDAP *ld;
	usec_t deadline;
	size_t received;		/* bytes */
	/* why a step has failed, as a code of the library; 0: no failure, or a reason outside the
	   library */
	int code;
	struct ldap_conncb on_connect;
};

#define ALARM_GRACE 3			/* alarms, one second apart, before the verifier gives up */

/* The last answer, prepared for sending from a signal handler. */
static int late_socket = -1;
static uint8_t late_answer[VERIFY_ANSWER_MOST];
static size_t late_size;
static volatile sig_atomic_t alarm_socket = -1, alarm_count;

static void on_alarm(int signum)
{
	int saved = errno;

	(void)signum;
	if (alarm_socket >= 0)
		shutdown(alarm_socket, SHUT_RDWR);
	if (++alarm_count > ALARM_GRACE) {
		send(late_socket, late_answer, late_size, MSG_NOSIGNAL);
		_exit(0);
	}
	errno = saved;
}

/* Alarms begin after this time, one per second. 0: no alarms. */
static void set_alarm(usec_t time)
{
	const struct sigaction action = { .sa_handler = on_alarm, .sa_flags = SA_RESTART };
	const struct itimerval timer = { .it_interval = { time > 0, 0 },
					 .it_value = { time / USEC, time % USEC } };

	alarm_count = time > 0 ? 0 : alarm_count;
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &timer, NULL);
}

/* Whether the next server is to be asked. Codes below 0 are from the library: the server could not
   be reached. With one of these two results the server cannot answer either. */
static bool is_for_next_server(int code)
{
	return code < 0 || code == LDAP_BUSY || code == LDAP_UNAVAILABLE;
}

/* Sets the answer for a failed step. Returns false. */
static bool child_fail(struct attempt *a, const char *step, int code, enum verify_verdict verdict)
{
	char *more = NULL;

	/* after an alarm the library reports the shutdown of the socket */
	a->code = code = alarm_count > 0 ? LDAP_TIMEOUT : code;
	if (a->ld)
		ldap_get_option(a->ld, LDAP_OPT_DIAGNOSTIC_MESSAGE, &more);
	if (a->received > ANSWERS_MOST)
		verify_answer_set(a->answer, verdict, "%s: %s: the server sends more than 1 MB",
				  a->host, step);
	else
		verify_answer_set(a->answer, verdict, "%s: %s: %s%s%.200s%s", a->host, step,
				  ldap_err2string(code), more && *more ? " (" : "",
				  more ? more : "", more && *more ? ")" : "");
	ldap_memfree(more);
	return false;
}

/* A layer between the socket and TLS that counts the received bytes. */
static int counter_set(Sockbuf_IO_Desc *layer, void *attempt)
{
	layer->sbiod_pvt = attempt;
	return 0;
}

static int counter_leave(Sockbuf_IO_Desc *layer)
{
	(void)layer;
	return 0;
}

static int counter_control(Sockbuf_IO_Desc *layer, int option, void *value)
{
	return LBER_SBIOD_CTRL_NEXT(layer, option, value);
}

static ber_slen_t counter_read(Sockbuf_IO_Desc *layer, void *buffer, ber_len_t size)
{
	struct attempt *a = layer->sbiod_pvt;
	ber_slen_t got = LBER_SBIOD_READ_NEXT(layer, buffer, size);

	a->received += got > 0 ? (size_t)got : 0;
	if (a->received <= ANSWERS_MOST)
		return got;
	errno = EMSGSIZE;
	return -1;
}

static ber_slen_t counter_write(Sockbuf_IO_Desc *layer, void *data, ber_len_t size)
{
	return LBER_SBIOD_WRITE_NEXT(layer, data, size);
}

static Sockbuf_IO counter = { .sbi_setup = counter_set,
			      .sbi_remove = counter_leave,
			      .sbi_ctrl = counter_control,
			      .sbi_read = counter_read,
			      .sbi_write = counter_write,
			      .sbi_close = counter_leave };

/* Called by the library for a new connection: from now on it can be shut down, and its received
   bytes are limited. */
static int limit_socket(LDAP *ld, Sockbuf *buffer, LDAPURLDesc *server, struct sockaddr *address,
			struct ldap_conncb *context)
{
	ber_len_t most = MESSAGE_MOST;
	ber_socket_t fd;

	(void)ld;
	(void)server;
	(void)address;
	if (ber_sockbuf_add_io(buffer, &counter, LBER_SBIOD_LEVEL_PROVIDER + 1,
			       LIST_OBJECT(context, struct attempt, on_connect)) < 0)
		return -1;
	ber_sockbuf_ctrl(buffer, LBER_SB_OPT_SET_MAX_INCOMING, &most);
	if (ber_sockbuf_ctrl(buffer, LBER_SB_OPT_GET_FD, &fd) == 1)
		alarm_socket = fd;
	return 0;
}

static void forget_socket(LDAP *ld, Sockbuf *buffer, struct ldap_conncb *context)
{
	(void)ld;
	(void)buffer;
	(void)context;
	alarm_socket = -1;
}

/* Sets the remaining time for the next step, because the library's timeouts begin again in each
   step. False: no time left. */
static bool set_clock(struct attempt *a, const char *step)
{
	usec_t left = a->deadline - clock_monotonic();
	struct timeval time = { .tv_sec = left / USEC, .tv_usec = left % USEC };

	if (left <= 0)
		return child_fail(a, step, LDAP_TIMEOUT, VERIFIED_UNKNOWN);
	ldap_set_option(a->ld, LDAP_OPT_NETWORK_TIMEOUT, &time);
	ldap_set_option(a->ld, LDAP_OPT_TIMEOUT, &time);
	return true;
}

static int child_open_connection(struct attempt *a)
{
	const struct ldap_options *o = a->question->ldap;
	const int version = LDAP_VERSION3;
	char uri[HOST_MOST + 32];
	int code;

	snprintf(uri, sizeof(uri), "%s://%s:%d", o->ldaps ? "ldaps" : "ldap", a->host, o->port);
	code = ldap_initialize(&a->ld, uri);
	if (code != LDAP_SUCCESS)
		return code;
	a->on_connect = (struct ldap_conncb){ .lc_add = limit_socket, .lc_del = forget_socket };
	if (ldap_set_option(a->ld, LDAP_OPT_PROTOCOL_VERSION, &version) != LDAP_OPT_SUCCESS ||
	    ldap_set_option(a->ld, LDAP_OPT_REFERRALS, LDAP_OPT_OFF) != LDAP_OPT_SUCCESS ||
	    ldap_set_option(a->ld, LDAP_OPT_CONNECT_CB, &a->on_connect) != LDAP_OPT_SUCCESS)
		return LDAP_LOCAL_ERROR;
	return LDAP_SUCCESS;
}

/* Returns the result of a bind; the library itself would accept a message of any type. */
static int bind_result(struct attempt *a, int id)
{
	LDAPMessage *message = NULL;
	int code = LDAP_SUCCESS, parsed;

	/* NULL: LDAP_OPT_TIMEOUT, set by set_clock */
	switch (ldap_result(a->ld, id, LDAP_MSG_ALL, NULL, &message)) {
	case 0:
		return LDAP_TIMEOUT;
	case -1:
		ldap_get_option(a->ld, LDAP_OPT_RESULT_CODE, &code);
		return code != LDAP_SUCCESS ? code : LDAP_SERVER_DOWN;
	}
	if (ldap_msgtype(message) != LDAP_RES_BIND) {
		ldap_msgfree(message);
		return LDAP_PROTOCOL_ERROR;
	}
	parsed = ldap_parse_result(a->ld, message, &code, NULL, NULL, NULL, NULL, 1);
	return parsed != LDAP_SUCCESS ? parsed : code;
}

static int bind_as(struct attempt *a, const char *dn, const char *password)
{
	struct berval credentials = { .bv_len = strlen(password) };
	char *copy = mem_copy_string(password);
	int code = LDAP_NO_MEMORY, id;

	if (copy) {
		credentials.bv_val = copy;
		code = ldap_sasl_bind(a->ld, dn, LDAP_SASL_SIMPLE, &credentials, NULL, NULL, &id);
		mem_wipe(copy, credentials.bv_len);
	}
	mem_free(copy);
	return code != LDAP_SUCCESS ? code : bind_result(a, id);
}

/* Binds as the user: the last step of both methods. */
static bool bind_user(struct attempt *a, const char *dn)
{
	int code;

	/* the server would treat it as an anonymous bind */
	ASSERT(*dn && *a->question->password);
	if (!set_clock(a, "bind"))
		return false;
	code = bind_as(a, dn, a->question->password);
	if (code != LDAP_SUCCESS)
		return child_fail(a, "bind", code,
				  is_for_next_server(code) ? VERIFIED_UNKNOWN : VERIFIED_NO);
	verify_answer_set(a->answer, VERIFIED_YES, "%s", "");
	return true;
}

static bool refuse_name(struct attempt *a, const char *mark)
{
	verify_answer_set(a->answer, VERIFIED_NO,
			  "the user name has a \"%c\" in it, which means something in LDAP", *mark);
	return false;
}

/* Prefix and suffix come from the administrator, so only the user's name can be hostile. If one of
   them contains an =, they form a DN (RFC 4514); otherwise a name like user@domain without special
   characters. */
static bool simple_bind(struct attempt *a)
{
	const struct ldap_options *o = a->question->ldap;
	const char *prefix = o->prefix ? o->prefix : "", *suffix = o->suffix ? o->suffix : "";
	const char *mark = strpbrk(a->question->user, ",+\"\\<>;=#");
	char dn[DN_MOST];

	if (mark && (strchr(prefix, '=') || strchr(suffix, '=')))
		return refuse_name(a, mark);
	if (snprintf(dn, sizeof(dn), "%s%s%s", prefix, a->question->user, suffix) >=
	    (int)sizeof(dn)) {
		verify_answer_set(a->answer, VERIFIED_NO, "the name is too long for a DN");
		return false;
	}
	return bind_user(a, dn);
}

/* Takes the DN of the only entry from the result. If the result is incomplete, more entries may
   match. */
static bool take_dn(struct attempt *a, LDAPMessage *result, bool is_whole, char *dn, size_t size)
{
	int count = ldap_count_entries(a->ld, result);
	char *found;
	bool fits;

	if (count != 1 || !is_whole) {
		verify_answer_set(a->answer, VERIFIED_NO, "%s: search: %s this user", a->host,
				  is_whole && count < 1 ? "there is no entry for"
							: "more than one entry fits");
		return false;
	}
	found = ldap_get_dn(a->ld, ldap_first_entry(a->ld, result));
	/* an empty DN would be an anonymous bind */
	fits = found && *found && snprintf(dn, size, "%s", found) < (int)size;
	ldap_memfree(found);
	if (!fits)
		verify_answer_set(a->answer, VERIFIED_UNKNOWN,
				  "%s: search: the entry found has no usable name", a->host);
	return fits;
}

/* The answer does not change: neither the result of this bind nor a failure matters. */
static void bind_in_vain(struct attempt *a)
{
	uint8_t random[16];
	char word[2 * sizeof(random) + 1], dn[DN_MOST];
	struct verify_answer answer = *a->answer;
	int length;

	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		return;
	text_hex(word, random, sizeof(random));
	length = snprintf(dn, sizeof(dn), "cn=%s%s%s", word, *a->question->ldap->base_dn ? "," : "",
			  a->question->ldap->base_dn);
	if (length < (int)sizeof(dn) && set_clock(a, "bind"))
		bind_as(a, dn, word);
	*a->answer = answer;
	a->code = 0;
}

/* Searches for the user. Returns a code of the library. */
static int child_search(struct attempt *a, LDAPMessage **result)
{
	static const char placeholder[] = "$username";
	static const int scopes[] = {
		[LDAP_SEARCH_BASE] = LDAP_SCOPE_BASE,
		[LDAP_SEARCH_ONE] = LDAP_SCOPE_ONELEVEL,
		[LDAP_SEARCH_SUB] = LDAP_SCOPE_SUBTREE,
	};
	const struct ldap_options *o = a->question->ldap;
	const char *at = o->search_filter, *next;
	char none[] = LDAP_NO_ATTRS;
	char *attributes[] = { none, NULL };
	usec_t left = a->deadline - clock_monotonic();
	struct timeval time = { .tv_sec = left / USEC, .tv_usec = left > 0 ? left % USEC : 1 };
	struct bytes filter = BYTES_EMPTY;
	int code = LDAP_NO_MEMORY;

	if (!at) {
		bytes_append_format(&filter, "(%s=%s)",
				    o->search_attribute ? o->search_attribute : "uid",
				    a->question->user);
	} else {
		while ((next = strstr(at, placeholder))) {
			bytes_append(&filter, at, (size_t)(next - at));
			bytes_append_text(&filter, a->question->user);
			at = next + sizeof(placeholder) - 1;
		}
		bytes_append_text(&filter, at);
	}
	bytes_append_u8(&filter, 0);
	/* two entries are sufficient to refuse */
	if (!filter.failed)
		code = ldap_search_ext_s(a->ld, o->base_dn, scopes[o->scope],
					 (const char *)bytes_front(&filter), attributes, 0, NULL,
					 NULL, &time, 2, result);
	bytes_free(&filter);
	return code;
}

static bool search_bind(struct attempt *a)
{
	const struct ldap_options *o = a->question->ldap;
	/* as in PostgreSQL; no sensible name has these characters, so nothing must be escaped */
	const char *mark = strpbrk(a->question->user, "*()\\/");
	LDAPMessage *result = NULL;
	char dn[DN_MOST];
	bool ok;
	int code;

	if (mark)
		return refuse_name(a, mark);
	if (!set_clock(a, "bind for the search"))
		return false;
	code = bind_as(a, o->bind_dn ? o->bind_dn : "", o->bind_password ? o->bind_password : "");
	if (code != LDAP_SUCCESS)
		return child_fail(a, "bind for the search", code, VERIFIED_UNKNOWN);
	if (!set_clock(a, "search"))
		return false;
	code = child_search(a, &result);
	if (code == LDAP_SUCCESS || code == LDAP_SIZELIMIT_EXCEEDED)
		ok = take_dn(a, result, code == LDAP_SUCCESS, dn, sizeof(dn));
	else
		ok = child_fail(a, "search", code,
				code == LDAP_NO_SUCH_OBJECT ? VERIFIED_NO : VERIFIED_UNKNOWN);
	ldap_msgfree(result);
	if (ok)
		return bind_user(a, dn);
	if (a->answer->verdict == VERIFIED_NO)
		bind_in_vain(a);
	return false;
}

/* True: the answer is final. False: the server could not be reached. */
static bool ask_server(struct attempt *a)
{
	bool is_ready;
	int code;

	/* the library's timeouts end earlier */
	set_alarm(a->question->ldap_timeout + USEC / 10);
	a->deadline = clock_monotonic() + a->question->ldap_timeout;
	code = child_open_connection(a);
	is_ready = code == LDAP_SUCCESS || child_fail(a, "connection", code, VERIFIED_UNKNOWN);
	if (is_ready && a->question->ldap->starttls) {
		is_ready = set_clock(a, "StartTLS");
		code = is_ready ? ldap_start_tls_s(a->ld, NULL, NULL) : LDAP_SUCCESS;
		if (code != LDAP_SUCCESS)
			is_ready = child_fail(a, "StartTLS", code, VERIFIED_UNKNOWN);
	}
	if (is_ready)
		a->question->ldap->base_dn ? search_bind(a) : simple_bind(a);
	if (a->ld)
		ldap_unbind_ext_s(a->ld, NULL, NULL);
	a->ld = NULL;
	set_alarm(0);
	return !is_for_next_server(a->code);
}

void verify_ldap(int fd, uint64_t ticket, const struct verify_question *q,
			struct verify_answer *answer)
{
	struct bytes late = BYTES_EMPTY;
	const char *at = q->ldap->servers;
	size_t size;

	/* the answer if the library hangs */
	verify_answer_set(answer, VERIFIED_UNKNOWN, "%.256s: no answer in time", at);
	verify_answer_write(&late, ticket, answer);
	late_socket = fd;
	late_size = !late.failed && bytes_size(&late) <= sizeof(late_answer) ? bytes_size(&late)
									     : 0;
	memcpy(late_answer, bytes_front(&late), late_size);
	bytes_free(&late);
	if (ldap_options_lack(q->ldap)) {
		verify_answer_set(answer, VERIFIED_UNKNOWN, "%s", ldap_options_lack(q->ldap));
		return;
	}
	verify_answer_set(answer, VERIFIED_UNKNOWN, "no LDAP server is named");
	while (*(at += strspn(at, " \t")) && (size = strcspn(at, " \t")) > 0) {
		struct attempt a = { .question = q, .answer = answer };

		if (size < sizeof(a.host)) {
			memcpy(a.host, at, size);
			if (ask_server(&a))
				return;
		} else {
			verify_answer_set(answer, VERIFIED_UNKNOWN,
					  "the name of an LDAP server is too long");
		}
		at += size;
	}
}

#endif
