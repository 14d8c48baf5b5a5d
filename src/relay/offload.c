/*
 * reads = auto: single statements outside of transactions that standbys execute.
 *
 * The bytes of one read are looked at before the client gets a server: one Query, or one batch of
 * the extended protocol that executes one statement. The verdict on its text decides
 * (pool/read_verdicts.h):
 *
 *	unknown		the primary; the text is noted, because most texts of some clients never
 *			return
 *	seen		sql/read_text.h recognises the text: the server of the primary that the
 *			statement goes to is asked about the catalogue first, and executes the
 *			statement itself this time (ASKING, until the answer to the question).
 *			Meanwhile other clients with this text use the primary
 *	suits		the client asks for a standby until the answer is complete (OFFLOADED): a
 *			host that is fresh enough for this client
 *	others		the primary
 *
 * Texts that differ in their literals share a verdict (read_text_mask()). A question costs the
 * primary some milliseconds, so a database asks about 10 texts a second at most, after the first
 * 20.
 *
 * The catalogue may change past pgweir. Therefore once per half read_check_period, as long as texts
 * with the verdict "suits" arrive, one of them goes to the primary with the question about the
 * names of all these texts (ASKING_ALL, struct basis). If the answer is no, or not the answer of
 * this period, nothing suits any more: a read never relies on an answer older than one
 * read_check_period.
 *
 * Nothing of the answer of a standby is forwarded before it is complete or RETRY_MOST bytes long.
 * After an error until then, or if the connection is lost, the primary gets the same bytes
 * (retry_take_back), and its answer counts. From then on, the text is for the primary; after a data
 * exception (SQLSTATE 22...) only with the same literals. Further input of the client waits for the
 * end of the answer, because the next statement may be for another host. An error with 57014 is
 * passed on if the client has sent a cancel request.
 *
 * If another server than such a standby is lost without an answer, it may have executed the
 * statement: DOUBTED. Then the next server is asked before it gets the statement, for clients of
 * all roles. If the text does more than read, its outcome is unknown.
 *
 * Only clients without a server that would share one are considered, so their sessions have no
 * temporary objects, pins or doubts.
 *
 * The walk of a statement: offload_view() is a part of the view of request_decide(), offload_take()
 * carries the decision out, offload_blocks() holds further input back, offload_look() examines the
 * answer, and offload_over() ends the step. offload_lost() and offload_look() send the statement to
 * the primary.
 */
#include "relay/offload.h"

#include "base/hash.h"
#include "base/inline.h"
#include "pg/build.h"
#include "pg/message.h"
#include "pool/freshness.h"
#include "pool/read_verdicts.h"
#include "prepared/prepared.h"
#include "relay/link.h"
#include "sql/read_text.h"
#include "sql/read_transaction.h"
#include "state/task.h"

#include <string.h>

#define BUILT_IN_MOST 16383		/* the last OID of built-in types */
#define LASTS_LEAST (USEC / 10)
#define QUESTION_GAP (USEC / 10)
#define QUESTIONS_AT_ONCE 20

/* ---- the text of a request ---- */

/* Whether all types that the Parse declares are built in. Other types may be domains, whose checks
   can call functions with effects. */
static bool declares_built_in_types(const struct request_text *text)
{
	struct pg_cursor types = pg_cursor_of(text->types, text->types_size);
	for (unsigned count = pg_read_u16(&types); count > 0 && !types.bad; count--) {
		if (pg_read_u32(&types) > BUILT_IN_MOST)
			return false;
	}
	return !types.bad;
}

/* Finds the text of the only statement that these messages execute, from the first to the last
   byte. */
static bool find_text(const struct client *c, const uint8_t *at, size_t n,
		      struct request_text *text)
{
	struct pg_frames all = { at, n };
	const char *parsed = NULL, *bound = NULL;
	bool is_executed = false;
	struct pg_frame f;

