/*
 * One message of a server: its effect on the knowledge about the server and its client, and its
 * receiver. from_server.c walks the messages, and asks answer_look() for each that the short loop
 * does not take.
 *
 * A message is examined when enough of it has arrived: all of a ParameterStatus, the severity of an
 * error, the tag of a command. It is crossed off the ledger, which names its receiver. The client
 * gets its own answers; answers to pgweir's own messages go to the feature that has sent them, by
 * their mark (swallowed), and are dropped. An unexpected message ends the connection.
 *
 * See "Message Formats" of the PostgreSQL documentation.
 */
#include "relay/client_message.h"

#include "backend/welcome.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/printable.h"
#include "base/text.h"
#include "pg/message.h"
#include "pool/role.h"
#include "prepared/prepared.h"
#include "relay/release.h"
#include "relay/request.h"
#include "state/notify.h"
#include "state/server_session.h"
#include "state/session_state.h"
#include "state/session_values.h"

#include <stdio.h>

/* longest message that has to be read as a whole (ParameterStatus) */
#define WHOLE_MOST 65536
#define NOTIFIER 4		/* bytes of the process ID in a NotificationResponse */
#define ERROR_LOOK 128		/* bytes of an ErrorResponse in which its severity is found */

/* ParameterStatus for the server's client, which has that value from now on. */
static void client_parameter(struct server *s, const char *name, const char *value)
{
	struct world *w = s->peer.world;
	struct client *c = s->pooled.link ? client_of(s->pooled.link) : NULL;
	int index = params_index(w->params, name);
	const struct params *set;
	char named[NAME_WITH_HOST];

	role_reported(s, name);
	if (c && strcmp(name, "default_transaction_read_only") == 0)
		client_set_reading(c, value);
	if (c && index >= 0 && index != PARAM_APPLICATION_NAME)
		prepared_parameters_changed(s, PARAMETERS_REPORTED);
	server_parameter(s, name, value);
	if (!c || index < 0)
		return;
	/* the client's server, or its next one, gets the name with the address */
	if (index == PARAM_APPLICATION_NAME && w->conf->settings.application_name_add_host &&
	    !c->login_facts.replication)
		value = client_name_with_host(c, value, named);
	set = params_with(w->params, c->params, index, value);
	if (set)
		params_replace(w->params, &c->params, set);
	else
		pool_server_close_later(&s->pooled, REASON_NO_MEMORY);
}

/* Examines the tag of a complete CommandComplete, which may concern pgweir. */
static void look_at_tag(struct server *s, struct client *c, const struct pg_frame *f,
			enum ledger_owner owner)
{
	enum pg_tag tag = pg_tag_read(f->body, f->size);
	bool is_local = tag == TAG_SET && owner == OWED_TO_CLIENT && server_set_is_local(s);

	if (tag == TAG_DISCARD_ALL || tag == TAG_DEALLOCATE_ALL)
		prepared_deallocated(s, owner == OWED_TO_CLIENT ? c : NULL, true);
	if (tag == TAG_DEALLOCATE && owner == OWED_TO_CLIENT)
		prepared_deallocated(s, c, false);
	if (tag == TAG_SET && owner == OWED_TO_CLIENT)
		prepared_parameters_changed(s, PARAMETERS_SET);
	if (tag == TAG_DISCARD_ALL || tag == TAG_SET)
		server_note_command(s, tag == TAG_DISCARD_ALL, owner == OWED_TO_CLIENT);
	if (tag != TAG_NOTHING && owner == OWED_TO_CLIENT && !is_local)
		session_note_command(s, tag,
				   tag == TAG_DISCARD_ALL ||
					   (tag == TAG_SET && f->size == TAG_RESET_SIZE));
	/* texts may have another meaning until the transaction ends: the tables may be temporary */
	if (owner == OWED_TO_CLIENT &&
	    (pg_tag_changes_meaning(tag) || tag == TAG_CREATE || tag == TAG_CODE ||
	     tag == TAG_DISCARD || tag == TAG_DISCARD_ALL)) {
		server_doubt_meaning(s, true);
		server_note_changes(s, CHANGES_TABLES);
	}
	if (pg_tag_changes_meaning(tag)) {
		prepared_meaning_changed(s, false);
		/* not after a connect_query, which has the same effect on each server */
		if (owner == OWED_TO_CLIENT) {
			s->peer.world->meanings++;
			server_note_changes(s, CHANGES_MEANING);
		}
		if (tag == TAG_ALTER_SESSIONS)
			server_note_changes(s, CHANGES_SESSIONS);
	}
}

