/*
 * What becomes of a server's messages, for the relay (request.c is the same for a client's).
 *
 * Each message is crossed off the ledger, which says which side's answer it is: the client's is relayed, the pooler's own is
 * swallowed for what it means, and one that nothing asked for ends the connection. Only ReadyForQuery, ParameterStatus, some command
 * tags, the process id of a NotificationResponse and the first bytes of an ErrorResponse are looked at.
 */
#include "relay/answer.h"

#include "state/notify_client.h"
#include "state/notify_server.h"
#include "state/notifier.h"
#include "state/role.h"
#include "state/session_params.h"
#include "state/session_state.h"
#include "state/task.h"
#include "backend/welcome.h"
#include "pg/message.h"
#include "prepared/prepared.h"
#include "relay/release.h"

#define WHOLE_MOST 65536	/* longest message that has to be read as a whole (ParameterStatus) */
#define NOTIFIER 4		/* bytes of a NotificationResponse that name the process which has notified */
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
	if (c && index >= 0 && index != PARAM_APPLICATION_NAME)
		prepared_parameters_changed(s);
	server_parameter(s, name, value);
	if (!c || index < 0)
		return;
	/* the client's server, or its next one, gets the name with the address */
	if (index == PARAM_APPLICATION_NAME && w->conf->settings.application_name_add_host && !c->replication)
		value = client_name_with_host(c, value, named);
	set = params_with(w->params, c->params, index, value);
	if (set)
		params_replace(w->params, &c->params, set);
	else
		s->pooled.close_reason = REASON_NO_MEMORY;
}

/* A message of a server that looks after itself: ReadyForQuery, ParameterStatus. False: it makes no sense, or there is no memory
   for what it says (then the server's close_reason is that). */
static bool server_whole(struct server *s, const struct pg_frame *f, enum ledger_owner owner)
{
	struct pg_cursor body = pg_cursor_of(f->body, f->size);

	if (f->type == PGS_READY) {
		s->status = (char)pg_read_u8(&body);
		return f->size == 1 && pg_is_status((uint8_t)s->status);
	}
	if (f->type == PGS_PARAMETER) {
		const char *name = pg_read_string(&body), *value = pg_read_string(&body);

		if (body.bad || body.at != body.end)
			return false;
		if (owner == OWED_TO_CLIENT)
			client_parameter(s, name, value);
		else
			server_parameter(s, name, value);
		welcome_reported(s->welcome, name, value);
		return s->pooled.close_reason != REASON_NO_MEMORY;
	}
	return true;
}

static void look_at_error(struct server *s, const struct pg_frame *f)
{
	s->said_fatal = pg_error_is_fatal(f->body, f->here < ERROR_LOOK ? f->here : ERROR_LOOK);
}

/* A tag of a telling size, here as a whole. */
static void look_at_tag(struct server *s, struct client *c, const struct pg_frame *f, enum ledger_owner owner)
{
	enum pg_tag tag = pg_tag_read(f->body, f->size);

	if (tag == TAG_DISCARD_ALL || tag == TAG_DEALLOCATE_ALL)
		prepared_all_gone(s, owner == OWED_TO_CLIENT ? c : NULL);
	if (tag == TAG_DEALLOCATE && owner == OWED_TO_CLIENT)
		prepared_one_gone(s, c);
	if (tag == TAG_SET && owner == OWED_TO_CLIENT)
		prepared_set_heard(s);
	if (tag == TAG_DISCARD_ALL || tag == TAG_SET)
		server_parameters_told(s, tag == TAG_DISCARD_ALL, owner == OWED_TO_CLIENT);
	if (tag != TAG_NOTHING && owner == OWED_TO_CLIENT)
		session_state_told(s, tag, tag == TAG_DISCARD_ALL || (tag == TAG_SET && f->size == TAG_RESET_SIZE));
	if (owner == OWED_TO_CLIENT && pg_tag_is_definition(tag))
		s->session.meaning_in_doubt = true;
	if (pg_tag_changes_meaning(tag)) {
		prepared_meaning_changed(s);
		/* a connect_query does the same on each server, and changes nothing for what was parsed on another one */
		if (owner == OWED_TO_CLIENT) {
			s->peer.world->meanings++;
			s->session.changes |= CHANGES_MEANING;
		}
		if (tag == TAG_ALTER && pg_tag_changes_sessions(f->body, f->size))
			s->session.changes |= CHANGES_SESSIONS;
	}
}

