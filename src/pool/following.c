/*
 * Whether a standby follows the primary.
 *
 * A server in recovery may follow nothing at all. Example: h1 is the primary and loses its network.
 * An administrator restarts h2 without standby.signal: h2 is the new primary, with the same
 * timeline. Then h1 comes back with standby.signal. It never receives the writes of h2, and it has
 * writes that h2 has never seen. Its role, system identifier and timeline look like a good standby,
 * and its position may be beyond the primary's, as if it had replayed everything.
 *
 * The story of a standby, in the order of time (enum following):
 *
 * 1. PRESUMED: no primary has reported its position yet. Nothing contradicts the standby, so it may
 *    be read once all hosts have answered or failed: the primary is away, or a service imitates
 *    PostgreSQL and has no WAL.
 * 2. UNPROVEN: the first comparison. Readers wait for a proof. A server stays here while its
 *    timeline is lower (it has not followed the promotion yet, or never will), while it receives
 *    nothing, or while its sender does not follow the primary itself.
 * 3. FOLLOWS: it has the primary's timeline, is not beyond the primary's position, no sender
 *    contradicts it, and it receives. It must have shown that it receives, by one of two facts:
 *     - Two answers in a row name the same WAL receiver. One answer is not enough: the receiver of
 *       a diverged server connects again and again, and ends at the first record that does not fit.
 *     - It has replayed more than the primary had, twice: more than at the first comparison, and
 *       more than when that was seen. This is the proof for standbys that are fed from an archive.
 *       Once is not enough, because after a crash a standby is readable while it still replays WAL
 *       of its former primary. This WAL ends somewhere. Either the standby stops at its end, or is
 *       seen beyond the primary. (A former primary that has crashed is not readable before the end
 *       of its own WAL.) The proof lasts, because a server in recovery writes nothing itself.
 * 4. DIVERGED: its timeline is higher than the primary's, or its position was beyond a position
 *    that the primary reported later: it has WAL that the primary has never written. To replay more
 *    does not cure it. The state ends with the server (a rewound server has restarted: another
 *    server_id) or with the primary.
 *
 * After the end of its watcher's connection a standby may have restarted, and begins again at 1; so
 * do all after a promotion.
 *
 * The sender is the server that the receiver names (sender_host and sender_port of
 * pg_stat_wal_receiver), if its key is in the list of the database: is_fed() follows the chain from
 * host to host. Example: h1 is isolated, lives on as a primary and feeds h3; h2 is the primary with
 * the same timeline. h3 receives steadily and is behind h2, but names h1, which is not the primary.
 * An unlisted sender proves nothing: a standby may reach the primary by another address than
 * pgweir, or through an unlisted server. Then the receiver counts. One gap remains: two primaries
 * have the same timeline, and the standby is fed by the primary that the list does not name.
 *
 * Columns of pg_stat_wal_receiver other than the process id, among them sender and received
 * timeline, need the rights of pg_read_all_stats. Without them the sender is unknown, and a standby
 * reports the timeline of its control file, which changes some minutes after a promotion, with the
 * next restartpoint.
 *
 * The state changes only while a primary reports its position.
 *
 * Invariant: place->following is written here only.
 */
#include "pool/following.h"

#include "base/log.h"
#include "base/text.h"
#include "pool/inside.h"
#include "pool/role.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define MOVES_ENOUGH 2			/* see FOLLOWS above */
/* A standby may need as long to change its timeline after a promotion, or to start its WAL
   receiver. */
#define UNPROVEN_LONG (10 * USEC)

static const char *const words[] = {
	[FOLLOWING_PRESUMED] = NULL,
	[FOLLOWING_YES] = NULL,
	[FOLLOWING_UNPROVEN] = "not following",
	[FOLLOWING_DIVERGED] = "diverged",
};

const char *following_word(enum following following) { return words[following]; }

/* Whether the address has a meaning only on the host's own machine, such as 127.0.0.1 or a socket
   directory. */