	while (pg_frames_next(&all, PG_LENGTH_LIMIT, &f) == PG_OK) {
		struct pg_cursor body = pg_cursor_of(f.body, f.size);
		struct request_text found;

		switch (f.type) {
		case PGC_QUERY:
			return prepared_request_text(c, &f, text) && all.left == 0 &&
			       f.body == at + PG_HEADER && text->size == f.size && f.size > 0 &&
			       !text->at[f.size - 1];
		case PGC_PARSE:
			if (parsed || bound)
				return false;
			parsed = pg_read_string(&body);
			prepared_request_text(c, &f, text);
			if (!text->at || !declares_built_in_types(text))
				return false;
			break;
		case PGC_BIND:
			if (bound)
				return false;
			bound = (pg_read_string(&body), pg_read_string(&body));
			if (body.bad || (parsed && strcmp(parsed, bound) != 0))
				return false;
			if (parsed)
				break;
			prepared_request_text(c, &f, &found);
			if (!found.statement || !found.is_confirmed || found.statement->varies ||
			    !declares_built_in_types(&found))
				return false;
			*text = found;
			break;
		case PGC_EXECUTE:
			if (!bound || is_executed)
				return false;
			is_executed = true;
			break;
		case PGC_DESCRIBE:
			break;
		case PGC_SYNC:
			return is_executed && all.left == 0;
		default:
			return false;
		}
	}
	return false;
}

/* ---- what the verdicts of a database depend on ---- */

struct basis {
	struct read_set names;		/* of the texts that suit standbys ... */
	uint64_t definitions;		/* ... with this count of definitions */
	/* the names had the confirmed meaning at this time, which is before the question about all
	   of them was made ... */
	usec_t confirmed_at;
	usec_t asked_at;		/* ... and when the last such question was made */
	/* the questions about single texts, in time: see take_question() */
	usec_t paid_until;
};

static void basis_free(void *memory)
{
	struct basis *basis = memory;

	if (!basis)
		return;
	read_set_free(&basis->names);
	mem_free(basis);
}

/* Returns the basis of the verdicts that hold now. NULL: no memory. */
static struct basis *basis_of(const struct database *database)
{
	void **place = read_verdicts_basis(database, basis_free);
	struct basis *basis;

	if (place && !*place)
		*place = mem_try(sizeof(*basis));
	basis = place ? *place : NULL;
	if (basis && basis->definitions != database->roles->written->definitions) {
		read_set_free(&basis->names);
		basis->definitions = database->roles->written->definitions;
		basis->confirmed_at = basis->asked_at = 0;
	}
	return basis;
}

/* Whether the rate of questions allows one about a single text now. */
static bool may_ask_one(const struct basis *basis, usec_t now)
{
	return basis->paid_until - now <= QUESTIONS_AT_ONCE * QUESTION_GAP;
}

/* Takes the time of such a question. */
static void take_question(struct basis *basis, usec_t now)
{
	basis->paid_until = (basis->paid_until > now ? basis->paid_until : now) + QUESTION_GAP;
}

/* ---- the verdict on a request ---- */

/* Makes the question for the catalogue. False: the text does more than read, or there is no
   memory. */
static bool make_question(struct client *c, const struct request_text *text)
{
	struct read_names names;
	struct request *r = c->request;

	if (!read_text_only_reads(text->at, text->size,
				  c->pooled.pool->database->conf->read_functions, &names))
		return false;
	bytes_free(&r->question);
	read_set_free(&r->names);
	read_text_ask(text->at, &names, &r->question);
	if (read_set_add(&r->names, text->at, names.list, names.count, names.operators) &&
	    !r->question.failed)
		return true;
	bytes_free(&r->question);
	read_set_free(&r->names);
	return false;
}

/* Makes the question about all names. False: no memory. */
static bool make_question_of_all(struct request *r, struct basis *basis, usec_t now)
{
	basis->asked_at = now;
	bytes_free(&r->question);
	read_set_ask(&basis->names, &r->question);
	return !r->question.failed;
}

void offload_end(struct client *c)
{
	request_to(c, request_step_again(c->request));
	bytes_free(&c->request->question);
	read_set_free(&c->request->names);
}

static void set_verdict(const struct client *c, uint64_t key, enum read_verdict verdict)
{
	read_verdict_set(c->pooled.pool->database, key, verdict, c->request->definitions,
			 c->peer.world->now);
}

/* Looks the text up: as it is, then without its literals. Sets the keys. */
static enum read_verdict verdict_on(struct client *c, const struct request_text *text)
{
	static uint8_t masked[READ_TEXT_MOST];
	const struct database *database = c->pooled.pool->database;
	struct request *r = c->request;
	enum read_verdict verdict;
	size_t size;