void answer_log_error(const struct server *s, const char *context, const struct pg_error *e)
{
	char who[256], text[PRINTABLE_TEXT];

	log_repeatable(LEVEL_WARNING,
		       (int64_t)(hash_of(e->sqlstate, strlen(e->sqlstate)) ^
				 hash_of(context, strlen(context))),
		       "%s %s: %.20s %s", server_text(s, who, sizeof(who)), context,
		       *e->severity ? e->severity : "ERROR",
		       printable_text(e->message, text, sizeof(text)));
}

/* Takes an answer to the query of server->task. True: the client gets this error, because the
   server ends. */
static bool take_task_answer(struct server *s, const struct pg_frame *f)
{
	struct pg_error e;
	char what[80];

	if (f->type == PGS_ERROR) {
		s->task_failed = true;
		/* fields of an incomplete message are empty */
		pg_error_read(f->body, f->here, &e);
		if (s->task->keeps_error && *e.message) {
			mem_free(s->task_words);
			s->task_words = mem_copy_string(e.message);
			if (!text_copy(s->task_sqlstate, sizeof(s->task_sqlstate), e.sqlstate))
				s->task_sqlstate[0] = '\0';
		}
		snprintf(what, sizeof(what), "%s failed", s->task->description);
		answer_log_error(s, what, &e);
		return s->said_fatal && s->pooled.link;
	}
	if (f->type == PGS_ROW && s->task->on_row)
		s->task->on_row(s, f);
	s->task_answered |= f->type == PGS_READY;
	return false;
}

/* An answer to a message of pgweir's own: it is dropped after the feature that marked the message
   has seen it. */
static enum verdict swallowed(struct server *s, const struct pg_frame *f, enum ledger_mark mark)
{
	bool fails;

	switch (mark) {
	case MARK_TASK:
		if (!s->task)
			return VERDICT_INVALID;
		return take_task_answer(s, f) ? VERDICT_PASS : VERDICT_SWALLOW;
	case MARK_DISCARD:
		if (f->type == PGS_COMPLETE)
			session_values_discarded(s);
		break;
	case MARK_BEGIN:
		fails = s->pooled.link && request_is_aborted(client_of(s->pooled.link));
		if (f->type == PGS_READY && (!fails || s->status == 'E'))
			return VERDICT_SWALLOW;
		/* of the ROLLBACK TO that aborts the transaction: see request.c */
		if (f->type == PGS_ERROR && fails && !s->said_fatal)
			return VERDICT_SWALLOW;
		/* BEGIN was cancelled, for example. The server executes the request after it
		   outside of a transaction, and the client would get two answers. */
		if (f->type == PGS_READY || (f->type == PGS_ERROR && !s->said_fatal)) {
			pool_server_close_later(&s->pooled, REASON_OUTCOME_UNKNOWN);
			return VERDICT_INVALID;
		}
		break;
	case LEDGER_UNMARKED:
	case MARK_PREPARED:
	case MARK_REFUSED:
	case LEDGER_MARKS:
		break;
	}
	/* the error of a message that pgweir has put before the client's message, which the server
	   therefore skips */
	if (f->type == PGS_ERROR)
		return VERDICT_PASS;
	return f->type == PGS_READY && mark != MARK_PREPARED ? VERDICT_INVALID : VERDICT_SWALLOW;
}

/* Whether the ReadyForQuery answers a Sync of the client, and not the message of pgweir's own that
   settles a doubt. */
static bool is_surplus(const struct server *s, const struct pg_frame *f, enum ledger_mark mark)
{
	return mark == MARK_TASK && f->type == PGS_READY && s->ledger.mark == LEDGER_UNMARKED;
}