static bool is_of_machine(const char *key)
{
	return *key == '/' || strncmp(key, "127.", 4) == 0 || strncmp(key, "::1:", 4) == 0 ||
	       strncasecmp(key, "localhost:", 10) == 0;
}

/* Returns the place of the server that feeds the standby; NULL: it is unknown, or not in the
   list. */
static const struct role_place *sender_of(const struct roles *roles, const struct host *standby)
{
	const char *sender = standby->evidence.sender;

	if (is_of_machine(sender) && !is_of_machine(standby->key))
		return NULL;
	for (unsigned i = 0; *sender && i < roles->count; i++) {
		const struct host *host = roles->places[i].host;

		if (host != standby && strcasecmp(host->key, sender) == 0)
			return &roles->places[i];
	}
	return NULL;
}

/* Whether no sender between the standby and the primary contradicts that the standby gets the
   primary's WAL. */
static bool is_fed(const struct roles *roles, const struct role_place *place)
{
	const struct role_place *next = sender_of(roles, place->host);

	/* no chain is longer than the list, except a circle */
	for (unsigned i = 0; next && i < roles->count; i++) {
		if (next->host == roles->primary || is_same_server(next->host, roles->primary))
			return true;
		if (next->host->evidence.claim != CLAIM_STANDBY ||
		    next->following != FOLLOWING_YES)
			return false;
		next = sender_of(roles, next->host);
	}
	return !next;
}

/* Returns the state that follows from the last answers of the standby and the primary, and writes
   the reason into host->follows_why. */
static enum following following_decide(const struct roles *roles, struct role_place *place)
{
	struct host *standby = place->host;
	const struct host_evidence *e = &standby->evidence, *p = &roles->primary->evidence;
	char here[POSITION_TEXT], there[POSITION_TEXT];

	if (place->following == FOLLOWING_DIVERGED)
		return FOLLOWING_DIVERGED;
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
		return FOLLOWING_DIVERGED;
	}
	if (place->from == 0) {
		place->from = e->position > p->position ? e->position : p->position;
	} else if (e->position > place->from && e->position <= p->position &&
		   place->moves < MOVES_ENOUGH) {
		place->moves++;
		place->from = p->position;
	}
	/* the next answer of the primary shows whether this is beyond it */
	if (e->timeline == p->timeline && e->position > p->position &&
	    place->following != FOLLOWING_YES)
		return place->following;
	if (e->timeline < p->timeline)
		snprintf(standby->follows_why, HOST_WHY,
			 "its timeline is %" PRIu32 ", and the primary's is %" PRIu32, e->timeline,
			 p->timeline);
	else if (!is_fed(roles, place))
		snprintf(standby->follows_why, HOST_WHY,
			 "it receives from %.80s, which is not known to follow the primary",
			 e->sender);
	else if (place->moves == MOVES_ENOUGH || standby->is_receiving)
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

void roles_restore_verdicts(struct roles *roles)
{
	for (unsigned i = 0; i < roles->count; i++) {
		struct role_place *place = &roles->places[i];

		place->incarnation = place->host->incarnation;
		place->following = place->host->followed;
		place->server_id = place->host->evidence.server_id;
		place->moves = place->following == FOLLOWING_YES ? MOVES_ENOUGH : 0;
	}
}

/* Whether the primary is known and reports its position. */
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

		bool is_same_diverged = place->following == FOLLOWING_DIVERGED &&
					e->server_id > 0 && e->server_id == place->server_id;

		if (has_changed || e->claim == CLAIM_PRIMARY ||
		    (place->incarnation != host->incarnation && !is_same_diverged)) {
			place->following = FOLLOWING_PRESUMED;
			place->moves = 0;
			place->from = 0;
		}
		place->server_id = e->server_id;
		if (is_comparable(roles) && host != roles->primary && e->claim == CLAIM_STANDBY &&
		    e->position > 0)
			place->following = following_decide(roles, place);
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