/* What a message of the pooler's own gives: swallowed, but for what the feature that marked it makes of it. */
static enum answer swallowed(struct server *s, const struct pg_frame *f, enum ledger_mark mark)
{
	switch (mark) {
	case MARK_TASK:
		if (!s->task)
			return ANSWER_BROKEN;
		return server_task_heard(s, f) ? ANSWER_RELAY : ANSWER_DROP;
	case MARK_DISCARD:
		if (f->type == PGS_COMPLETE)
			session_values_discarded(s);
		break;
	case LEDGER_UNMARKED:
	case MARK_PREPARED:
	case LEDGER_MARKS:
		break;
	}
	/* of a message put in front of the client's, which the server passes over now */
	if (f->type == PGS_ERROR)
		return ANSWER_RELAY;
	return f->type == PGS_READY && mark != MARK_PREPARED ? ANSWER_BROKEN : ANSWER_DROP;
}

/* While a message of the pooler's settles a doubt: a ReadyForQuery that answers a Sync of the client's, and not this message. */
static bool is_surplus(const struct server *s, const struct pg_frame *f, enum ledger_mark mark)
{
	return mark == MARK_TASK && f->type == PGS_READY && s->ledger.mark == LEDGER_UNMARKED;
}

/* Its client has had every answer and would have let it go: what the server says now does not concern the client. */
static bool is_between_transactions(const struct server *s, const struct client *c)
{
	return ledger_is_empty(&s->ledger) && s->status == 'I' && !s->task && c->shares_server && !c->pooled.pins &&
	       (c->peer.passing == 0 || c->peer.passing_dropped);
}

/* What an answer that fits means for prepared statements. True: *answer is what becomes of it. */
static bool concerns_prepared(struct server *s, struct client *c, const struct pg_frame *f, enum answer *answer)
{
	if (s->ledger.mark != MARK_PREPARED && s->ledger.marks_skipped[MARK_PREPARED] == 0)
		return false;
	switch (prepared_answered(s, c, f)) {
	case PREPARED_NORMAL: return false;
	case PREPARED_RELAY: *answer = c ? ANSWER_RELAY : ANSWER_DROP; return true;
	case PREPARED_TOLD: *answer = ANSWER_DROP; return true;
	case PREPARED_BROKEN: break;
	}
	*answer = ANSWER_BROKEN;
	return true;
}

/* The client knows sessions by the process ids that their clients were told. The frame lies in the loop's read buffer or in what the server
   held: both may be written to. */
static void name_notifier(struct server *s, const struct pg_frame *f)
{
	const struct client *c = s->pooled.link ? client_of(s->pooled.link) : NULL;
	uint8_t *pid = (uint8_t *)(uintptr_t)f->body;
	uint32_t told;

	if (f->here < NOTIFIER)
		return;
	told = notifier_told(s, pg_u32_at(pid));
	pg_u32_put(pid, c ? notifier_for(c, told, notifier_public(told)) : told);
}

/* What an answer or a report tells about the server, whatever becomes of it. False: as server_whole. */
static bool take_note(struct server *s, struct client *c, const struct pg_frame *f, bool whole, enum ledger_verdict verdict, enum ledger_owner owner)
{
	if (f->type == PGS_ERROR) {
		s->session.has_failed = true;
		look_at_error(s, f);
		prepared_changes_undone(s);
	}
	/* no other server would take the data that its client is about to send */
	if (f->type == PGS_COPY_IN && s->ledger.lost)
		s->status = 'T';
	if (whole && !server_whole(s, f, owner))
		return false;
	if (verdict == LEDGER_ANSWER && pg_tag_may_tell(f->type, f->size, c && (c->keeps_state | c->names_sql) ? TAG_ANY_SIZE : TAG_SIZES))
		look_at_tag(s, c, f, owner);
	return true;
}

/* A message that answers none: ParameterStatus, a notice, a notification, or the last words of a server that ends. */
static enum answer unasked(struct server *s, struct client *c, const struct pg_frame *f, enum ledger_owner owner)
{
	if (f->type == PGS_ERROR && (!c || is_between_transactions(s, c)))
		return ANSWER_LAST_WORDS;
	if (f->type == PGS_NOTIFICATION && s->pooled.state == SERVER_LISTENING)
		return notify_server_heard(s, f) ? ANSWER_DROP : ANSWER_BROKEN;
	/* what comes before the client's welcome belongs to no client */
	if (!c || c->login)
		return ANSWER_DROP;
	if (f->type == PGS_NOTIFICATION) {
		if (c->hears && !notify_client_passes(c, f))
			return ANSWER_DROP;
		name_notifier(s, f);
		return ANSWER_RELAY;
	}
	/* what the pooler's own SET makes the server report is told the client at the end of it; its notices belong to no client */
	return owner == OWED_TO_POOLER ? ANSWER_DROP : ANSWER_RELAY;
}