/* Notes the facts about the server that a message contains, even if the message is not forwarded.
   False: the message is malformed, or there is no memory (pooled.close_reason). */
static bool take_note(struct server *s, struct client *c, const struct pg_frame *f,
		      enum ledger_verdict verdict, enum ledger_owner owner)
{
	struct pg_cursor body = pg_cursor_of(f->body, f->here);
	const char *name, *value;
	bool any_size;

	switch (f->type) {
	case PGS_ERROR:
		s->session.has_failed = true;
		s->said_fatal = pg_error_is_fatal(f->body,
						  f->here < ERROR_LOOK ? f->here : ERROR_LOOK);
		prepared_parameters_changed(s, PARAMETERS_RESET);
		break;
	case PGS_COPY_IN:
		/* no other server can take the data that the client is about to send */
		if (s->ledger.lost)
			s->status = 'T';
		break;
	case PGS_READY:
		s->status = (char)pg_read_u8(&body);
		return f->size == 1 && pg_is_status((uint8_t)s->status);
	case PGS_PARAMETER:
		name = pg_read_string(&body);
		value = pg_read_string(&body);
		if (body.bad || body.at != body.end)
			return false;
		if (owner == OWED_TO_CLIENT)
			client_parameter(s, name, value);
		else
			server_parameter(s, name, value);
		if (welcome_reported(s->welcome, name, value) && s->pooled.host &&
		    s->pooled.host->role_users > 0)
			host_note_promotion(s->pooled.host, value, s->peer.world->now);
		return s->pooled.close_reason != REASON_NO_MEMORY;
	case PGS_COMPLETE:
		any_size = c ? c->link_facts.keeps_state | c->names_sql
			     : s->pooled.state == SERVER_FINISHING;
		if (verdict == LEDGER_ANSWER &&
		    pg_tag_may_tell(f->type, f->size, any_size ? TAG_ANY_SIZE : TAG_SIZES))
			look_at_tag(s, c, f, owner);
		break;
	}
	return true;
}

/* Takes an unrequested message: ParameterStatus, a notice, a notification, or the last error of a
   server. */
static enum verdict unasked(struct server *s, struct client *c, const struct pg_frame *f,
			    enum ledger_owner owner)
{
	/* the client has all its answers and is about to release the server: further messages of
	   the server are not for the client */
	bool is_between_transactions = c && ledger_is_empty(&s->ledger) && s->status == 'I' &&
				       !s->task && c->link_facts.shares_server && !c->pooled.pins &&
				       (c->peer.passing == 0 || c->peer.passing_dropped);

	if (f->type == PGS_ERROR && (!c || is_between_transactions))
		return VERDICT_FATAL;
	if (f->type == PGS_NOTIFICATION && s->pooled.state == SERVER_LISTENING)
		return notify_clients_deliver(s, f) ? VERDICT_SWALLOW : VERDICT_INVALID;
	/* before its welcome the client must not see the server's messages */
	if (!c || c->login)
		return VERDICT_SWALLOW;
	if (f->type == PGS_NOTIFICATION)
		return notify_client_passes(s, c, f) ? VERDICT_PASS : VERDICT_SWALLOW;
	/* its role tells the client whether its server is a standby */
	if (f->type == PGS_PARAMETER && f->size > sizeof(STANDBY_PARAMETER) &&
	    memcmp(f->body, STANDBY_PARAMETER, sizeof(STANDBY_PARAMETER)) == 0 && client_standby(c))
		return VERDICT_SWALLOW;
	/* After its own SET pgweir reports the new values to the client itself. Notices of that SET
	   are for no client. */
	return owner == OWED_TO_POOLER ? VERDICT_SWALLOW : VERDICT_PASS;
}

static bool is_description(uint8_t type)
{
	return type == PGS_PARAMETER_TYPES || type == PGS_ROW_DESCRIPTION || type == PGS_NO_DATA;
}

