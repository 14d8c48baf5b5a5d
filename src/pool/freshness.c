/*
 * Freshness of standbys, by marks.
 *
 * pgweir asks the primary for its position in the WAL. Everything that the primary has acknowledged
 * before the question is before that position. A standby that has replayed the position therefore
 * covers the time of the question.
 *
 * Example. At 10.0 s pgweir asks the primary, which answers position 500. At 10.1 s a standby
 * answers that it has replayed 520: its fresh_to is 10.0 s. A client whose last write was
 * acknowledged at 9.9 s may read there. A client with a write at 10.05 s may not: it waits for the
 * next answers, or reads from the primary. No standby is asked because of a write.
 *
 * All times are of pgweir's own clock, read before a question is sent. The time of a turn is read
 * once, so a question with a later time was sent in a later turn than the acknowledgement.
 *
 * The lag of a standby is the time of the last answer of the primary without the time that the
 * standby covers. It is 0 on an idle primary, and does not grow while the primary does not answer.
 *
 * Marks belong to one primary and one timeline. A standby covers nothing if it does not follow the
 * primary (pool/following.h), or if pgweir does not know that both have the same timeline. After a
 * restart a standby may show older data than before: it covers nothing until its next answer.
 *
 * Invariant: place->fresh_to only grows, until the primary, the timeline or the incarnation of
 * the standby changes.
 */
#include "pool/freshness.h"

#include "base/mem.h"
#include "pool/inside.h"
#include "pool/role.h"

#include <stdio.h>
#include <string.h>

#define PAGE 8192			/* wal_block_size */
#define PAGE_HEADER 24			/* bytes at the beginning of a page, and ... */
#define SEGMENT_HEADER 40		/* ... of a segment */

#define SETTLED USEC			/* after the loss of a primary */

/* ---- marks ---- */

/* A record may end with a page. A standby replays it up to the page, and the primary inserts the
   next record after the header of the page: both positions mean the same. */
static uint64_t without_header(uint64_t position)
{
	uint64_t offset = position % PAGE;

	return offset == PAGE_HEADER || offset == SEGMENT_HEADER ? position - offset : position;
}

/* Removes one mark. The oldest and the newest stay; of the others, the mark goes that is closest to
   its neighbours in relation to its age, so that marks are dense for recent times and sparse for
   old ones. */
static void thin_out(struct marks *marks)
{
	usec_t newest = marks->list[marks->count - 1].at;
	double least = 0;
	unsigned victim = 0;

	for (unsigned i = 1; i < marks->count - 1; i++) {
		double distance = (double)(marks->list[i + 1].at - marks->list[i - 1].at) /
				  (double)(newest - marks->list[i].at);

		if (victim == 0 || distance < least) {
			least = distance;
			victim = i;
		}
	}
	memmove(&marks->list[victim], &marks->list[victim + 1],
		(marks->count - victim - 1) * sizeof(marks->list[0]));
	marks->count--;
}

void marks_add(struct marks *marks, usec_t at, uint64_t position)
{
	struct mark *last = marks->count > 0 ? &marks->list[marks->count - 1] : NULL;

	position = without_header(position);
	if (last && at <= last->at)
		return;
	/* an unclean restart may have lost the end of the WAL */
	while (last && last->position > position)
		last = --marks->count > 0 ? last - 1 : NULL;
	if (last && last->position == position) {
		last->at = at;
		return;
	}
	if (marks->count == MARKS_MOST)
		thin_out(marks);
	marks->list[marks->count++] = (struct mark){ at, position };
}

usec_t marks_covered(const struct marks *marks, uint64_t replayed)
{
	for (unsigned i = marks->count; i > 0; i--) {
		if (marks->list[i - 1].position <= replayed)
			return marks->list[i - 1].at;
	}
	return 0;
}

/* ---- standbys ---- */

void roles_cover(struct roles *roles, bool has_changed)
{
	const struct marks *marks = roles->primary ? roles->primary->marks : NULL;

	if (has_changed)
		roles->marked = (struct mark){ 0 };
	if (roles->primary)
		roles->answered_at = roles->primary->evidence.at;
	if (marks && marks->count > 0)
		roles->marked = marks->list[marks->count - 1];
	for (unsigned i = 0; i < roles->count; i++) {
		struct role_place *place = &roles->places[i];
		struct host *host = place->host;
		usec_t covers = 0;

		if (has_changed || place->incarnation != host->incarnation)
			place->fresh_to = 0;
		place->incarnation = host->incarnation;
		/* without a timeline no mark applies; without a primary, the last mark is left */
		if (host != roles->primary && host->evidence.claim == CLAIM_STANDBY &&
		    host->evidence.position > 0 && roles->timeline > 0 &&
		    host->evidence.timeline == roles->timeline && role_place_follows(roles, place))
			covers = marks ? marks_covered(marks, host->evidence.position)
				 : host->evidence.position >= roles->marked.position
					 ? roles->marked.at
					 : 0;
		if (covers > place->fresh_to)
			place->fresh_to = covers;
		host->fresh_to = place->fresh_to;
		host->lag = place->fresh_to > 0 && roles->answered_at > place->fresh_to
				    ? roles->answered_at - place->fresh_to
				    : 0;
	}
}