/* The client has named statements in SQL: the server knows them by other names. */
static enum answer sql_failed(struct server *s, struct client *c, const struct pg_frame *f)
{
	enum prepared_answer answer = prepared_sql_failed(s, c, f);

	return answer == PREPARED_BROKEN ? ANSWER_BROKEN : answer == PREPARED_TOLD ? ANSWER_DROP : ANSWER_RELAY;
}

static bool is_description(uint8_t type)
{
	return type == PGS_PARAMETER_TYPES || type == PGS_ROW_DESCRIPTION || type == PGS_NO_DATA;
}

static enum answer server_frame(struct server *s, const struct pg_frame *f, bool whole)
{
	struct client *c = s->pooled.link ? client_of(s->pooled.link) : NULL;
	enum ledger_owner owner = OWED_TO_CLIENT;
	enum ledger_mark mark = ledger_next_mark(&s->ledger);
	enum ledger_kind kind = ledger_next_kind(&s->ledger);
	enum ledger_verdict verdict = ledger_received(&s->ledger, f->type, &owner);
	enum answer answer;

	if (verdict == LEDGER_BROKEN || !take_note(s, c, f, whole, verdict, owner))
		return ANSWER_BROKEN;
	if (verdict == LEDGER_ASYNC)
		return unasked(s, c, f, owner);
	if (mark == MARK_PREPARED && kind == LEDGER_DESCRIBE_STATEMENT && is_description(f->type))
		prepared_described(s, f);
	/* a client may have names that this server has never heard of */
	if ((s->prepared || (c && c->prepared)) && concerns_prepared(s, c, f, &answer))
		return answer;
	if (owner == OWED_TO_POOLER && !is_surplus(s, f, mark))
		return swallowed(s, f, mark);
	if (!c)
		return is_surplus(s, f, mark) ? ANSWER_DROP : ANSWER_BROKEN;
	if (f->type == PGS_ERROR && c->names_sql)
		return sql_failed(s, c, f);
	return f->type == PGS_READY ? ANSWER_READY : ANSWER_RELAY;
}

/* The channel of a notification decides what becomes of it. */
static bool is_for_listener(const struct server *s, const struct pg_frame *f)
{
	const struct client *c = s->pooled.link && !s->pooled.link->is_internal ? client_of(s->pooled.link) : NULL;

	return f->size <= WHOLE_MOST && (c ? c->hears : s->pooled.state == SERVER_LISTENING);
}

enum pg_verdict answer_look(struct server *s, const uint8_t *at, size_t n, struct pg_frame *f, enum answer *answer)
{
	enum pg_verdict verdict = pg_frame_look(at, n, INT32_MAX, f), said;
	const struct pg_server_message *row;

	if (verdict != PG_OK)
		return verdict;
	said = release_look_for_reply(s, at, n);
	if (said == PG_OK)
		*answer = ANSWER_ALL_SAID;
	if (said != PG_BAD)
		return said;
	row = pg_server_message(f->type, PG_SESSION);
	if (!row || (row->whole && f->size > WHOLE_MOST))
		return PG_BAD;
	if (row->whole && !pg_frame_is_whole(f))
		return PG_MORE;
	if (f->here < f->size) {
		if (is_description(f->type) && f->size <= WHOLE_MOST && ledger_next_mark(&s->ledger) == MARK_PREPARED)
			return PG_MORE;
		if (f->type == PGS_ERROR && (f->here < ERROR_LOOK || (answer_may_be_told(s) && f->size <= WHOLE_MOST)))
			return PG_MORE;
		if (f->type == PGS_NOTIFICATION && (f->here < NOTIFIER || is_for_listener(s, f)))
			return PG_MORE;
		if (pg_tag_may_tell(f->type, f->size, TAG_ANY_SIZE) || (s->task && s->task->reads_rows && f->size <= WHOLE_MOST))
			return PG_MORE;
	}
	*answer = server_frame(s, f, row->whole);
	return *answer == ANSWER_BROKEN ? PG_BAD : PG_OK;
}
