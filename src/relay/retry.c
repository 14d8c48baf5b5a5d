/*
 * Requests that are sent to another server, because their server was not the primary any more, or
 * was shutting down.
 *
 * The bytes of a request are kept until its answer: one Query, or the messages of a batch. If the
 * answer shows that the host has lost its role, the answer is held back, the server ends, and the
 * bytes become the next input of the client. The client waits (AWAITS_VERDICT) for evidence that is
 * newer than the answer. If the host is still the primary, the client gets the answer; otherwise
 * the request is sent to the next primary.
 *
 * Example, in the order of time. h1 is the primary, and an administrator promotes h2:
 *
 * 1. A client sends UPDATE t SET a = 1 to h1. request_keep() keeps the message.
 * 2. h1 is a standby by now, and answers 25006, "cannot execute UPDATE in a read-only
 *    transaction". retry_look() holds the error back: hold_answer(). The link ends, and the step
 *    is AWAITS_VERDICT.
 * 3. The watchers ask h1 and h2. The answer of h2 is evidence that it is the primary, and
 *    retry_judge() lets the client wait for a server of h2.
 * 4. The UPDATE is sent to h2. The client gets the answer of h2, and has only waited longer.
 *
 * The errors and failures:
 *
 *	25006, or 0A000 of recovery	nothing was executed: a standby cannot write. Only as the
 *					whole answer to one request outside a transaction
 *	FATAL 57P01			the statement was rolled back, see below. Only for a request
 *					outside a transaction that consists of statements whose
 *					effects a rollback undoes, and of which no statement is
 *					complete (retry_on_shutdown)
 *	57P01 on a standby		the same, for a client that asks for standbys by name;
 *					another host gets the request at once
 *	connection lost			if nothing of the request can have arrived at the server, or
 *					the server had ended before it was sent; a statement that
 *					may only read, if the next server confirms that
 *					(offload_doubt)
 *	silent or closed host		only a read, and before any byte of its answer was forwarded
 *					(retry_recall)
 *
 * Why a FATAL 57P01 without a CommandComplete before it means that nothing was committed: only
 * ProcessInterrupts() raises it, for ProcDiePending. CommitTransaction() holds interrupts from
 * before the commit record until all of its work is done, and exec_simple_query() writes
 * CommandComplete after it without a check for interrupts between; in the extended protocol the
 * commit belongs to Sync, after the CommandComplete of each Execute. Therefore the error comes
 * before the commit (deferred triggers and constraints run before it too), and the transaction is
 * aborted. While a commit waits for synchronous standbys, interrupts are held; SyncRepWaitForLSN()
 * answers a shutdown with a WARNING, which is a notice with 57P01, and ends the connection without
 * an error. CALL, DO and COMMIT PREPARED can commit before the error, and are not sent again; a
 * function cannot commit. A host that shuts down refuses logins before it ends the first backend:
 * so a login that began after the error, and succeeds, proves that an administrator has terminated
 * this backend only.
 *
 * tbl/retry_error.tbl has these errors. Functions of users (dblink_exec) and functions that change
 * the server may have acted elsewhere, so a text with such a call is not sent again. Triggers are
 * not looked at.
 *
 * Invariant: while bytes of a request are kept, the server of the link owes an answer, and
 * request_is_whole() only while the client has no byte of the answer.
 */
#include "relay/retry.h"

#include "base/inline.h"
#include "base/text.h"
#include "pg/build.h"
#include "pg/message.h"
#include "pool/role.h"
#include "prepared/prepared.h"
#include "relay/offload.h"
#include "sql/read_transaction.h"
#include "sql/sql_lex.h"
#include "sql/state_text.h"

#include <string.h>

/* ---- its statements ---- */

static bool is_one_of(const struct lex_token *t, const char *const *words)
{
	for (; *words; words++) {
		if (lex_is(t, *words))
			return true;
	}
	return false;
}

/* Whether the text may have effects that a rollback does not undo. A function that is not built in
   may have any: for example, dblink_exec() commits on another server. */
static bool may_act_elsewhere(const uint8_t *text, size_t size)
{
	struct text_calls calls = { .search = { .words_left = INT64_MAX } };

	return !state_text_calls_known(&calls, text, size, NULL, NULL) ||
	       read_transaction_affects_standby(text, size);
}

