/*
 * The end of connections.
 *
 * client_end() and server_end() only record the reason and put the connection on
 * world->peers.ending. This file does the rest at one point of the turn: the log line, the error
 * for the client, returning or closing its server, and removing all references to the connection.
 * No event handler is on the stack then, so no function has to check whether its connection still
 * exists.
 *
 * In the order of time, for a client that leaves in the middle of a query:
 *
 * 1. The handler reads the end of the connection and calls client_end(): the reason is recorded,
 *    and the client is stopped. Later events of the client and of its server are ignored, and a
 *    second client_end() changes nothing: the first reason counts.
 * 2. The turn reaches its step `reap`. reap_client() counts and logs the reason, and drops cancel
 *    requests for the client.
 * 3. release_ended_client() (relay/release.c) decides about the server: it returns to the pool,
 *    finishes the query without the client, or ends, too.
 * 4. The client gets its error, unless it has left or is in the middle of a message; the socket
 *    closes, and the memory is freed.
 * 5. The next step, `schedule`, lends the server to a client that waits.
 *
 * An end may cause other ends: with the server of a look-up its logins end, and with a client its
 * server if it owes answers. They are put on the same list, which is empty when the reap is over.
 *
 * Invariant: on return, no connection of the world is ending, and nothing refers to an ended
 * connection.
 */
#include "core/lifecycle.h"

#include "auth/auth_rule.h"
#include "auth/client_address.h"
#include "auth/lookup.h"
#include "backend/dial.h"
#include "state/notify.h"
#include "state/session_functions.h"
#include "state/session_question.h"
#include "state/session_state.h"
#include "backend/welcome.h"
#include "base/assert.h"
#include "base/log.h"
#include "base/printable.h"
#include "base/text.h"
#include "cancel/cancel.h"
#include "core/diagnosis.h"
#include "login/login.h"
#include "pg/build.h"
#include "prepared/prepared.h"
#include "relay/release.h"
#include "relay/retry.h"
#include "watch/watcher.h"

#include <stdio.h>

/* ---- servers ---- */

/* `is_repeated`: the log has the line of a failed login like this one. */
static void log_server(const struct server *s, enum close_reason why, const char *detail,
		       bool is_repeated)
{
	const struct close_reason_row *row = &close_reason_rows[why];
	const struct settings *set = &s->peer.world->conf->settings;
	long long age = (s->peer.world->now_wall - s->peer.connected_at) / USEC;
	char who[256], text[REASON_LOG_TEXT];

	server_text(s, who, sizeof(who));
	close_reason_log_text(why == REASON_SERVER_SECRET ? REASON_AUTHREQ_FAILED : why, detail,
			      text, sizeof(text));
	if (set->log_disconnections)
		log_repeatable(is_repeated ? LEVEL_DEBUG : LEVEL_LOG,
			       row->fault == FAULT_SERVER ? (int64_t)why : LOG_EVERY,
			       "%s closing because: %s (age=%llds)", who, text, age);
	if (row->fault == FAULT_SERVER && set->log_pooler_errors &&
	    s->peer.ended_in != SERVER_LOGIN)
		log_repeatable(LEVEL_WARNING, why, "%s server trouble: %s", who, text);
}

static void free_server(struct server *s)
{
	struct world *w = s->peer.world;

	if (HASH_HAS(by_backend_pid, s))
		HASH_DELETE(by_backend_pid, w->peers.by_backend_pid, s);
	stream_close(&s->peer.stream);
	dial_free(s);
	ledger_clear(&s->ledger);
	prepared_server_free(s);
	params_drop(w->params, &s->params);
	params_drop(w->params, &s->first_params);
	params_drop(w->params, &s->pooled.startup);
	welcome_drop(&s->welcome);
	mem_free(s->cancel_key);
	mem_free(s->address);
	mem_free(s->host);
	mem_free(s->session.role);
	mem_free(s->session.search_path);
	mem_free(s->task_words);
	mem_free(s->session.drawn);
	session_question_forget(s);
	session_functions_forget(s);
	peer_free(&s->peer);
	pool_mark(s->pooled.pool);
	mem_free(s);
}

/* A server for a replication client has failed to log in, with this text: sends the error to the
   client, unless the client waits for another attempt. */
