/*
 * Whether a standby follows the primary.
 *
 * A server in recovery may follow nothing at all. Example: h1 is the primary, and loses its
 * network; h2 is restarted without standby.signal and is the new primary, with the same timeline;
 * h1 comes back with standby.signal, and shows for ever what it had, without the writes of h2, and
 * with writes that h2 has never seen. Its role, system identifier and timeline are those of a good
 * standby, and its position may be beyond the primary's, as if it had replayed everything.
 *
 * So a standby is PRESUMED at first, and the answers of the hosts move it to another state (enum
 * following):
 *
 *  - DIVERGED: its timeline is higher than the primary's, or its position was beyond a position
 *    that the primary reported later. It stays there until it replays more, or until its connection
 *    ends (a rewound server has restarted).
 *  - UNPROVEN: its timeline is lower (it has not followed the promotion yet, or never will), or it
 *    receives nothing.
 *  - FOLLOWS: it has the primary's timeline, is not beyond the primary, and receives. This is known
 *    from either of two facts: it has replayed more than the primary had when the two were compared
 *    first, which is true from then on, because a server in recovery writes nothing itself; or two
 *    answers in a row name the same WAL receiver. One answer is not enough: the receiver of a
 *    server that has diverged connects again and again, and ends as soon as it gets WAL that does
 *    not fit.
 *
 * A standby that replays with a delay, is paused or is fed by another standby has a WAL receiver. A
 * standby that is fed from an archive follows as soon as it has replayed what the primary has
 * written since the comparison began.
 *
 * Columns of pg_stat_wal_receiver other than the process id, among them the timeline that is
 * received, need the rights of pg_read_all_stats. Without them the timeline of a standby is that of
 * its control file, which changes some minutes after a promotion, with the next restartpoint.
 *
 * A verdict needs a primary that reports its position. Without one, the verdicts stay, and a
 * PRESUMED standby may be read: the primary is away, or a service imitates PostgreSQL and has no
 * WAL. After a start all hosts have as long to answer as evidence is valid.
 *
 * Invariant: place->following is written here only.
 */
#include "pool/following.h"

#include "base/log.h"
#include "base/text.h"
#include "pool/inside.h"
#include "pool/role.h"

#include <stdio.h>

/* A standby that changes its timeline after a promotion, or whose WAL receiver starts, needs as
   long. */
#define UNPROVEN_LONG (10 * USEC)

static const char *const words[] = {
	[FOLLOWING_PRESUMED] = NULL,
	[FOLLOWING_YES] = NULL,
	[FOLLOWING_UNPROVEN] = "not following",
	[FOLLOWING_DIVERGED] = "diverged",
};

const char *following_word(enum following following) { return words[following]; }

/* Returns the state that follows from the last answers of both hosts, and writes the reason into
   standby->follows_why. */
static enum following following_decide(struct role_place *place, const struct host *primary)
{
	struct host *standby = place->host;
	const struct host_evidence *e = &standby->evidence, *p = &primary->evidence;
	char here[POSITION_TEXT], there[POSITION_TEXT];

	if (e->position > place->from && place->from > 0 && e->position <= p->position) {
		place->has_moved = true;
		if (place->following == FOLLOWING_DIVERGED)
			place->following = FOLLOWING_UNPROVEN;
	}
	if (e->timeline > p->timeline) {
		snprintf(standby->follows_why, HOST_WHY,
			 "its timeline %" PRIu32 " is higher than the primary's %" PRIu32,
			 e->timeline, p->timeline);
		return FOLLOWING_DIVERGED;
	}
	/* the primary was asked after the standby had answered */
	if (e->position > p->position && e->position_heard < p->position_at) {
		snprintf(standby->follows_why, HOST_WHY,
			 "its position %s is beyond the primary's %s",
			 position_text(e->position, here), position_text(p->position, there));
		place->has_moved = false;
		place->from = e->position;
		return FOLLOWING_DIVERGED;
	}
	if (place->following == FOLLOWING_DIVERGED && e->timeline == p->timeline)
		return FOLLOWING_DIVERGED;
	if (place->from == 0)
		place->from = e->position > p->position ? e->position : p->position;
	/* the next answer of the primary shows whether this is beyond it */
	if (e->timeline == p->timeline && e->position > p->position &&
	    place->following != FOLLOWING_YES)
		return place->following;
	if (e->timeline < p->timeline)
		snprintf(standby->follows_why, HOST_WHY,
			 "its timeline is %" PRIu32 ", and the primary's is %" PRIu32, e->timeline,
			 p->timeline);
	else if (place->has_moved || standby->is_receiving)
		return FOLLOWING_YES;
	else
		snprintf(standby->follows_why, HOST_WHY,
			 "it receives no WAL, and has replayed nothing that the primary has "
			 "written since");
	return FOLLOWING_UNPROVEN;
}

/* Logs a lasting change once, and copies the state for SHOW HOSTS. */
static void following_note(struct role_place *place, usec_t now)
{
	struct host *host = place->host;
	bool is_bad = words[place->following] != NULL;

	host->following = place->following;
	if (!is_bad)
		place->unproven_since = 0;
	else if (place->unproven_since == 0)
		place->unproven_since = now;
	if (is_bad && !host->is_warned &&
	    (place->following == FOLLOWING_DIVERGED ||
	     now - place->unproven_since > UNPROVEN_LONG)) {
		log_warning("host %s is a standby that does not follow the primary, and is not "
			    "read: %s",
			    host->key, host->follows_why);
		host->is_warned = true;
	} else if (place->following == FOLLOWING_YES && host->is_warned) {
		log_info("host %s follows the primary again", host->key);
		host->is_warned = false;
	}
}

/* Whether there is a primary that reports where it is. */
static bool is_comparable(const struct roles *roles)
{
	const struct host *primary = roles->primary;

	return primary && primary->evidence.position_at > 0 && primary->evidence.timeline > 0;
}

void roles_judge_standbys(struct roles *roles, bool has_changed, usec_t now)
{
	for (unsigned i = 0; i < roles->count; i++) {
		struct role_place *place = &roles->places[i];
		const struct host *host = place->host;
		const struct host_evidence *e = &host->evidence;

		if (has_changed || place->life != host->life || e->claim == CLAIM_PRIMARY) {
			place->following = FOLLOWING_PRESUMED;
			place->has_moved = false;
			place->from = 0;
		}
		if (is_comparable(roles) && host != roles->primary && e->claim == CLAIM_STANDBY &&
		    e->position > 0)
			place->following = following_decide(place, roles->primary);
		following_note(place, now);
	}
}

/* Whether the first answers of some hosts may still come. */
static bool is_beginning(const struct roles *roles)
{
	for (unsigned i = 0; !roles->last && i < roles->count; i++) {
		if (!roles->places[i].host->has_answered && roles->places[i].host->errors == 0)
			return true;
	}
	return false;
}

bool role_place_follows(const struct roles *roles, const struct role_place *place)
{
	if (place->following != FOLLOWING_PRESUMED)
		return place->following == FOLLOWING_YES;
	return !is_comparable(roles) && !is_beginning(roles);
}