	r->key = r->text_key = hash_long(text->at, text->size);
	verdict = read_verdict_on(database, r->key, c->peer.world->now);
	size = verdict == STANDBY_UNKNOWN
		       ? read_text_mask(text->at, text->size, masked, sizeof(masked))
		       : 0;
	if (size == 0)
		return verdict;
	r->key = hash_long(masked, size);
	return read_verdict_on(database, r->key, c->peer.world->now);
}

/* Whether nothing binds the client to a host. */
static bool is_free_to_move(const struct client *c)
{
	bool is_bound = c->login || c->pooled.listens || c->names_sql;
	bool in_message =
		c->minds.refused_until || c->collects > 0 || c->half_sent || c->peer.passing > 0;

	return !is_bound && !in_message && c->pooled.state == CLIENT_IDLE;
}

void offload_view(struct client *c, const uint8_t *at, size_t n, struct request_view *v)
{
	const struct database *database = c->pooled.pool->database;
	usec_t now = c->peer.world->now, lasts = database->pools->conf->settings.read_check_period,
	       last;
	struct basis *basis;
	struct request_text text;
	struct read_names names;

	if (!database->roles || n > RETRY_MOST || !is_free_to_move(c) ||
	    !find_text(c, at, n, &text) || read_has_hint(text.at, text.size))
		return;
	basis = basis_of(database);

	if (!basis)
		return;
	if (lasts < LASTS_LEAST)
		lasts = LASTS_LEAST;
	last = basis->asked_at > basis->confirmed_at ? basis->asked_at : basis->confirmed_at;
	v->is_statement = true;
	v->verdict = verdict_on(c, &text);
	v->is_due = now - last >= lasts / 2;
	v->is_recent = now - basis->confirmed_at < lasts;
	v->may_ask = may_ask_one(basis, now);
	/* last, because this costs more than the other facts */
	v->only_reads =
		v->verdict == STANDBY_SEEN && v->may_ask &&
		read_text_only_reads(text.at, text.size, database->conf->read_functions, &names);
}

/* Asks the server of the client about its statement. True: the client waits for it. False: nothing
   is to be asked. */
static bool offload_ask(struct client *c)
{
	struct server *s = server_of(c->pooled.link);
	struct request *r = c->request;

	if (s->task)
		return false;
	r->is_confirmed = false;
	if (!ledger_is_empty(&s->ledger) || s->status != 'I') {
		bytes_free(&r->question);
		if (r->step == REQUEST_DOUBTED)
			client_end(c, REASON_OUTCOME_UNKNOWN, NULL);
		else
			offload_end(c);
		return r->step == REQUEST_DOUBTED;
	}
	s->pooled.pool->read_asks++;
	server_run_and_free(s, &task_read_auto, &r->question);
	return true;
}

/* Gets the client a server, and asks the server. */
static enum verdict ask_first(struct client *c)
{
	struct world *w = c->peer.world;
	struct pool_server *lent;

	c->peer.request_at = w->now_wall;
	lent = pool_want(&c->pooled, w->now);
	if (lent && link_begin(server_of(lent), c) && !offload_ask(c))
		return VERDICT_PASS;
	return peer_is_stopped(&c->peer) ? VERDICT_GONE : VERDICT_WAIT;
}

/* A lost server may have executed the request at the front of n bytes, with DOUBTED. */
static enum verdict ask_again(struct client *c, const uint8_t *at, size_t n)
{
	struct request_text text;

	if (n >= c->request->size && find_text(c, at, c->request->size, &text) &&
	    make_question(c, &text))
		return ask_first(c);
	client_end(c, REASON_OUTCOME_UNKNOWN, NULL);
	return VERDICT_GONE;
}