static void refuse_replication(const struct server *s, enum login_failure failure, const char *text)
{
	if (failure != FAILURE_LASTING &&
	    s->peer.world->conf->settings.server_down == SERVER_DOWN_WAIT)
		return;
	LIST_EACH(node, &s->pooled.pool->clients[CLIENT_WAITING]) {
		struct client *c = client_of(LIST_OBJECT(node, struct pool_client, node));

		if (c->pooled.dedicated == s->pooled.dedicated) {
			client_end(c, REASON_SERVER_SAID, text);
			return;
		}
	}
}

/* Logs the end of a server, sends Terminate, and notes a failed login. */
static void tell_server_end(struct server *s)
{
	enum close_reason why = s->peer.end_reason;
	struct bytes out = BYTES_EMPTY;
	enum login_failure failure;
	bool failed_unused, is_repeated;
	char text[1024];

	close_reason_text(why, s->peer.end_detail, text, sizeof(text));
	s->peer.world->pools->ended[why]++;
	is_repeated = s->peer.ended_in == SERVER_LOGIN && dial_note_failure(s, why, text);
	log_server(s, why, s->peer.end_detail, is_repeated);
	if (s->lookup)
		lookup_server_gone(s, why, text);
	/* in the middle of a message the connection is just closed */
	if (s->peer.stream.phase == STREAM_OPEN && !s->dial && !s->pooled.is_cancel &&
	    stream_unsent(&s->peer.stream) == 0 && ledger_is_empty(&s->ledger)) {
		pg_build(&out, 'X', NULL, 0);
		if (!out.failed)
			stream_write_bytes(&s->peer.stream, out.data, bytes_size(&out));
		bytes_free(&out);
	}
	/* by its own fault, before it served a client: opening another server at once would
	   probably fail too */
	failed_unused = !s->was_ended && !s->pooled.lent && s->pooled.opened > 0 &&
			s->peer.world->now - s->pooled.opened < USEC &&
			close_reason_rows[why].fault == FAULT_SERVER;
	if (s->pooled.is_watcher)
		watch_end(s, why, text);
	if (s->pooled.is_cancel || s->pooled.is_watcher ||
	    (s->peer.ended_in != SERVER_LOGIN && !failed_unused))
		return;
	if (server_info_failed(s, why, text, &failure) && s->pooled.dedicated)
		refuse_replication(s, failure, text);
}

static void reap_server(struct server *s)
{
	struct client *c = s->pooled.link ? client_of(s->pooled.link) : NULL;

	if (c) {
		/* The client ends too. It gets no error if the server has sent a fatal error
		   already, or in the middle of a message. */
		ASSERT(peer_is_ending(&c->peer));
		c->peer.end_reason = (uint8_t)retry_loss(c, s, c->peer.end_reason);
		if (s->said_fatal || (s->peer.passing > 0 && !s->peer.passing_dropped))
			client_note_error_sent(c);
		pool_unlink(&s->pooled, SERVER_DEAD, true, s->peer.world->now);
	}
	if (s->peer.fate == PEER_ENDS)
		tell_server_end(s);
	if (s->peer.ended_in == SERVER_LISTENING)
		notify_server_end(s, s->peer.end_reason);
	cancel_forget_server(s);
	free_server(s);
}

/* ---- clients ---- */