/* Whether the text is one statement whose effects a rollback undoes. `size` includes the NUL. */
static bool is_repeatable(const uint8_t *text, size_t size)
{
	static const char *const words[] = { "select", "insert", "update", "delete",
					     "merge",  "with",	 "values", "table",
					     "begin",  "start",	 NULL };
	struct sql_lexer lexer = lex_begin(text, size);
	struct lex_token t = lex_next(&lexer);

	while (lex_is_mark(&t, '('))
		t = lex_next(&lexer);
	if (!is_one_of(&t, words))
		return false;
	while (t.kind != LEX_END && !lex_is_mark(&t, ';'))
		t = lex_next(&lexer);
	while (lex_is_mark(&t, ';'))
		t = lex_next(&lexer);
	return t.kind == LEX_END && !lexer.is_cut && !lexer.is_uncertain &&
	       !may_act_elsewhere(text, size);
}

/* Whether a statement of the text may commit a transaction. Words in strings count, too, because
   the search need not be exact in this direction. */
static bool may_commit(const uint8_t *text, size_t size)
{
	static const char *const words[] = { "commit", "end", "prepare", NULL };
	struct sql_lexer lexer = lex_begin(text, size);
	bool begins = true;

	for (struct lex_token t = lex_next(&lexer); t.kind != LEX_END; t = lex_next(&lexer)) {
		if (begins && is_one_of(&t, words))
			return true;
		begins = lex_is_mark(&t, ';');
	}
	return lexer.is_uncertain || lexer.is_cut;
}

typedef bool test_of_text(const uint8_t *text, size_t size);

/* Tests the text that this message brings or names; `other` for a message without one, `missing` if
   it is unknown. */
static bool test_frame(const struct client *c, const struct pg_frame *f, test_of_text *test,
		       bool other, bool missing)
{
	struct request_text text;

	if (!prepared_request_text(c, f, &text))
		return other;
	return text.at ? test(text.at, text.size) : missing;
}

/* Whether a rollback undoes the request: no statement of it commits by itself, or acts
   elsewhere. */
static bool is_undone_by_rollback(const struct client *c)
{
	struct pg_frames all = pg_frames_of(&c->request->kept);
	enum pg_verdict read;
	struct pg_frame f;

	while ((read = pg_frames_next(&all, PG_LENGTH_LIMIT, &f)) == PG_OK) {
		if (f.type == PGC_CALL || pg_client_messages[f.type].phases == PG_COPY ||
		    !test_frame(c, &f, is_repeatable, true, false))
			return false;
	}
	return read == PG_MORE && all.left == 0;
}

/* Whether a statement of the request may have committed the transaction that was open. */
static bool may_have_committed(const struct client *c)
{
	struct pg_frames all = pg_frames_of(&c->request->kept);
	struct pg_frame f;

	if (request_is_cut(c->request))
		return true;
	while (pg_frames_next(&all, PG_LENGTH_LIMIT, &f) == PG_OK) {
		if (test_frame(c, &f, may_commit, false, true))
			return true;
	}
	return false;
}

/* Whether the bytes are one Query, or one batch with its Sync and without a Flush. */
static bool is_one_request(const struct bytes *request)
{
	struct pg_frames all = pg_frames_of(request);
	struct pg_frame f;

	while (pg_frames_next(&all, PG_LENGTH_LIMIT, &f) == PG_OK) {
		if (f.type == PGC_FLUSH || f.type == PGC_CALL ||
		    pg_client_messages[f.type].phases == PG_COPY)
			return false;
		if (f.type == PGC_QUERY)
			return all.left == 0 && f.body - PG_HEADER == bytes_front(request);
		if (f.type == PGC_SYNC)
			return all.left == 0;
	}
	return false;
}

/* ---- taking back ---- */

bool retry_may_leave(const struct client *c, const struct server *s)
{
	return !(c->pooled.pins || c->pooled.listens || c->names_sql) && s->pooled.cancels == 0;
}