enum verdict offload_take(struct client *c, enum request_decision decision, const uint8_t *at,
			  size_t n)
{
	const struct database *database = c->pooled.pool->database;
	struct request *r = c->request;
	usec_t now = c->peer.world->now;
	struct request_text text;

	if (decision == DECIDE_ASK_AGAIN)
		return ask_again(c, at, n);
	r->size = n;
	request_forget(r);
	r->is_canceled = false;
	r->definitions = database->roles->written->definitions;
	r->asked_at = now;
	if (decision == DECIDE_ASK || decision == DECIDE_NEVER)
		take_question(basis_of(database), now);
	if (decision == DECIDE_OFFLOAD) {
		request_to(c, REQUEST_OFFLOADED);
	} else if (decision == DECIDE_NOTE) {
		set_verdict(c, r->key, STANDBY_SEEN);
	} else if (decision == DECIDE_ASK_ALL && make_question_of_all(r, basis_of(database), now)) {
		request_to(c, REQUEST_ASKING_ALL);
		return ask_first(c);
	} else if (decision == DECIDE_ASK && find_text(c, at, n, &text) &&
		   make_question(c, &text)) {
		set_verdict(c, r->key, STANDBY_ASKED);
		request_to(c, REQUEST_ASKING);
		return ask_first(c);
	} else if (decision == DECIDE_NEVER) {
		set_verdict(c, r->key, STANDBY_NEVER);
	}
	return VERDICT_PASS;
}

bool offload_blocks(struct client *c, size_t *n)
{
	struct request *r = c->request;
	if (r->step != REQUEST_OFFLOADED)
		return offload_ask(c);
	if (!offload_is_incomplete(c))
		return true;
	/* the next statement may have arrived while the client was in the queue */
	*n = *n < r->size - r->sent ? *n : r->size - r->sent;
	return false;
}

/* ---- the question ---- */

static void on_row(struct server *s, const struct pg_frame *row)
{
	static const uint8_t yes[] = { 0, 1, 0, 0, 0, 1, 't' };
	const struct client *c = s->pooled.link ? client_of(s->pooled.link) : NULL;

	if (c && c->request)
		c->request->is_confirmed = row->here == sizeof(yes) &&
				 memcmp(row->body, yes, sizeof(yes)) == 0;
}

/* The catalogue has answered the question of the client. */
static void take_answer(const struct client *c, bool failed)
{
	const struct database *database = c->pooled.pool->database;
	struct basis *basis = database->roles ? basis_of(database) : NULL;
	struct request *r = c->request;
	bool is_first;

	/* the definitions have changed meanwhile */
	if (!basis || basis->definitions != r->definitions)
		return;
	if (r->step == REQUEST_ASKING_ALL) {
		if (r->is_confirmed && !failed)
			basis->confirmed_at = r->asked_at;
		else if (!failed)
			read_definitions_changed(database);
		return;
	}
	is_first = basis->confirmed_at == 0;
	if (failed || !r->is_confirmed || !read_set_merge(&basis->names, &r->names)) {
		set_verdict(c, r->key, STANDBY_NOT_NOW);
		return;
	}
	if (is_first)
		basis->confirmed_at = r->asked_at;
	set_verdict(c, r->key, STANDBY_SUITS);
}

static enum task_end on_done(struct server *s, bool failed)
{
	struct client *c = s->pooled.link ? client_of(s->pooled.link) : NULL;

	/* the client has left, or another process has sent the question */
	if (!c)
		return TASK_END_RELEASE;
	if (s->said_fatal) {
		server_end(s, REASON_SERVER_CRASHED, NULL);
		return TASK_END_NOTHING;
	}
	if (request_step_in(c, REQUEST_IN(DOUBTED))) {
		request_to(c, request_holds_begin(c) ? REQUEST_TO_PRIMARY : REQUEST_DIRECT);
		if (!failed && c->request->is_confirmed)
			return TASK_END_RESUME;
		client_end(c, REASON_OUTCOME_UNKNOWN, NULL);
		return TASK_END_NOTHING;
	}
	if (request_step_in(c, REQUEST_IN(ASKING) | REQUEST_IN(ASKING_ALL))) {
		take_answer(c, failed);
		offload_end(c);
	}
	return TASK_END_RESUME;
}

const struct server_task task_read_auto = {
	.name = "reads",
	.description = "asking whether a text only reads",
	.states = TASK_IN(ACTIVE) | TASK_IN(TESTED),
	.reads_rows = true,
	.ends_alone = true,
	.on_row = on_row,
	.on_done = on_done,
};

/* ---- the answer ---- */

/* The primary gets the statement. `key`: of the verdict. */
static bool send_to_primary(struct server *s, enum close_reason why, uint64_t key,
			    enum read_verdict verdict)
{
	struct client *c = client_of(s->pooled.link);

	if (!retry_take_back(s, why, REQUEST_DIRECT))
		return false;
	set_verdict(c, key, verdict);
	offload_end(c);
	client_resume(c);
	return true;
}

