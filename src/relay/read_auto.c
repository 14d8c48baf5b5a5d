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
 *			statement itself this time. Meanwhile other clients with this text use the
 *			primary
 *	suits		the client asks for a standby (TARGET_READ) until the answer is complete: a
 *			host that is fresh enough for this client
 *	others		the primary
 *
 * Texts that differ in their literals share a verdict (read_text_mask()). A question costs the
 * primary some milliseconds, so a database asks about 10 texts a second at most, after the first
 * 20.
 *
 * The catalogue may change past pgweir. So once per half read_check_period, as long as texts with
 * the verdict "suits" arrive, one of them goes to the primary with the question about the names of
 * all these texts (struct basis). If the answer is no, or not the answer of this period, nothing
 * suits any more: a read relies on an answer that is at most one read_check_period old.
 *
 * Nothing of the answer of a standby is forwarded before it is complete or RETRY_MOST bytes long.
 * After an error until then, or if the connection is lost, the primary gets the same bytes
 * (retry_take_back), and its answer counts. From then on, the text is for the primary; after a data
 * exception (SQLSTATE 22...) only with the same literals. Further input of the client waits for the
 * end of the answer, because the next statement may be for another host. An error with 57014 is
 * passed on if the client has sent a cancel request.
 *
 * A server that is lost without an answer, and is no standby of this rule, may have executed the
 * statement: AUTO_DOUBTED. Then the next server is asked before it gets the statement, for clients
 * of all roles. If the text does more than read, its outcome is unknown.
 *
 * Only clients without a server that would share one are considered, so their sessions have no
 * temporary objects, pins or doubts.
 */
#include "relay/read_auto.h"

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

#define BUILT_IN_MOST 16383		/* the last OID of a type that is built in */
#define LASTS_LEAST (USEC / 10)
#define QUESTION_GAP (USEC / 10)
#define QUESTIONS_AT_ONCE 20

/* ---- the text of a request ---- */

/* All types that the Parse declares are built in: another one may be a domain with code. */
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
	/* no name stood for anything else at this time: before the question about all of them was
	   made ... */
	usec_t confirmed_at;
	usec_t asked_at;		/* ... and when the last one was made */
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

/* Takes the time of a question about a single text. False: none may be asked now. */
static bool take_question(struct basis *basis, usec_t now)
{
	usec_t from = basis->paid_until > now ? basis->paid_until : now;

	if (from - now > QUESTIONS_AT_ONCE * QUESTION_GAP)
		return false;
	basis->paid_until = from + QUESTION_GAP;
	return true;
}

/* ---- the verdict on a request ---- */

/* Makes the question for the catalogue. False: the text does more than read, or there is no
   memory. */