static void log_client(const struct client *c, enum close_reason why, const char *detail)
{
	const struct settings *set = &c->peer.world->conf->settings;
	const struct login *l = c->login;
	long long age = (c->peer.world->now_wall - c->peer.connected_at) / USEC;
	bool by_itself = close_reason_rows[why].told == TOLD_NOTHING;
	/* rules that ban addresses count the lines about these reasons (etc/fail2ban) */
	bool is_repeatable = !by_itself && why != REASON_NO_DATABASE &&
			     !text_starts(close_reason_rows[why].sqlstate, "28");
	bool was_logging_in = c->peer.ended_in == CLIENT_STARTUP ||
			      c->peer.ended_in == CLIENT_AUTH || c->peer.ended_in == CLIENT_LOOKUP;
	/* Health checks of load balancers leave before the first byte, several times a second. */
	bool is_health_check = why == REASON_CLIENT_EOF && l &&
			       (l->step == LOGIN_PACKET || l->step == LOGIN_HEADER) &&
			       !l->ssl_asked && !l->gss_asked && !l->direct &&
			       bytes_size(&c->peer.held) == 0;
	char who[256], text[REASON_LOG_TEXT], database[PRINTABLE_NAME], user[PRINTABLE_NAME],
		rule[512];

	if (by_itself && !client_is_sampled(c, set->log_sample))
		return;
	if (!set->log_disconnections &&
	    (by_itself || !(set->log_pooler_errors || set->log_connections)))
		return;
	client_text(c, who, sizeof(who));
	close_reason_log_text(why, detail, text, sizeof(text));
	/* not logged earlier, so that the client cannot measure the time of logging */
	if (l && (l->sought == USER_NOT_FOUND || l->sought == USER_NOT_LISTED))
		log_info("%s no such user: %s", who, printable_name(l->user, user, sizeof(user)));
	if (!by_itself && was_logging_in && l && l->user && l->database) {
		if (set->log_connections)
			log_repeatable(LEVEL_LOG, is_repeatable ? (int64_t)why : LOG_EVERY,
				       "%s login failed: db=%s user=%s", who,
				       printable_name(l->database, database, sizeof(database)),
				       printable_name(l->user, user, sizeof(user)));
		if (auth_rule_text(c, rule, sizeof(rule)))
			log_info("%s %s", who, rule);
	}
	if (set->log_disconnections)
		log_repeatable(is_health_check ? LEVEL_DEBUG : LEVEL_LOG,
			       is_repeatable ? (int64_t)why : LOG_EVERY,
			       "%s closing because: %s (age=%llds)", who, text, age);
	if (!by_itself && set->log_pooler_errors)
		log_repeatable(LEVEL_WARNING, is_repeatable ? (int64_t)why : LOG_EVERY,
			       "%s pooler error: %s", who, text);
}

/* Whether an established connection ends with the SQLSTATE of the reason; PgBouncer sends 08P01. */
static bool keeps_sqlstate(enum close_reason why)
{
	return why == REASON_DRAIN || why == REASON_TERMINATED || why == REASON_HOST_ROLE ||
	       why == REASON_HOST_LOST || why == REASON_TRANSACTION_LOST ||
	       why == REASON_PINNED_STANDBY || why == REASON_OUTCOME_UNKNOWN;
}

/* The line with the DETAIL of the error, after the line of the end. */
static void log_detail(const struct client *c, enum close_reason why, const char *detail)
{
	char who[256], text[PRINTABLE_TEXT];

	if (c->peer.world->conf->settings.log_pooler_errors)
		log_repeatable(LEVEL_LOG, why, "%s detail: %s", client_text(c, who, sizeof(who)),
			       printable_text(detail, text, sizeof(text)));
}

/* Sends the client the error of its end. `said`: the SQLSTATE of the server for it; "": none. */
static void say_why(struct client *c, enum close_reason why, const char *text, const char *said)
{
	const struct close_reason_row *row = &close_reason_rows[why];
	const struct pool *pool = c->pooled.pool;
	const struct server_info *info = pool ? pool->server_info : NULL;
	const char *sqlstate = row->sqlstate, *hint = row->hint;
	struct bytes out = BYTES_EMPTY;
	char scrap[4096], detail[1024] = "";
	struct client_wait wait;

	if (c->login && !c->login->out.failed) {
		/* messages that were to be sent together with the next message */
		out = c->login->out;
		c->login->out = (struct bytes)BYTES_EMPTY;
	}
	if (row->told == TOLD_WAIT && pool &&
	    pool_failure_of(pool, c->peer.world->now, &wait)) {
		snprintf(detail, sizeof(detail), "The last login at the server failed: %.900s",
			 wait.text);
		hint = wait.hint;
	} else if (row->told == TOLD_WAIT && (c->peer.ended_in == CLIENT_WAITING ||
					      c->peer.ended_in == CLIENT_WAITING_LOGIN)) {
		pool_wait_of(pool, c->peer.world->now, &wait);
		snprintf(detail, sizeof(detail), "%s", wait.text);
		hint = wait.hint;
	} else if (row->told == TOLD_PINS && pool) {
		pool_pins_text(pool, detail);
	} else if (row->told == TOLD_HOLDING && c->peer.end_detail) {
		snprintf(detail, sizeof(detail), "%s", c->peer.end_detail);
	}
	if (*detail)
		log_detail(c, why, detail);
	if (*said) {
		sqlstate = said;
	} else if (why == REASON_SERVER_SAID && info && info->failure.sqlstate[0]) {
		sqlstate = info->failure.sqlstate;	/* the error of the server is passed on */
	} else if (why == REASON_LISTENER_LOST && c->pooled.target != TARGET_ANY) {
		sqlstate = "57P01";	/* its host is not the primary any more */
	} else if (!keeps_sqlstate(why) &&
		   (c->peer.ended_in == CLIENT_IDLE || c->peer.ended_in == CLIENT_WAITING ||
		    c->peer.ended_in == CLIENT_ACTIVE)) {
		sqlstate = "08P01";
	}
	pg_build_report(&out, 'E', "FATAL", sqlstate, text, *detail ? detail : NULL,
			hint && *hint ? hint : NULL);
	if (!out.failed &&
	    stream_write_bytes(&c->peer.stream, bytes_front(&out), bytes_size(&out))) {
		/* with unread input the kernel would send a reset, which may arrive before the
		   error */
		for (int i = 0; i < 64 && stream_read(&c->peer.stream, scrap, sizeof(scrap)) > 0;
		     i++)
			;
	}
	bytes_free(&out);
}