static enum verdict server_frame(struct server *s, const struct pg_frame *f)
{
	struct client *c = s->pooled.link ? client_of(s->pooled.link) : NULL;
	enum ledger_owner owner = OWED_TO_CLIENT;
	enum ledger_mark mark = ledger_next_mark(&s->ledger);
	enum ledger_kind kind = ledger_next_kind(&s->ledger);
	enum ledger_verdict verdict = ledger_received(&s->ledger, f->type, &owner);

	/* Only a task changes parameters for pgweir. During other messages of pgweir the client's
	   values are reported: the error of a Parse before a Query rolls back the client's SET. */
	if (f->type == PGS_PARAMETER && mark != MARK_TASK)
		owner = OWED_TO_CLIENT;
	if (verdict == LEDGER_BROKEN || !take_note(s, c, f, verdict, owner))
		return VERDICT_INVALID;
	if (verdict == LEDGER_ASYNC)
		return unasked(s, c, f, owner);
	if (mark == MARK_PREPARED && kind == LEDGER_DESCRIBE_STATEMENT && is_description(f->type))
		prepared_described(s, f);
	/* the answer may concern prepared statements; a client may have names that this server does
	   not know */
	if ((s->prepared || (c && c->prepared)) &&
	    (s->ledger.mark == MARK_PREPARED || s->ledger.marks_skipped[MARK_PREPARED] > 0)) {
		enum verdict answer = prepared_answered(s, c, f);

		if (answer != VERDICT_MORE)
			return answer == VERDICT_PASS && !c ? VERDICT_SWALLOW : answer;
	}
	if (mark == MARK_REFUSED && f->type == PGS_ERROR && c && !s->said_fatal)
		return request_tell_refused(c);
	if (owner == OWED_TO_POOLER && !is_surplus(s, f, mark))
		return swallowed(s, f, mark);
	if (!c)
		return is_surplus(s, f, mark) || s->pooled.state == SERVER_FINISHING
			       ? VERDICT_SWALLOW
			       : VERDICT_INVALID;
	if (f->type == PGS_ERROR && c->has_lost_values &&
	    session_values_hint(c, f) == VERDICT_SWALLOW)
		return VERDICT_SWALLOW;
	/* the client has named statements in SQL, which have other names on the server */
	if (f->type == PGS_ERROR && c->names_sql)
		return prepared_sql_failed(s, c, f);
	return f->type == PGS_READY ? VERDICT_READY : VERDICT_PASS;
}

enum verdict answer_look(struct server *s, const uint8_t *at, size_t n, struct pg_frame *f)
{
	enum pg_verdict read = pg_frame_look(at, n, INT32_MAX, f), is_last;
	const struct client *c = s->pooled.link && !s->pooled.link->is_internal
					 ? client_of(s->pooled.link)
					 : NULL;
	const struct pg_server_message *row;

	if (read != PG_OK)
		return read == PG_MORE ? VERDICT_MORE : VERDICT_INVALID;
	is_last = release_look_for_reply(s, at, n);
	if (is_last != PG_BAD)
		return is_last == PG_MORE ? VERDICT_MORE : VERDICT_LAST;
	row = pg_server_message(f->type, PG_SESSION);
	if (!row || (row->whole && f->size > WHOLE_MOST))
		return VERDICT_INVALID;
	if (f->here < f->size) {
		bool fits = f->size <= WHOLE_MOST;

		if (row->whole)
			return VERDICT_MORE;
		if (is_description(f->type) && fits &&
		    ledger_next_mark(&s->ledger) == MARK_PREPARED)
			return VERDICT_MORE;
		if (f->type == PGS_ERROR &&
		    (f->here < ERROR_LOOK || (answer_may_be_told(s) && fits)))
			return VERDICT_MORE;
		/* the channel of a notification may decide whether the notification is forwarded */
		if (f->type == PGS_NOTIFICATION &&
		    (f->here < NOTIFIER ||
		     (fits && (c ? c->pooled.listens : s->pooled.state == SERVER_LISTENING))))
			return VERDICT_MORE;
		if (pg_tag_may_tell(f->type, f->size, TAG_ANY_SIZE) ||
		    (s->task && s->task->reads_rows && fits))
			return VERDICT_MORE;
	}
	return server_frame(s, f);
}