static bool make_question(struct client *c, const struct request_text *text)
{
	struct read_names names;
	struct retry *r = c->retry;

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

/* Makes the question about all names, if it is time for it. */
static bool make_question_of_all(struct retry *r, struct basis *basis, usec_t lasts, usec_t now)
{
	usec_t last = basis->asked_at > basis->confirmed_at ? basis->asked_at : basis->confirmed_at;

	if (now - last < lasts / 2)
		return false;
	basis->asked_at = now;
	bytes_free(&r->question);
	read_set_ask(&basis->names, &r->question);
	r->is_of_all = !r->question.failed;
	return r->is_of_all;
}

/* The statement is not for a standby any more. */
static void reset(struct client *c)
{
	if (c->retry->step == AUTO_AWAY && c->pooled.splits)
		c->pooled.target = TARGET_PRIMARY;
	c->retry->step = AUTO_NOT;
	bytes_free(&c->retry->question);
	read_set_free(&c->retry->names);
}

static void set_verdict(const struct client *c, uint64_t key, enum read_verdict verdict)
{
	read_verdict_set(c->pooled.pool->database, key, verdict, c->retry->definitions,
			 c->peer.world->now);
}

/* Looks the text up: as it is, then without its literals. Sets the keys. */
static enum read_verdict verdict_on(struct client *c, const struct request_text *text)
{
	static uint8_t masked[READ_TEXT_MOST];
	const struct database *database = c->pooled.pool->database;
	struct retry *r = c->retry;
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

/* The client has no server, and sends this text, which is a request of n bytes. */
static void aim(struct client *c, const struct request_text *text, size_t n)
{
	const struct database *database = c->pooled.pool->database;
	struct basis *basis = basis_of(database);
	usec_t now = c->peer.world->now, lasts = database->pools->conf->settings.read_check_period;
	struct retry *r = c->retry;

	if (!basis)
		return;
	if (lasts < LASTS_LEAST)
		lasts = LASTS_LEAST;
	r->size = n;
	retry_forget(r);
	r->is_ended = r->is_canceled = r->is_of_all = false;
	r->definitions = database->roles->written->definitions;
	r->asked_at = now;
	switch (verdict_on(c, text)) {
	case STANDBY_SUITS:
		if (make_question_of_all(r, basis, lasts, now)) {
			r->step = AUTO_ASKS;
		} else if (now - basis->confirmed_at < lasts) {
			r->step = AUTO_AWAY;
			c->pooled.target = TARGET_READ;
		}
		break;
	case STANDBY_UNKNOWN:
		set_verdict(c, r->key, STANDBY_SEEN);
		break;
	case STANDBY_SEEN:
		if (!take_question(basis, now))
			break;
		if (make_question(c, text))
			r->step = AUTO_ASKS;
		set_verdict(c, r->key, r->step == AUTO_ASKS ? STANDBY_ASKED : STANDBY_NEVER);
		break;
	case STANDBY_ASKED:
	case STANDBY_NOT_NOW:
	case STANDBY_NEVER:
		break;
	}
}

/* The client would share a server, and nothing binds it to a host. */
static bool is_free(const struct client *c)
{
	return link_will_share(c) && !c->login && !c->refused_until && c->collects == 0 &&
	       !c->half_sent && c->peer.passing == 0 && !c->pooled.listens && !c->pooled.is_held &&
	       !c->names_sql && c->pooled.state == CLIENT_IDLE;
}

/* Asks the server of the client about its statement. True: the client waits for it. False: nothing
   is to be asked. */
static bool ask(struct client *c)
{
	struct server *s = server_of(c->pooled.link);
	struct retry *r = c->retry;

	if ((r->step != AUTO_ASKS && r->step != AUTO_DOUBTED) || s->task)
		return false;
	if (r->step == AUTO_ASKS)
		r->step = AUTO_NOT;
	r->says = false;
	if (!ledger_is_empty(&s->ledger) || s->status != 'I') {
		bytes_free(&r->question);
		if (r->step == AUTO_DOUBTED)
			client_end(c, REASON_OUTCOME_UNKNOWN, NULL);
		return r->step == AUTO_DOUBTED;
	}
	s->pooled.pool->read_asks++;
	server_run_and_free(s, &task_read_auto, &r->question);
	return true;
}

/* Gets the client a server, and asks the server. True: the client waits, or the pair has ended. */
static bool ask_first(struct client *c)
{
	struct world *w = c->peer.world;
	struct pool_server *lent;

	c->peer.request_at = w->now_wall;
	lent = pool_want(&c->pooled, w->now);
	return !lent || !link_begin(server_of(lent), c) || ask(c);
}

/* A lost server may have executed the request at the front of n bytes, with AUTO_DOUBTED. */
static bool ask_again(struct client *c, const uint8_t *at, size_t n)
{
	struct request_text text;

	if (n >= c->retry->size && find_text(c, at, c->retry->size, &text) &&
	    make_question(c, &text))
		return ask_first(c);
	client_end(c, REASON_OUTCOME_UNKNOWN, NULL);
	return true;
}

/* The client has a server. */
static bool waits_for_answer(struct client *c, size_t *n)
{
	struct retry *r = c->retry;

	if (r->step == AUTO_ASKS || r->step == AUTO_DOUBTED)
		return ask(c);
	if (r->step != AUTO_AWAY)
		return false;
	if (!read_is_incomplete(c))
		return true;
	/* the next statement may have arrived while the client was in the queue */
	*n = *n < r->size - r->sent ? *n : r->size - r->sent;
	return false;
}

bool read_waits(struct client *c, const uint8_t *at, size_t *n)
{
	const struct database *database = c->pooled.pool->database;
	struct request_text text;

	if (c->pooled.link)
		return waits_for_answer(c, n);
	if (c->retry->step == AUTO_DOUBTED)
		return ask_again(c, at, *n);
	if (c->retry->step != AUTO_NOT)
		reset(c);
	/* reads.c decides about transactions */
	if (database->conf->reads == READS_AUTO && database->roles && c->reads == 0 &&
	    c->pooled.splits && c->pooled.target == TARGET_PRIMARY && *n <= RETRY_MOST &&
	    is_free(c) && find_text(c, at, *n, &text) && !read_has_hint(text.at, text.size))
		aim(c, &text, *n);
	return c->retry->step == AUTO_ASKS && ask_first(c);
}

/* ---- the question ---- */

static void on_row(struct server *s, const struct pg_frame *row)
{
	static const uint8_t yes[] = { 0, 1, 0, 0, 0, 1, 't' };
	const struct client *c = s->pooled.link ? client_of(s->pooled.link) : NULL;

	if (c && c->retry)
		c->retry->says = row->here == sizeof(yes) &&
				 memcmp(row->body, yes, sizeof(yes)) == 0;
}

/* The catalogue has answered the question of the client. */
static void take_answer(const struct client *c, bool failed)
{
	const struct database *database = c->pooled.pool->database;
	struct basis *basis = database->roles ? basis_of(database) : NULL;
	struct retry *r = c->retry;
	bool is_first;

	/* the definitions have changed meanwhile */
	if (!basis || basis->definitions != r->definitions)
		return;
	if (r->is_of_all) {
		if (r->says && !failed)
			basis->confirmed_at = r->asked_at;
		else if (!failed)
			read_definitions_changed(database);
		return;
	}
	is_first = basis->confirmed_at == 0;
	if (failed || !r->says || !read_set_merge(&basis->names, &r->names)) {
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
	if (c->retry && c->retry->step == AUTO_DOUBTED) {
		c->retry->step = AUTO_NOT;
		if (!failed && c->retry->says)
			return TASK_END_RESUME;
		client_end(c, REASON_OUTCOME_UNKNOWN, NULL);
		return TASK_END_NOTHING;
	}
	if (c->retry && c->retry->key != 0)
		take_answer(c, failed);
	return TASK_END_RESUME;
}

const struct server_task task_read_auto = {
	.name = "reads",
	.words = "asking whether a text only reads",
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

	if (!retry_take_back(s, why))
		return false;
	set_verdict(c, key, verdict);
	reset(c);
	client_resume(c);
	return true;
}

NEVER_INLINE enum retry_verdict read_look(struct server *s, const uint8_t *buf, size_t n)
{
	struct pg_frames all = { buf, n };
	struct retry *r = client_of(s->pooled.link)->retry;
	struct pg_error e;
	struct pg_frame f;
	bool is_fatal;

	if (!r->is_first || r->sent == 0)
		return retry_look(s, buf, n);
	while (n < RETRY_MOST && pg_frames_next(&all, INT32_MAX, &f) == PG_OK) {
		if (f.type == PGS_READY)
			return RETRY_PASS;
		if (f.type != PGS_ERROR)
			continue;
		if (pg_error_read(f.body, f.size, &e) != PG_OK)
			return RETRY_PASS;
		if (r->is_canceled && strcmp(e.sqlstate, "57014") == 0) {
			r->is_ended = true;
			return RETRY_PASS;
		}
		/* a FATAL error is about the server and not about the text, a data exception about
		   its literals */
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
	/* the answer is forwarded; read_over() looks for an error in its rest */
	if (!client_of(s->pooled.link)->keeps_state)
		s->session.has_failed = false;
	return RETRY_PASS;
}

NEVER_INLINE void read_over(struct server *s, bool is_whole)
{
	struct client *c = client_of(s->pooled.link);

	if (!is_whole) {
		c->retry->size = 0;
		return;
	}
	if (read_is_away(s) && !c->retry->is_first && !c->retry->is_ended && s->session.has_failed)
		set_verdict(c, c->retry->text_key, STANDBY_NEVER);
	reset(c);
	if (bytes_size(&c->peer.held) > 0 || c->peer.blocked & FLOW_HELD) {
		c->peer.held_first = bytes_size(&c->peer.held) > 0;
		flow_unblock(&c->peer, FLOW_HELD);
		peer_come_again(&c->peer);
	}
}

bool read_lost(struct server *s)
{
	struct client *c = s->pooled.link ? client_of(s->pooled.link) : NULL;
	struct host *host = s->pooled.host;

	if (!c || !c->retry || !read_is_away(s) || peer_is_stopped(&s->peer))
		return false;
	if (send_to_primary(s, REASON_SERVER_CRASHED, c->retry->key, STANDBY_NOT_NOW)) {
		host_doubt(host, c->peer.world->now);
		return true;
	}
	set_verdict(c, c->retry->key, STANDBY_NOT_NOW);
	return false;
}

/* ---- statements that a lost server may have executed ---- */

/* The request of the client is one statement that only reads if the catalogue confirms it. */
static bool may_only_read(const struct client *c)
{
	const struct bytes *request = &c->retry->request;
	struct read_names names;
	struct request_text text;

	return !(c->reads & READING_HERE) &&
	       find_text(c, bytes_front(request), bytes_size(request), &text) &&
	       read_text_only_reads(text.at, text.size,
				    c->pooled.pool->database->conf->read_functions, &names);
}

bool read_doubt(struct server *s, enum close_reason why)
{
	struct client *c = client_of(s->pooled.link);
	struct host *host = s->pooled.host;
	struct retry *r = c->retry;
	size_t size = bytes_size(&r->request);
	/* the catalogue has been asked before */
	bool is_proven = r->step == AUTO_AWAY;

	if ((!is_proven && (size == 0 || !may_only_read(c))) || !retry_take_back(s, why))
		return false;
	if (!is_proven) {
		r->step = AUTO_DOUBTED;
		r->size = size;
	}
	host_doubt(host, c->peer.world->now);
	client_resume(c);
	return true;
}