NEVER_INLINE enum retry_verdict offload_look(struct server *s, const uint8_t *buf, size_t n)
{
	struct pg_frames all = { buf, n };
	struct request *r = client_of(s->pooled.link)->request;
	struct pg_error e;
	struct pg_frame f;
	bool is_fatal;

	if (r->repeat != REPEAT_WHOLE && r->repeat != REPEAT_UNSENT)
		return retry_look(s, buf, n);
	while (n < RETRY_MOST && pg_frames_next(&all, INT32_MAX, &f) == PG_OK) {
		if (f.type == PGS_READY)
			return RETRY_PASS;
		if (f.type != PGS_ERROR)
			continue;
		if (pg_error_read(f.body, f.size, &e) != PG_OK)
			return RETRY_PASS;
		if (r->is_canceled && strcmp(e.sqlstate, "57014") == 0)
			return RETRY_PASS;
		/* the error tells what is at fault: FATAL: the server, not the text; a data
		   exception such as a division by zero: only these literals */
		is_fatal = pg_error_is_fatal(f.body, f.size);
		if (is_fatal)
			host_doubt(s->pooled.host, s->peer.world->now);
		return send_to_primary(s, REASON_READ_FAILED,
				       strncmp(e.sqlstate, "22", 2) == 0 ? r->text_key : r->key,
				       is_fatal ? STANDBY_NOT_NOW : STANDBY_NEVER)
			       ? RETRY_TAKEN
			       : RETRY_PASS;
	}
	if (n < RETRY_MOST && !s->ledger.open)
		return RETRY_MORE;
	/* the answer is forwarded; offload_over() looks for an error in its rest */
	if (!client_of(s->pooled.link)->link_facts.keeps_state)
		s->session.has_failed = false;
	return RETRY_PASS;
}

NEVER_INLINE void offload_over(struct server *s, bool is_whole)
{
	struct client *c = client_of(s->pooled.link);

	if (!is_whole) {
		c->request->size = 0;
		return;
	}
	if (offload_is_away(s) && c->request->repeat == REPEAT_ANSWERED &&
	    !c->request->is_canceled && s->session.has_failed)
		set_verdict(c, c->request->text_key, STANDBY_NEVER);
	offload_end(c);
	if (bytes_size(&c->peer.held) > 0 || c->peer.blocked & FLOW_HELD) {
		c->peer.held_first = bytes_size(&c->peer.held) > 0;
		flow_unblock(&c->peer, FLOW_HELD);
		peer_come_again(&c->peer);
	}
}

bool offload_lost(struct server *s)
{
	struct client *c = s->pooled.link ? client_of(s->pooled.link) : NULL;
	struct host *host = s->pooled.host;

	if (!c || !c->request || !offload_is_away(s) || peer_is_stopped(&s->peer))
		return false;
	if (send_to_primary(s, REASON_SERVER_CRASHED, c->request->key, STANDBY_NOT_NOW)) {
		host_doubt(host, c->peer.world->now);
		return true;
	}
	set_verdict(c, c->request->key, STANDBY_NOT_NOW);
	return false;
}

/* ---- statements that a lost server may have executed ---- */

/* Whether the request of the client is one statement that only reads if the catalogue confirms
   it. */
static bool may_only_read(const struct client *c)
{
	const struct bytes *kept = &c->request->kept;
	struct read_names names;
	struct request_text text;

	return !request_step_in(c, REQUEST_IN_READ) &&
	       find_text(c, bytes_front(kept), bytes_size(kept), &text) &&
	       read_text_only_reads(text.at, text.size,
				    c->pooled.pool->database->conf->read_functions, &names);
}

bool offload_doubt(struct server *s, enum close_reason why)
{
	struct client *c = client_of(s->pooled.link);
	struct host *host = s->pooled.host;
	struct request *r = c->request;
	size_t size = bytes_size(&r->kept);
	/* the catalogue has been asked before */
	bool is_proven = r->step == REQUEST_OFFLOADED;

	if (!is_proven && (size == 0 || !may_only_read(c)))
		return false;
	if (!retry_take_back(s, why, is_proven ? REQUEST_DIRECT : REQUEST_DOUBTED))
		return false;
	if (!is_proven)
		r->size = size;
	host_doubt(host, c->peer.world->now);
	client_resume(c);
	return true;
}