bool role_place_is_late(const struct roles *roles, const struct role_place *place)
{
	const struct database *database = roles->database;
	usec_t most = first_set(CONF_UNSET, database->conf->max_lag,
				database->pools->conf->settings.max_lag);

	return most > 0 && (place->fresh_to == 0 || roles->answered_at - place->fresh_to > most);
}

/* ---- clients ---- */

bool roles_hold_written(struct roles *roles, usec_t now)
{
	struct pools *pools = roles->database->pools;
	const struct conf_database *conf = roles->database->conf;
	const char *name = conf->dbname ? conf->dbname : roles->database->name, *first = "";
	struct written *written, *old = roles->written;
	size_t size;

	for (unsigned i = 0; i < roles->count; i++) {
		if (!*first || strcmp(roles->places[i].host->key, first) < 0)
			first = roles->places[i].host->key;
	}
	if (roles->has_members)
		first = conf_patroni_of(pools->conf, conf);
	size = strlen(name) + 1 + strlen(first);
	written = mem_try(sizeof(*written) + size + 1);
	if (!written)
		return false;
	/* the key has a NUL between its parts */
	memcpy(written->key, name, strlen(name));
	memcpy(written->key + strlen(name) + 1, first, strlen(first));
	HASH_FIND(hh, pools->written, written->key, size, roles->written);
	if (roles->written) {
		mem_free(written);
	} else {
		HASH_ADD_KEYPTR(hh, pools->written, written->key, size, written);
		if (!HASH_HAS(hh, written)) {
			mem_free(written);
			roles->written = old;
			return false;
		}
		/* the list of hosts has changed: all writes until now count */
		written->at = old ? now : 0;
		roles->written = written;
	}
	roles->written->users++;
	written_drop(pools, &old);
	return true;
}

void written_drop(struct pools *pools, struct written **place)
{
	struct written *written = *place;

	*place = NULL;
	if (!written || --written->users > 0)
		return;
	HASH_DELETE(hh, pools->written, written);
	mem_free(written);
}

static enum read_your_writes level_of(const struct database *database)
{
	return (enum read_your_writes)first_set(CONF_UNSET, database->conf->read_your_writes,
						database->pools->conf->settings.read_your_writes);
}

void pool_client_note_end(struct pool_client *client, usec_t now)
{
	const struct pool *pool = client->pool;
	const struct roles *roles = pool->database->roles;

	/* after a RELOAD it may ask for no role any more */
	if (!pool->host)
		return;
	if (pool->host->evidence.claim == CLAIM_STANDBY) {
		client->read_at = now;
		client->read_incarnation = pool->host->incarnation;
	} else if (client->target == TARGET_PREFER_STANDBY || client->target == TARGET_READ) {
		client->read_at = now;
		/* pool_client_route() has chosen it, or only the primary was fresh enough */
		if (client->read_incarnation != pool->host->incarnation)
			client->read_incarnation = 0;
	} else {
		client->wrote_at = now;
		if (roles)
			roles->written->at = now;
	}
}

void pool_client_note_adopted(struct pool_client *client, usec_t now)
{
	client->read_at = now;
	if (client->target == TARGET_PRIMARY || client->target == TARGET_READ_WRITE)
		client->wrote_at = client->pool->database->roles->written->at = now;
}

/*
 * Whether the standby has replayed the whole WAL of the last primary: the last primary is a standby
 * itself now, for example because Patroni's store is away, and both have had the time to replay
 * what they had received. Then no client has seen newer data. The primary may be down, and return
 * with its data. If the last primary follows a later timeline, or a standby has replayed more,
 * there is a primary that pgweir does not know, and a client may have seen its data on another
 * standby.
 */
static bool freshness_is_complete(const struct roles *roles, const struct host *standby)
{
	const struct host *last = roles->last;
	const struct host_evidence *evidence = &standby->evidence;

	if (!last || !last->is_fresh || last->evidence.claim != CLAIM_STANDBY ||
	    last->evidence.timeline != roles->timeline || evidence->timeline != roles->timeline ||
	    last->evidence.position > evidence->position)
		return false;
	for (unsigned i = 0; i < roles->count; i++) {
		const struct host_evidence *other = &roles->places[i].host->evidence;

		if (other->claim == CLAIM_STANDBY && other->position > evidence->position)
			return false;
	}
	return last->evidence.at - roles->changed_at > SETTLED &&
	       evidence->at - roles->changed_at > SETTLED;
}

usec_t pool_client_needs(const struct pool_client *client, const struct host *standby)
{
	const struct roles *roles = client->pool->database->roles;
	enum read_your_writes level = level_of(client->pool->database);
	usec_t wrote = client->wrote_at, read = client->read_at;

	if (level == READ_OFF)
		return 0;
	if (level == READ_OF_DATABASE && roles && roles->written->at > wrote)
		wrote = roles->written->at;
	if (roles && !roles->primary && read >= roles->marked.at &&
	    freshness_is_complete(roles, standby))
		read = roles->marked.at > 0 ? roles->marked.at - 1 : 0;
	/* another standby must not show older data than the host of the last read did */
	if (read > wrote && standby->incarnation != client->read_incarnation)
		wrote = read;
	return wrote > 0 ? wrote + 1 : 0;
}