/* Whether both directions are between two messages, and the client is not ending. */
static bool is_between_messages(const struct client *c)
{
	return !c->login && !c->collects && !c->half_sent &&
	       c->peer.passing == 0 && !peer_is_stopped(&c->peer);
}

/* Whether the client may get another server: this server has executed nothing for it that another
   server cannot repeat. */
static bool may_take_back(const struct server *s, const struct client *c)
{
	const struct request *r = c->request;
	bool is_whole = request_is_whole(r);

	if (!is_whole && r->repeat != REPEAT_NOTHING)
		return false;
	/* a read-only transaction that fails in its first request begins again */
	if (s->status != 'I' && !(is_whole && request_step_in(c, REQUEST_IN_READ)))
		return false;
	return c->link_facts.shares_server && c->pooled.target != TARGET_ANY && s->pooled.host &&
	       is_between_messages(c) && retry_may_leave(c, s);
}

bool retry_take_back(struct server *s, enum close_reason why, enum request_step step)
{
	struct client *c = client_of(s->pooled.link);
	struct request *r = c->request;
	struct bytes all = BYTES_EMPTY;

	if (!may_take_back(s, c))
		return false;
	r->taken = bytes_size(&r->kept);
	if (r->taken > 0)
		bytes_append(&all, bytes_front(&r->kept), r->taken);
	if (bytes_size(&c->peer.held) > 0)
		bytes_append(&all, bytes_front(&c->peer.held), bytes_size(&c->peer.held));
	if (all.failed) {
		bytes_free(&all);
		return false;
	}
	bytes_free(&c->peer.held);
	c->peer.held = all;
	c->peer.held_first = false;
	request_forget(r);
	c->activity.query_started = c->activity.transaction_started = 0;
	/* the next server gets the BEGIN again, too */
	if (r->begin_is == BEGIN_SENT)
		r->begin_is = BEGIN_HELD;
	request_to(c, step);
	if (c->prepared) {
		prepared_lose(s, c);
		prepared_client_trim(c);
	}
	s->was_ended = true;
	s->pooled.host->retries++;
	server_end_leaving(s, why, false);
	return true;
}

void retry_forget_host(struct request *r)
{
	if (r->host) {
		r->host->held--;
		host_drop(r->host);
	}
	r->host = NULL;
	bytes_free(&r->answer);
}

/* The server has sent something, or is lost. A Flush after an answered request does not count as a
   request. */
static void notice_answer(struct client *c, const struct server *s)
{
	if (ledger_is_empty(&s->ledger) && !s->ledger.open)
		request_forget(c->request);
}

/*
 * The next input, a FATAL error or the end of the connection, was in the socket already when the
 * request was sent in this turn. The events of a turn are collected before the first handler runs:
 * a handler has sent the request, and an older event of the same turn announces these bytes.
 * PostgreSQL reads nothing after either. While world->loop.reads_again is set, input is read
 * without an announcement. (With TLS, bytes that were received earlier may be announced as well,
 * and the end of the connection after them is newer.)
 */
static bool is_overtaken(const struct client *c)
{
	const struct world *w = c->peer.world;

	return c->request->sent_in == w->loop.turns && !w->loop.reads_again;
}

/* Returns the step of the client when another host gets its request, which this host has refused.
   */
static enum request_step step_elsewhere(const struct client *c)
{
	switch (c->request->step) {
	case REQUEST_READ_ON_PRIMARY:
		return REQUEST_TO_READ;
	case REQUEST_OFFLOADED:
		return REQUEST_OFFLOADED;
	default:
		return request_step_again(c->request) == REQUEST_DIRECT ? REQUEST_DIRECT :
									  REQUEST_TO_PRIMARY;
	}
}

/* The client waits for the verdict on its host, with this answer. */
static enum retry_verdict hold_answer(struct server *s, const struct pg_frame *error, bool is_fatal)
{
	enum close_reason why = is_fatal ? REASON_SERVER_CRASHED : REASON_HOST_ROLE;
	struct client *c = client_of(s->pooled.link);
	enum request_step step = step_elsewhere(c);
	struct host *host = s->pooled.host;
	struct request *r = c->request;
	usec_t now = c->peer.world->now;

