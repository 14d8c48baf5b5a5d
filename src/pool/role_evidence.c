/*
 * The reports of hosts about their roles.
 *
 * A host reports its role three ways: in the answer to the question of its watcher, in each login,
 * and in the ParameterStatus of a busy session. host_note() stores the report in host->evidence
 * with the time before the question was sent: the report was true at that time or later. Only an
 * answer to a question has timeline, position and system identifier; after another kind of report
 * with a new claim they are unknown until the next answer.
 *
 * A report older than the evidence changes no claim, but may add the timeline or the position that
 * a quicker report did not have. An answer of another server than before makes everything known
 * about the old one void (host_note_server()).
 *
 * A failed connection makes the claim unknown, and a refused login confirms it. An event such as
 * the end of a session or SQLSTATE 25006 puts it in doubt: then all hosts of its databases are
 * asked at once. After each change the databases with the host decide again, before the scheduler
 * runs (role.c).
 */
#include "pool/role.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "pool/host_identity.h"
#include "pool/inside.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define FRESH_LEAST (USEC / 2)		/* a turn may take long */
#define PERIOD_LEAST (USEC / 10)

static usec_t period_of(const struct pools *pools)
{
	usec_t period = pools->conf->settings.host_check_period;

	return period > PERIOD_LEAST ? period : PERIOD_LEAST;
}

usec_t roles_fresh_for(const struct pools *pools)
{
	usec_t time = 2 * period_of(pools);

	return time > FRESH_LEAST ? time : FRESH_LEAST;
}

const char *host_claim_word(enum host_claim claim)
{
	return claim == CLAIM_PRIMARY ? "primary" : claim == CLAIM_STANDBY ? "standby" : "unknown";
}

void roles_set_due(struct roles *roles)
{
	roles->database->pools->are_roles_due = true;
	roles->is_due = true;
	LIST_EACH(node, &roles->database->members)
		pool_mark(LIST_OBJECT(node, struct pool, of_database));
}

/* The databases with this host decide at the end of the turn. */
static void decide_later(const struct host *host)
{
	for (struct database *database = host->pools->databases; database;
	     database = database->hh.next) {
		for (unsigned i = 0; database->roles && i < database->roles->count; i++) {
			if (database->roles->places[i].host == host)
				roles_set_due(database->roles);
		}
	}
}

/* Sets the claim, and logs a change with its evidence. */
static void set_claim(struct host *host, enum host_claim claim, const char *why, usec_t now)
{
	enum host_claim was = host->evidence.claim;

	text_copy(host->why, HOST_WHY, why);
	if (was == claim)
		return;
	host->evidence.claim = claim;
	host->changed_at = now;
	host->changes++;
	if (host->marks)
		host->marks->count = 0;
	if (host->role_users > 0)
		log_info("host %s: %s, was %s (%s)", host->key, host_claim_word(claim),
			 host_claim_word(was), why);
}

/* The host has answered with its position: a mark, if it is a primary. Without memory there is
   none. */
static void note_position(struct host *host, const struct host_evidence *evidence, usec_t now)
{
	struct host_evidence *e = &host->evidence;

	e->position = evidence->position;
	e->position_at = evidence->at;
	e->position_heard = now;
	host->is_receiving = evidence->receiver > 0 && evidence->receiver == e->receiver;
	e->receiver = evidence->receiver;
	text_copy(e->sender, SENDER_TEXT, evidence->sender);
	if (evidence->claim != CLAIM_PRIMARY)
		return;
	if (!host->marks)
		host->marks = mem_try(sizeof(*host->marks));
	if (host->marks)
		marks_add(host->marks, evidence->at, evidence->position);
}

static void forget_position(struct host *host)
{
	host->evidence.position = 0;
	host->evidence.position_at = 0;
	host->evidence.receiver = 0;
	host->evidence.sender[0] = '\0';
	host->is_receiving = false;
}

void host_note(struct host *host, const struct host_evidence *evidence, const char *source,
	       usec_t now)
{
	struct host_evidence *e = &host->evidence;
	char why[HOST_WHY], position[POSITION_TEXT];

	if (evidence->claim == CLAIM_UNKNOWN)
		return;
	host_note_server(host, evidence->server_id);
	host->has_answered |= !evidence->is_of_login;
	if (evidence->at < e->at) {
		/* a session may have reported the promotion after the question was sent, without
		   the timeline */
		if (evidence->claim == e->claim && e->timeline == 0)
			e->timeline = evidence->timeline;
		/* a login has been quicker than this answer, which has a position all the same */
		if (evidence->claim == e->claim && evidence->position > 0 &&
		    evidence->timeline == e->timeline)
			note_position(host, evidence, now);
		decide_later(host);
		return;
	}
	snprintf(why, sizeof(why), "%s: %s", source,
		 evidence->claim == CLAIM_PRIMARY ? "not in recovery" : "in recovery");
	if (evidence->timeline > 0)
		snprintf(why + strlen(why), sizeof(why) - strlen(why), ", timeline %" PRIu32,
			 evidence->timeline);
	if (evidence->position > 0)
		snprintf(why + strlen(why), sizeof(why) - strlen(why), ", position %s",
			 position_text(evidence->position, position));
	if (e->claim != evidence->claim) {
		e->timeline = 0;
		forget_position(host);
		host->is_reported = evidence->is_of_login;
	}
	host->is_reported &= evidence->is_of_login;
	set_claim(host, evidence->claim, why, now);
	e->at = evidence->at;
	e->is_read_only = evidence->is_read_only;
	if (evidence->timeline > 0 && evidence->timeline != e->timeline && host->marks)
		host->marks->count = 0;
	if (evidence->timeline > 0)
		e->timeline = evidence->timeline;
	if (evidence->position > 0)
		note_position(host, evidence, now);
	if (evidence->system_id > 0) {
		e->system_id = evidence->system_id;
		host->identified_at = evidence->at;
	}
	decide_later(host);
}

void host_forget(struct host *host)
{
	host->incarnation = ++host->pools->incarnations;
	forget_position(host);
	decide_later(host);
}

void host_note_promotion(struct host *host, const char *standby, usec_t now)
{
	struct host_evidence evidence = { .claim = CLAIM_PRIMARY,
					  .at = now,
					  .is_read_only = host->evidence.is_read_only };

	if (strcmp(standby, "off") != 0)
		return;
	host_note(host, &evidence, "reported by a session", now);
	/* its timeline is unknown */
	host_doubt(host, now);
}

void host_note_failure(struct host *host, const char *why, usec_t now)
{
	host->errors++;
	host->failed_at = now;
	/* each doubt causes a question at once, so a host that stays away must cause only one
	   doubt */
	if (host->evidence.claim != CLAIM_UNKNOWN)
		host_doubt(host, now);
	set_claim(host, CLAIM_UNKNOWN, why, now);
	decide_later(host);
}

void host_note_alive(struct host *host, usec_t now)
{
	if (host->evidence.claim != CLAIM_UNKNOWN)
		host->evidence.at = now;
}

void host_doubt(struct host *host, usec_t now)
{
	for (struct database *database = host->pools->databases; database;
	     database = database->hh.next) {
		struct roles *roles = database->roles;

		for (unsigned i = 0; roles && i < roles->count; i++) {
			/* the loss of a standby does not put the primary in doubt */
			if (roles->places[i].host == host &&
			    (!roles->primary || roles->primary == host))
				roles->doubt_since = now;
		}
	}
	host->pools->are_hosts_doubtful = true;
	decide_later(host);
}