static void free_client(struct client *c)
{
	struct world *w = c->peer.world;

	if (c->pooled.state != CLIENT_DEAD)
		pool_client_become(w->pools, &c->pooled, CLIENT_DEAD, w->now);
	stream_close(&c->peer.stream);
	if (c->login)
		peer_wipe_held(&c->peer);	/* it may contain a password */
	login_free(c);
	request_free(c);
	client_address_leave(c);
	prepared_client_free(c);
	if (c->params)
		params_drop(w->params, &c->params);
	session_state_free(c);
	mem_free(c->query);
	if (c->pooled.startup)
		params_drop(w->params, &c->pooled.startup);
	peer_free(&c->peer);
	mem_free(c);
}

/* Whether an error can be sent: not if the client has left, has got an error already, or is in the
   middle of a message. */
static bool may_be_told(const struct client *c)
{
	const struct server *s = c->pooled.link ? server_of(c->pooled.link) : NULL;

	if (close_reason_rows[c->peer.end_reason].told == TOLD_NOTHING || c->error_sent ||
	    c->peer.stream.phase != STREAM_OPEN)
		return false;
	if (c->peer.ended_in == CLIENT_WAITING_CANCEL || c->peer.ended_in == CLIENT_ACTIVE_CANCEL)
		return false;
	return !s || !((s->peer.passing > 0 && !s->peer.passing_dropped) || s->said_fatal);
}

/* Ends the client, or forgets it if it was handed over. Its server returns to the pool, or ends
   too, unless it ends for a reason of its own. */
static void reap_client(struct client *c)
{
	struct world *w = c->peer.world;
	struct server *s = c->pooled.link ? server_of(c->pooled.link) : NULL;
	enum close_reason why;
	bool has_ended = c->peer.fate == PEER_ENDS, is_told;
	const char *detail;
	char text[1024], said[6] = "";

	if (s && peer_is_ending(&s->peer))
		reap_server(s);
	why = c->peer.end_reason;
	detail = c->peer.end_detail;
	/* the server has refused the client's parameters: the detail begins with the SQLSTATE and a
	   blank */
	if (why == REASON_SERVER_PARAMETER && detail && strlen(detail) > sizeof(said)) {
		memcpy(said, detail, sizeof(said) - 1);
		detail += sizeof(said);
	}
	is_told = has_ended && may_be_told(c);
	if (has_ended) {
		w->pools->ended[why]++;
		log_client(c, why, detail);
	}
	if (c->console.is_connected && w->console.ops)
		w->console.ops->closed(w->console.context, c);
	cancel_forget_client(c);
	if (has_ended && c->pooled.link)
		release_ended_client(server_of(c->pooled.link));
	if (is_told)
		say_why(c, why, close_reason_text(why, detail, text, sizeof(text)), said);
	free_client(c);
}

/* ---- all ---- */

void world_reap_ending(struct world *w)
{
	struct list *node;

	while ((node = list_first(&w->peers.ending)) != NULL) {
		struct peer *peer = LIST_OBJECT(node, struct peer, node);

		if (peer->is_client)
			reap_client(LIST_OBJECT(peer, struct client, peer));
		else
			reap_server(LIST_OBJECT(peer, struct server, peer));
	}
}
