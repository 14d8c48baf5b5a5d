/*
 * The state of a client's session, with session_state = full: state that a client makes in one
 * transaction is there in its next transaction, on any server, and no other client sees it.
 *
 * Parameters and the role are restored on the client's next server (session_restore.c). Other state
 * pins the server: the client keeps it between transactions as long as it has state there that
 * cannot move (tbl/session_fact.tbl).
 *
 * The server is asked for the state, because SQL cannot be understood completely: a SET may be
 * rolled back, be one of many statements of a text, or be in a function. It is asked at the end of
 * a link, before another client gets the server, and only for dirty facts
 * (session.dirty):
 *
 *	- after command tags: SET, RESET, CREATE, PREPARE, LISTEN and similar ones; DO and CALL may
 *	  have done anything;
 *	- after words in texts: set_config, pg_advisory_lock, TEMP, HOLD (sql/state_text.h), and
 *	  names of functions with such words in their sources (session_functions.c). A prepared
 *	  statement with such a text may be executed in any later link of its client, so the server
 *	  is asked at the end of each of them (session->calls).
 *
 * While the server is pinned, the end of a pin is noticed likewise: DROP TABLE, CLOSE, UNLISTEN,
 * pg_advisory_unlock.
 *
 * The answer contains the parameters of the client from then on (struct params). The view
 * pg_settings shows the parameters that are set in a session, except parameters with a dot, unless
 * an extension has defined them. These are asked for by name; the names come from the client's
 * texts.
 *
 * The server cannot be asked for some state: a parameter whose name is not in the text
 * (set_config($1, ...)), LOAD, a connection of dblink, setseed. It pins the server until the client
 * leaves, as in session mode. Parameters that DO, CALL and a function call of the protocol set by
 * names in no text are taken away by RESET ALL, before another client gets the server
 * (session.tainted_by). Therefore the state of each server without a client is known, or the
 * server is reset before it is lent again.
 *
 * SQL is examined completely before it is sent. If a text does not fit the read buffer, its rest is
 * not examined: then the server is asked for everything, and if a command has set parameters, the
 * client keeps its server.
 *
 * What pgweir knows. Each fact about a session has one of four grades; what is not listed in
 * session.dirty, session.stale or session.tainted_by is known.
 *
 *	grade	  kept in	may be trusted			made known by
 *	known	  -		server->params, the role, the	-
 *				pins of the client
 *	dirty	  dirty		nothing about this fact. The	session_state_ask(): the server
 *				client has changed it, or may	is asked before the link ends
 *				have
 *	stale	  stale		the value that the client	session_restore_begin(): the
 *				must have, but not that the	value is set or discarded
 *				session has it			before the client's next message
 *	tainted	  tainted_by	the session only while this	the next client's link resets
 *				client uses it			the session (STALE_SESSION)
 *
 *	fact			dirty		stale			tainted
 *	reported parameter	PARAMETERS	never			RESET ALL
 *	other parameter		PARAMETERS	PARAMS, SOURCES		RESET ALL
 *	role			ROLE		ROLE			set back
 *	temporary tables,	their PIN_ bit	never: the client	restore_reset
 *	cursors, locks,				keeps its server
 *	statements of SQL
 *	channels		LISTENING,	CHANNELS		UNLISTEN
 *				CHANNELS
 *	values of sequences	never: pinned,	SEQUENCES		DISCARD
 *				or in `values`
 *	functions of database	never		FUNCTIONS		-
 *
 *	event						moves
 *	the link begins					all to not dirty: session_state_begin()
 *	... another client had tainted the session	to stale: server_note_client()
 *	... a prepared statement of the client may	to dirty or tainted:
 *	change a fact					session_note_prepared()
 *	... the functions are old			to stale: begin_state() in link.c
 *	a text is about to be sent			to dirty or tainted: note_words()
 *	... it reads values of sequences		to stale: session_values_claim()
 *	a command is complete				to dirty, for a function call also
 *							tainted: session_note_command()
 *	... SET, RESET or DISCARD ALL			PARAMS and ROLE to stale; after pgweir's
 *							own DISCARD ALL parameters, role and the
 *							taint to known: server_note_command()
 *	the server reports is_superuser			the role to dirty and stale:
 *							set_role_stale()
 *	the answer to session_state_ask()		dirty to known; after temporary tables
 *							to tainted: question_learn()
 *	the answer to session_restore_begin()		stale to known: expect_params()
 *	the client leaves in a transaction		dirty: reset or close: relay/finish.c
 *
 * Example. A client sends SELECT set_config('work_mem', '1GB', false). note_words() makes the
 * parameters dirty before the text is sent. At the end of the transaction session_state_ask() reads
 * pg_settings, and question_learn() stores work_mem in client->params. The next client has other
 * parameters: session_restore_begin() sets them, without a stale bit, because the two sets differ.
 *
 * Example. A client calls a function whose text pgweir has not examined. note_words() taints the
 * session with the number of this client. If the same client comes back, nothing happens. Before
 * another client's first message server_note_client() makes the session stale, and
 * session_restore_begin() sends the statements of a DISCARD ALL.
 */