	retry_forget_host(r);
	bytes_append(&r->answer, error->body - PG_HEADER, PG_HEADER + error->size);
	if (!is_fatal)
		pg_build(&r->answer, PGS_READY, "I", 1);
	if (r->answer.failed ||
	    !retry_take_back(s, why, REQUEST_AWAITS_VERDICT)) {
		bytes_free(&r->answer);
		return RETRY_PASS;
	}
	host->users++;
	host->held++;
	r->host = host;
	r->since = now;
	r->held_step = step;
	host_doubt(host, now);
	if (is_fatal)
		host->login_wanted = now;
	flow_unblock(&c->peer, FLOW_ROOM | FLOW_ANSWERS);
	c->peer.request_at = c->peer.world->now_wall;
	pool_want(&c->pooled, now);
	return RETRY_TAKEN;
}

/* The request goes to any server that suits the client, because this server has executed nothing of
   it. */
static bool send_elsewhere(struct server *s)
{
	struct client *c = client_of(s->pooled.link);
	struct host *host = s->pooled.host;

	if (!retry_take_back(s, REASON_SERVER_CRASHED, request_step_again(c->request)))
		return false;
	host_doubt(host, c->peer.world->now);
	client_resume(c);
	return true;
}

/* The request has failed on a standby, which the client did not ask for: the answer of the primary
   counts. */
static bool ask_primary(struct server *s)
{
	struct client *c = client_of(s->pooled.link);
	const struct roles *roles = s->pooled.pool->database->roles;
	usec_t started = c->activity.transaction_started;

	if (!roles || roles->primary == s->pooled.host || bytes_size(&c->request->kept) == 0 ||
	    !retry_take_back(s, REASON_READ_FAILED, REQUEST_TO_PRIMARY))
		return false;
	c->activity.transaction_started = request_holds_begin(c) ? started : 0;
	client_resume(c);
	return true;
}

/* ---- the answer ---- */

/* Whether the message precedes the result of a statement, such as ParseComplete. */
static bool is_before_result(const struct pg_frame *f)
{
	static const char begin[] = "BEGIN", start[] = "START TRANSACTION";

	switch (f->type) {
	case PGS_PARSE_COMPLETE:
	case PGS_BIND_COMPLETE:
	case PGS_CLOSE_COMPLETE:
	case PGS_PARAMETER_TYPES:
	case PGS_ROW_DESCRIPTION:
	case PGS_NO_DATA:
	case PGS_ROW:
		return true;
	case PGS_COMPLETE:
		return f->here == f->size &&
		       ((f->size == sizeof(begin) && memcmp(f->body, begin, sizeof(begin)) == 0) ||
			(f->size == sizeof(start) && memcmp(f->body, start, sizeof(start)) == 0));
	default:
		return false;
	}
}