#include "state/session_state.h"

#include "base/assert.h"
#include "base/inline.h"
#include "base/log.h"
#include "base/mem.h"
#include "pg/message.h"
#include "pool/host.h"
#include "sql/state_text.h"
#include "sql/values_text.h"
#include "state/notify.h"
#include "state/server_session.h"
#include "state/session_functions.h"
#include "state/session_question.h"
#include "state/session_restore.h"
#include "state/session_values.h"
#include "state/task.h"

#include <stdio.h>
#include <string.h>

/* Facts that the server can be asked for. */
enum {
	ASKABLE = 0
#define SESSION_PIN(id, label, texts, set_by, ended_by, ask, where) \
	| (ask != ASK_NOT ? PIN_##id : 0)
#define SESSION_FACT(id, texts, set_by, ended_by, ask) | (ask != ASK_NOT ? FACT_##id : 0)
#include "tbl/session_fact.tbl"
};

/* ---- pins ---- */

/* Logs the reasons why the client keeps its server, each reason once. */
static void log_pins(struct client *c, unsigned pins)
{
	unsigned fresh = pins & ~c->session->pins_logged;
	char who[256], text[PIN_TEXT];

	if (!fresh)
		return;
	c->session->pins_logged |= (uint8_t)fresh;
	log_info("%s keeps its server connection: %s", client_text(c, who, sizeof(who)),
		 pins_text(fresh, text));
}

void session_pin(struct client *c, unsigned pins)
{
	bool is_first = !c->pooled.pins && pins;

	pool_client_pin(&c->pooled, pins);
	if (!c->session)
		return;
	/* LISTEN keeps the server only until the listener has the channels */
	log_pins(c, pins & ~(unsigned)PIN_LISTENING);
	if (is_first) {
		c->session->pinned_since = c->peer.world->now;
		c->session->pin_is_granted = false;
	}
}

void session_keep_server(struct client *c, enum pin why, const char *label)
{
	char who[256];

	if (c->pooled.pins & why)
		return;
	log_info("%s keeps its server connection until it leaves: %s",
		 client_text(c, who, sizeof(who)), label);
	if (c->session)
		c->session->pins_logged |= (uint8_t)why;
	session_pin(c, c->pooled.pins | why);
}

bool session_must_yield(const struct client *c)
{
	const struct pool *pool = c->pooled.pool;
	int64_t most = pool->allowed.max_pinned;

	return session_values_may_yield(c) &&
	       (pools_is_paused(pool->pools, pool->database) ||
		pools_is_paused(pool->pools, NULL) || pool->pools->draining == POOL_DRAIN_SERVERS ||
		c->pooled.link->close_reason != REASON_NONE || (most > 0 && pool->pinned > most));
}

bool session_state_keeps_server(struct client *c)
{
	const struct pool *pool = c->pooled.pool;
	int64_t most = pool->allowed.max_pinned;
	char text[PIN_TEXT];

	if (session_must_yield(c)) {
		session_values_lost(c);
		session_pin(c, 0);
	}
	if (!c->pooled.pins)
		return false;
	/* the client would keep a standby, where each later write fails: it ends. relay/request.c
	   sends texts that pin to the primary, but not all of them can be recognised */
	if (c->pooled.reads != READS_OFF && c->pooled.link->host &&
	    c->pooled.link->host->evidence.claim == CLAIM_STANDBY)
		client_end(c, REASON_PINNED_STANDBY, pins_text(c->pooled.pins, text));
	if (!c->session || c->session->pin_is_granted)
		return true;
	c->session->pin_is_granted = true;
	log_pins(c, c->pooled.pins);
	if (most > 0 && pool->pinned > most)
		client_end(c, REASON_MAX_PINNED, pins_text(c->pooled.pins, text));
	return true;
}

/* ---- texts and commands of clients ---- */

static void name_parameter(void *context, const char *name)
{
	struct client *c = context;
	struct client_session *state = c->session;

	/* names are not collected while the client is pinned for parameters */
	if (c->pooled.pins & PIN_PARAMETERS)
		return;
	if (!session_will_ask_for(state, name))
		session_keep_server(c, PIN_PARAMETERS, "it has named too many parameters");
	else if (state->names.failed)
		session_keep_server(c, PIN_PARAMETERS, "out of memory");
}

/* Functions were looked up when the statements were prepared. If functions have changed since, the
   statements may change anything. */
void session_note_prepared(struct server *s, struct client *c)
{
	struct client_session *state = c->session;
	const struct server_info *info = c->pooled.pool->server_info;
	unsigned calls;

	if (!c->link_facts.keeps_state)
		return;
	if (state->has_prepared && !session_functions_are_known(c->pooled.pool)) {
		server_note_tainted(s, c->peer.id);
	} else if (state->has_prepared && state->prepared_as_of != info->functions->hash) {
		state->prepared_as_of = info->functions->hash;
		state->calls |= CALLS_ANYTHING;
	}
	calls = state->calls | state->unnamed_calls;
	if (calls & CALLS_ANYTHING)
		server_note_tainted(s, c->peer.id);
	if (calls & CALLS_DEFINES)
		server_note_changes(s, CHANGES_FUNCTIONS);
	session_set_dirty(s, calls & ~(unsigned)(CALLS_ANYTHING | CALLS_DEFINES));
}

static void forget_progress(struct client *c)
{
	mem_free(c->session->progress);
	c->session->progress = NULL;
}

void session_state_begin(struct server *s, struct client *c)
{
	/* before its welcome the client has no state and no parameters (login/login.h) */
	bool may_keep = c->link_facts.shares_server && c->params;
	const char *path;

	if (may_keep && !c->session && (c->session = mem_try(sizeof(*c->session))) != NULL)
		c->session->first = params_hold(c->params);
	c->link_facts.keeps_state = may_keep && c->session;
	if (may_keep && !c->link_facts.keeps_state)
		session_keep_server(c, PIN_PARAMETERS, "out of memory");
	session_set_clean(s, UINT16_MAX);
	s->session.was_reset = s->session.text_was_cut = s->session.channels_restored =
		s->session.has_failed = s->session.is_filled = false;
	/* nearly every client does nothing with sequences */
	if (s->session.values_of != c->peer.id ||
	    (c->link_facts.keeps_state && session_values_matter(c)))
		session_values_begin(s, c, c->link_facts.keeps_state);
	/* the texts of other clients are not examined */
	if (!list_is_empty(&c->peer.world->notify.listeners) &&
	    (c->link_facts.keeps_state ? c->session->notifies : !c->link_facts.shares_server))
		s->notifies = true;
	if (!c->link_facts.keeps_state)
		return;
	/* the search of an incomplete text is given up, because the next text of the client may be
	   another */
	forget_progress(c);
	session_note_prepared(s, c);
	if (c->pooled.listens && c->session->unlistens &&
	    notify_client_is_told(c->session->notify_client))
		session_set_stale(s, STALE_CHANNELS);
	if (server_unset_params(s, c))
		session_set_stale(s, STALE_SOURCES);
	/* SELECT INTO makes a temporary table if search_path begins with pg_temp */
	path = params_get(c->params, PARAM_SEARCH_PATH);
	if (path && strchr(path, '_') && strcasestr(path, "pg_temp"))
		session_set_dirty(s, PIN_TEMPORARY);
}

/* Returns the facts that SQL with these words may change. */
static unsigned dirty_after_text(unsigned said)
{
	if (said & TEXT_CUT)
		return ASKABLE;
	return 0
#define SESSION_PIN(id, label, texts, set_by, ended_by, ask, where) \
	| (said & (texts) ? (unsigned)PIN_##id : 0u)
#define SESSION_FACT(id, texts, set_by, ended_by, ask) | (said & (texts) ? (unsigned)FACT_##id : 0u)
#include "tbl/session_fact.tbl"
		;
}

static NEVER_INLINE void note_first_prepared(struct client *c)
{
	const struct server_info *info = c->pooled.pool->server_info;

	c->session->prepared_as_of = info && info->functions ? info->functions->hash : 0;
	c->session->has_prepared = true;
}

/* The client prepares a statement without effects on the session. */
static ALWAYS_INLINE void note_plain_prepared(const struct server *s, struct client *c,
					      enum text_of of)
{
	struct client_session *state = c->session;

	if (of == TEXT_OF_UNNAMED) {
		state->unnamed_fills = false;
		/* an error before this Parse makes the server skip it: then the unnamed statement
		   stays, with its effects */
		if (state->unnamed_calls && ledger_is_empty(&s->ledger))
			state->unnamed_calls = 0;
	}
	if (!state->has_prepared)
		note_first_prepared(c);
}

/* The statement may be executed in any later link. */
static void note_prepared(const struct server *s, struct client *c, unsigned said, unsigned dirty,
			  enum text_of of)
{
	note_plain_prepared(s, c, of);
	if (of == TEXT_OF_UNNAMED) {
		c->session->unnamed_calls |= (uint16_t)dirty;
		c->session->unnamed_fills = said & (TEXT_DRAWS | TEXT_FILLS | TEXT_CUT);
	}
	c->session->prepared_reads |= said & TEXT_READS_SEQUENCES;
	if (of == TEXT_OF_NAMED || said & TEXT_PREPARES) {
		c->session->calls |= (uint16_t)dirty;
		c->session->unlistens |= said & (TEXT_UNLISTENS | TEXT_LISTENS);
		c->session->draws |= said & TEXT_DRAWS;
		c->session->fills |= said & (TEXT_FILLS | TEXT_CUT);
	}
}

/* ---- the search of texts ---- */

/*
 * A text of 128 KB that is full of names takes a millisecond. Therefore a client reads its texts
 * only up to its share of a turn (world->share.words_left), and continues in the next turn, as it
 * does with messages (relay/from_client.c). Short texts are read at once, and need no memory.
 */
/* bytes of a text for which state_text_tells() may be called repeatedly */
#define SHORT_TEXT 4096

enum search { SEARCH_CALLS, SEARCH_FUNCTIONS, SEARCH_NOTIFIERS, SEARCH_WORDS };

struct text_progress {
	size_t size;			/* of the text */
	/* of the functions of the database, plus one; 0: the functions are not known */
	unsigned readings;
	const struct state_functions *functions;	/* that are searched for; NULL: none */
	struct text_calls calls;	/* SEARCH_CALLS */
	struct text_search searches[SEARCH_WORDS];
	struct text_reading words;	/* SEARCH_WORDS */
	unsigned of_functions;		/* SEARCH_FUNCTIONS: TEXT_ bits */
	bool is_unproven;		/* SEARCH_CALLS */
	bool calls_unknown;		/* SEARCH_CALLS: a function that is not known */
	bool may_notify;		/* SEARCH_NOTIFIERS */
};

/* Goes on with the search, or begins it if the text or the functions have changed. `told`: from
   state_text_tells(). */
static void begin_search(struct text_progress *p, const struct client *c, size_t size,
			 enum text_of of, unsigned told)
{
	const struct server_info *info = c->pooled.pool->server_info;
	unsigned readings = session_functions_are_known(c->pooled.pool)
				    ? info->functions->readings + 1
				    : 0;

	if (p->size != size || p->readings != readings)
		*p = (struct text_progress){ .size = size,
					     .readings = readings,
					     .calls.is_plain = !(told & TEXT_TELLS_CALLS) &&
							       size <= SHORT_TEXT };
	/* a statement with a name may be executed when the pool reads values of sequences */
	p->functions = of == TEXT_OF_NAMED && info && info->functions
			       ? info->functions->all
			       : session_functions_of(c->pooled.pool);
	p->is_unproven |= readings == 0;
}

/* Runs one search. False: the share of this turn is used up. */
static bool session_search(struct text_progress *p, enum search which, struct client *c,
			   const uint8_t *text, size_t size)
{
	const struct server_info *info = c->pooled.pool->server_info;
	struct text_search *s = which == SEARCH_WORDS	? &p->words.search
				: which == SEARCH_CALLS ? &p->calls.search
							: &p->searches[which];

	if (s->is_over)
		return true;
	s->words_left = c->peer.world->share.words_left;
	if (s->words_left <= 0)
		return false;
	switch (which) {
	case SEARCH_CALLS:
		/* functions that are not known now may be unknown to the next reading, too, so only
		   functions of PostgreSQL count */
		p->calls_unknown |= !state_functions_know_calls(
			p->readings > 0 ? info->functions->all : NULL, &p->calls, text, size);
		p->is_unproven |= p->calls_unknown;
		break;
	case SEARCH_WORDS:
		state_text_read(&p->words, text, size, name_parameter, c);
		break;
	case SEARCH_FUNCTIONS:
		/* `told` has the names of functions that were found in earlier texts of this
		   client */
		if (c->session->told_of != info->functions->readings) {
			c->session->told = (struct state_names){ { 0 } };
			c->session->told_of = info->functions->readings;
		}
		p->of_functions |= state_functions_read(p->functions, s, text, size,
							&c->session->told, name_parameter, c);
		break;
	case SEARCH_NOTIFIERS:
		p->may_notify |= state_functions_find_notify(info->functions->all, s, text, size);
		break;
	}
	world_looked(c->peer.world, (uint32_t)(c->peer.world->share.words_left - s->words_left));
	c->peer.world->share.words_left = s->words_left;
	return s->is_over;
}

/* Notes the facts that the text may change. False: it must wait; see session_state_text(). */
static bool note_words(struct server *s, struct client *c, const struct text_progress *p,
		       const uint8_t *text, size_t size, enum text_of of)
{
	const struct notify_client *h = c->session->notify_client;
	unsigned said = p->words.said | p->of_functions, dirty;
	struct values_text values;
	bool is_unproven = p->is_unproven || said & TEXT_ANY_EFFECT, is_of_values;

	said |= p->words.said & TEXT_SELECTS_INTO ? TEXT_TEMPORARY : 0u;
	/* such a function may have been made a moment ago: its temporary tables must not be lost */
	dirty = p->calls_unknown ? ASKABLE : dirty_after_text(said);
	/* The client may UNLISTEN, ask for its channels, or begin a transaction with such a
	   command: the server must LISTEN to its channels first. LISTEN takes effect with the
	   commit, so this is not possible in a transaction or within a batch. */
	if (c->pooled.listens && h &&
	    said & (TEXT_UNLISTENS | TEXT_LISTENS | TEXT_BEGINS | TEXT_CUT) &&
	    !s->session.channels_restored && !s->ledger.open &&
	    (s->status == 'I' || !ledger_is_empty(&s->ledger)) && notify_client_is_told(h))
		return false;
	c->session->sets_values |= said & TEXT_SETS_VALUES;
	if (said & TEXT_READS_SEQUENCES &&
	    !session_values_claim(s, c, said, p->of_functions, of,
				  is_unproven || said & TEXT_PREPARES))
		return false;
	/* such a text draws no values, unless a function of the database has the name of one of its
	   words */
	is_of_values = p->words.said & TEXT_READS_SEQUENCES && !(p->of_functions & TEXT_DRAWS) &&
		       values_text_read(text, size, &values);
	s->session.is_filled = said & TEXT_SETS_NULL || is_of_values;
	/* A text in which values may be filled in is examined twice. The first examination must not
	   put the kept values in doubt, because the second would ask the server for them again. */
	s->session.values_are_own &= s->session.is_filled;
	session_set_dirty(s, dirty);
	s->session.text_was_cut |= (said & TEXT_CUT) != 0;
	if (!is_of_values && (said & TEXT_DRAWS ||
			      (c->pooled.pool->reads_sequences && said & (TEXT_FILLS | TEXT_CUT)) ||
			      (c->session->values && is_unproven)))
		session_values_keep(c);
	if (said & TEXT_SETS_UNNAMED)
		session_keep_server(c, PIN_PARAMETERS, said & TEXT_SETS_ODDLY_NAMED ?
				    "it sets a parameter whose name pgweir cannot keep" :
				    "it sets a parameter whose name is not in the query");
	if (said & TEXT_STAYS) {
		session_keep_server(
			c, PIN_LIBRARY,
			"it uses dblink_connect, setseed, SET seed, isn_weak, a replication "
			"origin, a replication slot, pg_backup_start or LOAD");
		/* the effect cannot be undone for another client, so the server closes when it is
		   released */
		if (s->pooled.close_reason == REASON_NONE)
			pool_server_close_later(&s->pooled, REASON_STATE_STAYS);
	}
	if (said & TEXT_ANY_EFFECT)
		server_note_changes(s, CHANGES_FUNCTIONS);
	if (is_unproven)
		server_note_tainted(s, c->peer.id);
	if (of != TEXT_OF_QUERY || said & TEXT_PREPARES)
		note_prepared(s, c, said,
			      (p->calls_unknown ? dirty_after_text(said) | PIN_TEMPORARY : dirty) |
				      (is_unproven ? CALLS_ANYTHING : 0u) |
				      (said & TEXT_ANY_EFFECT ? CALLS_DEFINES : 0u),
			      of);
	return true;
}

/* Notes whether the text may send notifications. A statement with a name may send them in later
   links, and to listeners that come later. */
static void note_notifier(struct server *s, struct client *c, enum text_of of, bool may_notify)
{
	if (of == TEXT_OF_UNNAMED && ledger_is_empty(&s->ledger))
		c->session->notifies &= (uint8_t)~(1u << TEXT_OF_UNNAMED);
	if (!may_notify)
		return;
	c->session->notifies |= of == TEXT_OF_QUERY ? 0u : 1u << of;
	s->notifies |= !list_is_empty(&c->peer.world->notify.listeners);
}

/* Searches the text, for words too if it `tells`; sets *tells if other reasons need the words.
   False: the search continues in the next turn. */
static bool search_text(struct text_progress *p, struct client *c, const uint8_t *text, size_t size,
			bool notifies, bool calls, bool *tells)
{
	if (calls && !session_search(p, SEARCH_CALLS, c, text, size))
		return false;
	*tells |= p->is_unproven || p->functions || c->pooled.pool->reads_sequences ||
		  c->pooled.listens;
	return (!*tells ||
		(session_search(p, SEARCH_WORDS, c, text, size) &&
		 (!p->functions || session_search(p, SEARCH_FUNCTIONS, c, text, size)))) &&
	       (!notifies || p->is_unproven || session_search(p, SEARCH_NOTIFIERS, c, text, size));
}

static NEVER_INLINE enum verdict session_read_text(struct server *s, struct client *c,
						   const uint8_t *text, size_t size,
						   enum text_of of, unsigned told)
{
	struct text_progress short_text = { 0 },
			     *p = c->session->progress ? c->session->progress : &short_text;
	bool notifies = of == TEXT_OF_NAMED || !list_is_empty(&c->peer.world->notify.listeners);
	/* a statement with a name may fill columns in later links, when the pool reads sequences */
	bool tells = told & TEXT_TELLS_WORDS || of == TEXT_OF_NAMED;

	begin_search(p, c, size, of, told);
	while (!search_text(p, c, text, size, notifies,
			    told & (TEXT_TELLS_CALLS | TEXT_TELLS_PARENTHESIS), &tells)) {
		if (p == &short_text && (p = mem_try(sizeof(*p))) != NULL) {
			*p = short_text;
			c->session->progress = p;
		}
		if (p)
			return VERDICT_LATER;
		/* without memory the text is read at once */
		p = &short_text;
		c->peer.world->share.words_left = INT32_MAX;
	}
	if (of == TEXT_OF_NAMED)
		c->session->unlistens |= state_text_begins(text, size);
	if (notifies)
		note_notifier(s, c, of, p->is_unproven || p->may_notify);
	if (tells && !note_words(s, c, p, text, size, of))
		return VERDICT_WAIT;
	if (!tells && of != TEXT_OF_QUERY)
		note_plain_prepared(s, c, of);
	forget_progress(c);
	return VERDICT_PASS;
}

enum verdict session_state_text(struct server *s, struct client *c, const uint8_t *text,
				size_t size, enum text_of of)
{
	unsigned tells = size > SHORT_TEXT && c->session->progress
				 ? TEXT_TELLS_WORDS | TEXT_TELLS_CALLS
				 : state_text_tells(text, size);

	if (tells || !session_functions_are_known(c->pooled.pool) || of == TEXT_OF_NAMED ||
	    !list_is_empty(&c->peer.world->notify.listeners) ||
	    session_functions_of(c->pooled.pool) || c->pooled.pool->reads_sequences ||
	    c->pooled.listens)
		return session_read_text(s, c, text, size, of, tells);
	if (of != TEXT_OF_QUERY)
		note_plain_prepared(s, c, of);
	return VERDICT_PASS;
}

void session_text_prepare(struct server *s, struct client *c, const uint8_t *text, size_t size)
{
	if (s->session.stale & STALE_SEQUENCES ||
	    (c->session->values && !session_values_are_known(s, c)))
		session_values_prepare(s, c, text, size);
	else
		session_restore_channels(s, c);
}

static const char *first_value(void *context, const char *name)
{
	const struct client *c = context;
	int index = params_index(c->peer.world->params, name);

	return index >= 0 ? params_get(c->session->first, index)
			  : params_other_value(c->session->first, name);
}

bool session_state_fill(struct server *s, struct client *c, const uint8_t *text, size_t size,
			bool is_query, struct bytes *filled)
{
	return (is_query && session_values_fill(s, c, text, size, filled)) ||
	       state_text_fill_nulls(text, size, first_value, c, filled);
}

/* Returns the facts that a command with this tag may have changed. */
static unsigned dirty_after_tag(enum pg_tag tag, unsigned pins)
{
	unsigned bit = 1u << tag;

	if (tag == TAG_CODE || tag == TAG_DISCARD_ALL)
		return ASKABLE;
	return 0
#define T(id) (1u << TAG_##id)
#define SESSION_PIN(id, label, texts, set_by, ended_by, ask, where) \
	| (bit & (set_by) ? (unsigned)PIN_##id : 0u) | (bit & (ended_by) ? pins & PIN_##id : 0u)
#include "tbl/session_fact.tbl"
#undef T
		;
}

void session_note_command(struct server *s, enum pg_tag tag, bool is_reset)
{
	struct client *c = s->pooled.link ? client_of(s->pooled.link) : NULL;

	/* the client has left, and no client can get its state */
	if (!c && s->pooled.state == SERVER_FINISHING && pool_keeps_state(s->pooled.pool)) {
		session_set_dirty(s,
				  dirty_after_tag(tag, ~0u) | (tag == TAG_LOAD ? PIN_LIBRARY : 0u));
		s->notifies |= tag == TAG_CODE && !list_is_empty(&s->peer.world->notify.listeners);
	}
	if (!c || !c->link_facts.keeps_state)
		return;
	session_set_dirty(s, dirty_after_tag(tag, c->pooled.pins));
	s->session.was_reset |= is_reset;
	if (is_reset)
		server_close_if_reset(s);
	s->session.channels_restored |= tag == TAG_DISCARD_ALL;
	if (tag == TAG_DISCARD_ALL)
		notify_client_forget(c);
	if (tag == TAG_CODE) {
		s->notifies |= !list_is_empty(&c->peer.world->notify.listeners);
		server_note_changes(s, CHANGES_FUNCTIONS);
		server_note_tainted(s, c->peer.id);
	}
	if (tag == TAG_DISCARD_ALL || tag == TAG_DISCARD_SEQUENCES)
		session_values_forget(s, c);
	if (c->session->values) {
		c->session->values->drops |= tag == TAG_CODE || tag == TAG_DROP ||
					     tag == TAG_DISCARD || tag == TAG_CREATE ||
					     tag == TAG_DEFINE;
		if (tag == TAG_CODE)
			session_values_keep(c);
	}
	if (tag == TAG_LOAD)
		session_keep_server(c, PIN_LIBRARY, "it uses LOAD");
	if (s->session.text_was_cut && tag != TAG_ALTER && tag != TAG_ALTER_SESSIONS)
		session_keep_server(
			c, PIN_PARAMETERS,
			"its query is too long to be searched for the names of parameters");
}

/* ---- the handover ---- */

bool session_state_unpack(struct client *c, const struct client_session *facts,
			  const struct params *first, const char *names, size_t size)
{
	struct client_session *state = mem_try(sizeof(*state));

	if (!state)
		return false;
	c->session = state;
	*state = *facts;
	state->first = params_hold(first);
	if (size > 0 && names[size - 1] != '\0')
		return false;
	for (size_t at = 0; at < size; at += strlen(names + at) + 1) {
		if (!strchr(names + at, '.') || params_kind_of(names + at) != PARAMS_SETTABLE ||
		    !session_will_ask_for(state, names + at))
			return false;
	}
	return !state->names.failed;
}

void session_state_free(struct client *c)
{
	if (!c->session)
		return;
	notify_client_forget(c);
	forget_progress(c);
	session_values_free(&c->session->values);
	params_drop(c->peer.world->params, &c->session->first);
	bytes_free(&c->session->names);
	bytes_free(&c->session->places);
	mem_free(c->session);
	c->session = NULL;
}