enum resend retry_resend(enum error_of of, const struct pg_error *e)
{
	static const struct {
		enum error_of of;
		const char *sqlstate, *severity, *word;
		enum resend action;
	} rows[] = {
#define FATAL "FATAL"
#define ANY ""
#define RETRY_ERROR(id, of, sqlstate, severity, word, action) \
	{ ERROR_OF_##of, sqlstate, severity, word, RESEND_##action },
#include "tbl/retry_error.tbl"
#undef RETRY_ERROR
#undef FATAL
#undef ANY
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (rows[i].of == of &&
		    (!*rows[i].sqlstate || strcmp(e->sqlstate, rows[i].sqlstate) == 0) &&
		    (!*rows[i].severity || strcmp(e->severity, rows[i].severity) == 0) &&
		    strstr(e->message, rows[i].word))
			return rows[i].action;
	}
	return RESEND_NEVER;
}

/* Whether the client has asked for a primary, or a primary may serve its read. */
static bool wants_primary(const struct client *c)
{
	return c->pooled.target == TARGET_PRIMARY || c->pooled.target == TARGET_READ_WRITE ||
	       c->pooled.target == TARGET_READ;
}

static enum error_of request_of(const struct client *c, bool is_unread)
{
	if (request_step_in(c, REQUEST_IN(READ_ON_STANDBY)))
		return ERROR_OF_READ;
	if (is_unread)
		return ERROR_OF_UNREAD;
	return wants_primary(c) ? ERROR_OF_PRIMARY : ERROR_OF_STANDBY;
}

/* The ErrorResponse, which is complete, with the `rest` of the answer after it; `is_unread`: the
   server has read no request that it could answer. */
static enum retry_verdict look_at_error(struct server *s, const struct pg_frame *f, size_t rest,
					bool is_unread, bool has_begun)
{
	static const uint8_t ready[] = { PGS_READY, 0, 0, 0, 5, 'I' };
	const uint8_t *after = f->body + f->size;
	struct client *c = client_of(s->pooled.link);
	const struct roles *roles = s->pooled.pool->database->roles;
	enum error_of of = request_of(c, is_unread);
	struct pg_error e;

	if (pg_error_read(f->body, f->size, &e) != PG_OK && of != ERROR_OF_READ)
		return RETRY_PASS;
	/* a client that prefers standbys is at the primary because no standby suits, and gets the
	   primary's answer */
	if (of == ERROR_OF_STANDBY && (!roles || roles->primary == s->pooled.host))
		return RETRY_PASS;
	switch (retry_resend(of, &e)) {
	case RESEND_NEVER:
		return RETRY_PASS;
	case RESEND_ON_PRIMARY:
		return ask_primary(s) ? RETRY_TAKEN : RETRY_PASS;
	case RESEND_ELSEWHERE:
		return (is_unread || is_undone_by_rollback(c)) && send_elsewhere(s) ? RETRY_TAKEN
										    : RETRY_PASS;
	case RESEND_IF_MOVED:
		break;
	}
	if (pg_error_is_fatal(f->body, f->size))
		return c->peer.world->conf->settings.retry_on_shutdown && is_undone_by_rollback(c)
			       ? hold_answer(s, f, true)
			       : RETRY_PASS;
	if (has_begun || !is_one_request(&c->request->kept))
		return RETRY_PASS;
	if (rest < sizeof(ready))
		return memcmp(after, ready, rest) == 0 ? RETRY_MORE : RETRY_PASS;
	return rest == sizeof(ready) && memcmp(after, ready, rest) == 0 ? hold_answer(s, f, false)
									: RETRY_PASS;
}

NEVER_INLINE enum retry_verdict retry_look(struct server *s, const uint8_t *buf, size_t n)
{
	struct client *c = client_of(s->pooled.link);
	bool is_nothing_sent, has_rows = false, has_begun = false;
	enum retry_verdict more;
	uint8_t before = 0;
	struct pg_frame f;

	notice_answer(c, s);
	is_nothing_sent = bytes_size(&c->request->kept) == 0;
	if (n > RETRY_MOST || !may_take_back(s, c))
		return RETRY_PASS;
	/* the client waits for no answer before its Sync, except after a Flush */
	more = s->ledger.open || is_nothing_sent ? RETRY_PASS : RETRY_MORE;
	for (size_t at = 0; at < n; at += PG_HEADER + f.size, before = f.type) {
		enum pg_verdict read = pg_frame_look(buf + at, n - at, INT32_MAX, &f);

		if (read != PG_OK)
			return read == PG_MORE && !has_rows ? more : RETRY_PASS;
		/* of the BEGIN that pgweir has sent; another ReadyForQuery ends the answer */
		if (f.type == PGS_READY && before == PGS_COMPLETE && !has_rows &&
		    c->request->begin_is == BEGIN_SENT)
			continue;
		if (f.type != PGS_ERROR && !is_nothing_sent && !is_before_result(&f))
			return RETRY_PASS;
		if (f.type == PGS_ERROR && pg_frame_is_whole(&f))
			return look_at_error(s, &f, n - at - PG_HEADER - f.size,
					     is_nothing_sent || (at == 0 && is_overtaken(c)),
					     has_begun);
		if (!pg_frame_is_whole(&f))
			return has_rows || f.type == PGS_ROW ? RETRY_PASS : more;
		has_rows |= f.type == PGS_ROW;
		has_begun |= f.type == PGS_COMPLETE;
	}
	/* a server that has sent rows has many more, or all of them: the statement works, so these
	   are forwarded */
	return has_rows ? RETRY_PASS : more;
}

bool retry_lost(struct server *s)
{
	struct client *c = s->pooled.link ? client_of(s->pooled.link) : NULL;
	struct request *r = c ? c->request : NULL;

	if (!r)
		return false;
	notice_answer(c, s);
	if (!may_take_back(s, c))
		return false;
	if (r->step == REQUEST_READ_ON_STANDBY)
		return ask_primary(s);
	if (bytes_size(&r->kept) == 0 || r->repeat == REPEAT_UNSENT ||
	    (is_overtaken(c) && !s->peer.stream.ssl))
		return send_elsewhere(s);
	return offload_doubt(s, REASON_SERVER_CRASHED);
}

bool retry_recall(struct server *s, enum close_reason why)
{
	struct client *c = client_of(s->pooled.link);

	if (!c->request || peer_is_stopped(&s->peer))
		return false;
	notice_answer(c, s);
	/* Another host may execute it too if a standby has it, or the catalogue has confirmed its
	   text. A primary may execute functions with effects elsewhere in a READ ONLY transaction.
	   */
	if (bytes_size(&c->request->kept) > 0 &&
	    !request_step_in(c, REQUEST_IN(OFFLOADED) | REQUEST_IN(READ_ON_STANDBY)))
		return offload_doubt(s, why);
	if (!retry_take_back(s, why, request_step_again(c->request)))
		return false;
	client_resume(c);
	return true;
}

/* ---- clients that are held ---- */

/* Whether the held answer has ended its server. */
static bool answer_is_fatal(const struct request *r)
{
	const uint8_t *error = bytes_front(&r->answer);

	return pg_error_is_fatal(error + PG_HEADER, pg_u32_at(error + 1) - PG_LENGTH_WORD);
}

/* The host has the role, and its answer counts. */
static void give_answer(struct client *c)
{
	struct request *r = c->request;
	struct world *w = c->peer.world;
	bool is_fatal = answer_is_fatal(r);

	if (r->host)
		r->host->kept_answers++;
	client_send(c, &r->answer);
	if (is_fatal) {
		c->error_sent = true;
		client_end(c, REASON_SERVER_CRASHED, NULL);
		return;
	}
	pool_client_become(w->pools, &c->pooled, CLIENT_IDLE, w->now);
	bytes_consume(&c->peer.held, r->taken);
	c->activity.last = w->now;
	client_resume(c);
}

void retry_judge(struct client *c)
{
	const struct roles *roles = c->pooled.pool->database->roles;
	const struct host *primary = roles ? roles->primary : NULL;
	struct request *r = c->request;
	const struct host *host = r->host;
	bool is_fatal = answer_is_fatal(r);
	/* a login with the same time began after the answer, because servers are opened at the end
	   of a turn */
	bool is_new = host->evidence.at > r->since, has_failed = host->failed_at >= r->since,
	     has_role, is_standby;

	has_role = primary == host && is_new &&
		   (!is_fatal || host->accepted_at >= r->since);
	is_standby = is_new && host->evidence.claim == CLAIM_STANDBY;
	/* the evidence proves nothing yet */
	if (!has_role && !has_failed && !is_standby &&
	    (!primary || primary == host))
		return;
	if (has_role && !has_failed) {
		request_to(c, REQUEST_DIRECT);
		give_answer(c);
	} else {
		request_to(c, (enum request_step)r->held_step);
	}
	retry_forget_host(r);
}

/* ---- clients that lose their server ---- */

enum close_reason retry_loss(const struct client *c, const struct server *s, enum close_reason why)
{
	bool is_of_host = why == REASON_SERVER_CRASHED || why == REASON_HOST_ROLE;

	if (!c->request || c->pooled.target == TARGET_ANY || s->said_fatal || !is_of_host)
		return why;
	/* a replication stream is an answer without an end */
	if (!s->pooled.dedicated && ledger_depth(&s->ledger) > 0 &&
	    (s->status == 'I' || may_have_committed(c)))
		return REASON_OUTCOME_UNKNOWN;
	if (s->status != 'I')
		return REASON_TRANSACTION_LOST;
	return why == REASON_HOST_ROLE ? why : REASON_HOST_LOST;
}
