/*
 * Roles of hosts.
 *
 * Hosts report their state (role_evidence.c). Each report is evidence with the time before the
 * question was sent, so it is true at that time or later. A claim older than roles_fresh_for() is
 * unknown.
 *
 * The primary of a database is the host of its list with a fresh claim to be the primary. If
 * several hosts claim it, the host with the highest timeline is the primary, because a promotion
 * begins a new timeline. With equal timelines there is no primary.
 *
 * A former primary may come back. Example: h1 is the primary in timeline 3 and loses its network,
 * h2 is promoted in timeline 4, and h1 returns and still claims timeline 3. h1 is refused until h2
 * is known as a standby, or has been away for AWAY_LONG. Hosts with another system identifier than
 * the last primary belong to another cluster and are refused: see system_of().
 *
 * When a database gets another primary, all connections of the database to the old primary end at
 * once, in the middle of transactions too, because their writes would be lost. Connections to a
 * promoted standby stay. While the primary is only unknown, it keeps its connections.
 *
 * Invariants: roles->primary is fresh, and one of the places. pool->targets of each pool of the
 * database follows from the last decision.
 */
#include "pool/role.h"

#include "base/assert.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "pool/closed.h"
#include "pool/freshness.h"
#include "pool/inside.h"
#include "pool/read_verdicts.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define AWAY_LONG (60 * USEC)
#define STARTING (5 * USEC)		/* until all hosts have been asked */

/* ---- the list of a database ---- */

static bool roles_renew(struct database *database, usec_t now)
{
	struct roles *roles = database->roles;
	unsigned count;
	bool had_members = roles->has_members;
	struct role_place *places;

	roles->has_source = conf_patroni_of(database->pools->conf, database->conf) != NULL;
	roles->has_members = roles->has_source && !database->conf->host;
	/* the members stay until the next answer of Patroni */
	if (had_members && roles->has_members) {
		roles_decide(roles, now);
		return true;
	}
	/* made before the old places are freed, so that hosts in both lists keep their state */
	places = role_places_of(database, &count);
	if (!places)
		return false;
	roles->leader = NULL;
	roles->source_at = 0;
	roles_set_places(roles, places, count);
	if (!roles_hold_written(roles, now))
		return false;
	roles_decide(roles, now);
	return true;
}

void roles_note_addresses(const struct host *name, usec_t now)
{
	for (struct database *database = name->pools->databases; database;
	     database = database->hh.next) {
		const struct conf_database *conf = database->conf;
		bool is_listed = false;

		for (unsigned i = 0;
		     database->roles && !database->roles->has_members && i < conf->host_count;
		     i++) {
			struct host *host = host_of(database->pools, &conf->hosts[i]);

			is_listed |= host == name;
			if (host)
				host_drop(host);
		}
		/* without memory the old addresses stay */
		if (is_listed)
			roles_renew(database, now);
	}
}

/* Sets pool->is_plain: whether the pools of the database need no look at the role that a client
   asks for. */
static void set_plain(const struct database *database)
{
	LIST_EACH(node, &database->members) {
		struct pool *pool = LIST_OBJECT(node, struct pool, of_database);

		pool->is_plain = !pool->host && !pool->reads_sequences && !database->roles;
	}
}

bool roles_begin(struct database *database, usec_t now)
{
	if (database->roles)
		return true;
	database->roles = mem_try(sizeof(*database->roles));
	if (!database->roles)
		return false;
	database->roles->database = database;
	database->roles->changed_at = database->roles->doubt_since = database->roles->began_at =
		now;
	text_copy(database->roles->why, HOST_WHY, "no host has been asked yet");
	set_plain(database);
	if (roles_renew(database, now))
		return true;
	roles_free(database);
	return false;
}

static bool roles_configure(struct database *database, usec_t now)
{
	bool is_used = false;

	LIST_EACH(node, &database->members) {
		const struct pool *pool = LIST_OBJECT(node, struct pool, of_database);

		for (int state = 0; state < CLIENT_STATES; state++)
			LIST_EACH(client, &pool->clients[state])
				is_used |= client_at(client)->target != TARGET_ANY;
	}
	if (is_used ||
	    (!database->is_console && conf_asks_for_roles(database->pools->conf, database->conf)))
		return database->roles ? roles_renew(database, now) : roles_begin(database, now);
	roles_free(database);
	return true;
}

void roles_free(struct database *database)
{
	struct roles *roles = database->roles;

	if (!roles)
		return;
	database->roles = NULL;
	set_plain(database);
	role_places_free(roles->places, roles->count);
	if (roles->last)
		host_drop(roles->last);
	written_drop(database->pools, &roles->written);
	read_verdicts_free(&roles->verdicts);
	mem_free(roles);
}

bool roles_restore(struct roles *roles, const char *key, uint32_t timeline, uint64_t system,
		   usec_t last_seen, usec_t changed_at, usec_t now)
{
	struct host *host = host_hold(roles->database->pools, key);

	if (!host)
		return false;
	if (roles->last)
		host_drop(roles->last);
	roles->last = host;
	roles->timeline = timeline;
	roles->system = system;
	roles->last_seen = last_seen;
	roles_restore_verdicts(roles);
	roles_decide(roles, now);
	if (roles->primary == host)
		roles->changed_at = changed_at;
	return true;
}

/* ---- the decision ---- */

/* Returns the system identifier that the host has reported and that is not older than its role may
   be; 0: none. */
static uint64_t vote_of(const struct host *host, usec_t now)
{
	bool is_valid = host->evidence.claim != CLAIM_UNKNOWN &&
			now - host->identified_at <= roles_fresh_for(host->pools);

	return is_valid ? host->evidence.system_id : 0;
}

/*
 * Returns the system identifier of the cluster of the database: the identifier of the last primary,
 * unless more than half of the list reports another one now, as after a pg_upgrade or with the
 * answers that follow the first one. Before the first primary, the identifier that most hosts
 * report, of equal numbers the first in the list. Hosts without an answer have no vote, because
 * their addresses may have had a server of any cluster. 0: none is known.
 */
static uint64_t system_of(const struct roles *roles, usec_t now)
{
	uint64_t best = 0;
	unsigned most = 0;

	for (unsigned i = 0; i < roles->count; i++) {
		uint64_t id = vote_of(roles->places[i].host, now);
		unsigned same = 0;

		for (unsigned j = 0; j < roles->count; j++)
			same += vote_of(roles->places[j].host, now) == id;
		if (id > 0 && same > most) {
			best = id;
			most = same;
		}
	}
	return roles->system == 0 || 2 * most > roles->count ? best : roles->system;
}

/*
 * A primary of the past: its timeline is lower than the timeline of the last primary, which may
 * still be alive. The address of the last primary may lead to one, too, as a virtual address that
 * moves back to the old server. The timeline of one server never becomes lower, but is unknown
 * until its watcher has answered; meanwhile only sessions that lead to the watcher's server are
 * used (host_identity.c). Timelines of two clusters are not comparable: the next cluster at an
 * address begins with timeline 1.
 */
static bool is_past(const struct roles *roles, const struct host *host, usec_t now)
{
	const struct host *last = roles->last;
	const struct host_evidence *e = &host->evidence;
	bool is_next_cluster = e->system_id > 0 && roles->system > 0 &&
			       e->system_id != roles->system;

	return last && !last->is_of_another && !is_next_cluster &&
	       (last != host || e->timeline > 0) && e->timeline < roles->timeline &&
	       !(last->is_fresh && last->evidence.claim == CLAIM_STANDBY) &&
	       now - roles->last_seen < AWAY_LONG;
}

/* Whether the decision is early: an expected answer may show that the host belongs to another
   cluster, or, before the first primary, that another host has a higher timeline. Answers are
   waited for as long as they are valid. */
static bool is_early(const struct roles *roles, const struct host *host, usec_t now)
{
	bool is_awaited = host->is_reported;

	for (unsigned i = 0; !roles->last && i < roles->count; i++)
		is_awaited |= !roles->places[i].host->has_answered &&
			      roles->places[i].host->errors == 0;
	return is_awaited && now - host->changed_at < roles_fresh_for(roles->database->pools);
}

/* Returns the leader by Patroni's word, if the host itself says that it is the primary; NULL: none,
   and roles->why says why. */
static struct host *find_leader(struct roles *roles, usec_t now)
{
	struct host *leader = roles->leader;

	if (roles->source_at == 0 ||
	    now - roles->source_at > roles_fresh_for(roles->database->pools) || !leader)
		text_copy(roles->why, HOST_WHY,
			  *roles->source_why ? roles->source_why : "Patroni has not answered yet");
	else if (!leader->is_fresh || leader->evidence.claim != CLAIM_PRIMARY)
		snprintf(roles->why, HOST_WHY,
			 "Patroni's leader is %.80s, which is %s by its own word", leader->key,
			 leader->is_fresh ? "a standby" : "unknown");
	else
		return leader;
	return NULL;
}

/* Returns the host that is the primary by the evidence; NULL: none, and roles->why says why. */
static struct host *find_primary(struct roles *roles, usec_t now)
{
	struct host *best = NULL, *rival = NULL;
	bool has_past = false, has_answer = false;
	unsigned standbys = 0;

	if (roles->has_source)
		return find_leader(roles, now);
	for (unsigned i = 0; i < roles->count; i++) {
		struct host *host = roles->places[i].host;
		bool is_claim = host->is_fresh && host->evidence.claim == CLAIM_PRIMARY;

		has_answer |= host->evidence.at > 0 || host->errors > 0;
		standbys += host->is_fresh && host->evidence.claim == CLAIM_STANDBY;
		roles->places[i].is_past = is_claim && is_past(roles, host, now);
		if (!is_claim)
			continue;
		if (roles->places[i].is_past) {
			snprintf(roles->why, HOST_WHY,
				 "%.80s is a primary of the past: its timeline %" PRIu32
				 " is lower than %" PRIu32,
				 host->key, host->evidence.timeline, roles->timeline);
			has_past = true;
			continue;
		}
		if (!best || host->evidence.timeline > best->evidence.timeline) {
			best = host;
			rival = NULL;
		} else if (host->evidence.timeline == best->evidence.timeline &&
			   !is_same_server(host, best)) {
			rival = host;
		}
	}
	if (rival) {
		snprintf(roles->why, HOST_WHY,
			 "both %.60s and %.60s say that they are the primary, with timeline "
			 "%" PRIu32,
			 best->key, rival->key, best->evidence.timeline);
		return NULL;
	}
	if (best && is_early(roles, best, now)) {
		text_copy(roles->why, HOST_WHY, "not all hosts have answered yet");
		return NULL;
	}
	if (!best && !has_past && has_answer)
		snprintf(roles->why, HOST_WHY,
			 "no host says that it is the primary; %u of %u hosts are standbys",
			 standbys, roles->count);
	return best;
}

static void set_fresh(struct roles *roles, usec_t now)
{
	uint64_t system = system_of(roles, now);
	usec_t most = roles_fresh_for(roles->database->pools);

	for (unsigned i = 0; i < roles->count; i++) {
		struct host *host = roles->places[i].host;
		bool is_of_another = host->evidence.system_id > 0 && system > 0 &&
				     host->evidence.system_id != system;

		if (is_of_another && host->is_fresh)
			log_warning("host %s belongs to another cluster: its system identifier is "
				    "%" PRIu64 ", and not %" PRIu64
				    " as for other hosts of database %s",
				    host->key, host->evidence.system_id, system,
				    roles->database->name);
		host->is_of_another = is_of_another;
		host->is_fresh = host->evidence.claim != CLAIM_UNKNOWN &&
				 now - host->evidence.at <= most && !is_of_another;
	}
}

static bool is_standby_for(const struct roles *roles, const struct role_place *place)
{
	return place->host->is_fresh && place->host->evidence.claim == CLAIM_STANDBY &&
	       !place->has_no_readers && !host_is_closed_to(place->host, roles->database) &&
	       role_place_follows(roles, place) && !role_place_is_late(roles, place);
}

/* Returns the bits of pool->targets for a host of the list. */
static uint8_t suits_of(const struct roles *roles, const struct role_place *place)
{
	const struct host *host = place->host;
	bool is_primary = host == roles->primary, is_standby = is_standby_for(roles, place),
	     has_standby = false;
	unsigned suits = 0;

	if (host_is_closed_to(host, roles->database))
		return 0;
	for (unsigned i = 0; i < roles->count; i++)
		has_standby |= is_standby_for(roles, &roles->places[i]);
	if (is_primary)
		suits |= TARGET_BIT(TARGET_PRIMARY) |
			 TARGET_BIT(host->evidence.is_read_only ? TARGET_READ_ONLY
								: TARGET_READ_WRITE);
	if (is_standby)
		suits |= TARGET_BIT(TARGET_STANDBY) | TARGET_BIT(TARGET_READ_ONLY);
	if (is_standby || (is_primary && !has_standby))
		suits |= TARGET_BIT(TARGET_PREFER_STANDBY) | TARGET_BIT(TARGET_READ);
	if (is_primary && roles->database->conf->reads_on_primary == PRIMARY_READS)
		suits |= TARGET_BIT(TARGET_READ);
	return (uint8_t)suits;
}

/*
 * All connections of the database to the old primary end, by whichever address: another server is
 * the primary now. If the host is back as a standby, connections that were opened since then stay.
 */
static void leave_host(const struct database *database, const struct host *old)
{
	bool is_standby = old->is_fresh && old->evidence.claim == CLAIM_STANDBY;

	LIST_EACH(node, &database->members) {
		struct pool *pool = LIST_OBJECT(node, struct pool, of_database);

		for (int state = 0; pool->host && state < SERVER_STATES; state++) {
			LIST_EACH_SAFE(server, &pool->servers[state]) {
				bool is_there = pool->host == old ||
						(old->evidence.server_id > 0 &&
						 server_at(server)->server_id ==
							 old->evidence.server_id);
				bool is_new = is_standby &&
					      (state == SERVER_LOGIN ||
					       server_at(server)->opened >= old->changed_at);

				if (is_there && state != SERVER_WATCHING &&
				    !server_is_apart(server_at(server)) && !is_new)
					pool->pools->ops->drop(server_at(server), REASON_HOST_ROLE);
			}
		}
	}
}

/* A host may have been used before it was known that the host belongs to another cluster. */
static void leave_other_clusters(const struct roles *roles)
{
	for (unsigned i = 0; i < roles->count; i++) {
		if (roles->places[i].host->is_of_another)
			leave_host(roles->database, roles->places[i].host);
	}
}

/* Moves the clients that wait in the pools of the database to pools that suit them now. */
static void move_waiting(const struct database *database, usec_t now)
{
	static const enum client_state states[] = { CLIENT_WAITING, CLIENT_WAITING_LOGIN };

	LIST_EACH(node, &database->members) {
		struct pool *pool = LIST_OBJECT(node, struct pool, of_database);

		for (size_t i = 0; pool->host && i < sizeof(states) / sizeof(states[0]); i++) {
			LIST_EACH_SAFE(client, &pool->clients[states[i]])
				pool_client_route(client_at(client), now);
		}
	}
}

/* Clients that wait for the verdict on their last host. */
static void judge_held(const struct database *database)
{
	LIST_EACH(node, &database->members) {
		struct pool *pool = LIST_OBJECT(node, struct pool, of_database);

		if (pool->host != pool->pools->no_host)
			continue;
		LIST_EACH_SAFE(client, &pool->clients[CLIENT_WAITING]) {
			if (client_at(client)->is_held)
				pool->pools->ops->judge(client_at(client));
		}
	}
}

/* Sets the targets of each place and each pool. Returns whether this has changed. */
static bool set_suits(struct roles *roles, usec_t now)
{
	bool has_changed = false;

	for (unsigned i = 0; i < roles->count; i++) {
		struct role_place *place = &roles->places[i];
		uint8_t suits = suits_of(roles, place);

		if (suits & ~place->targets & TARGET_BIT(TARGET_READ)) {
			bool was_away = place->host->errors > 0 || place->host->changes > 1;

			roles->readers_at = now;
			/* at first the roles of all hosts are unknown */
			place->back_at = now - roles->began_at < STARTING && !was_away ? 0 : now;
		}
		has_changed |= suits != place->targets;
		place->targets = suits;
		place->refuses = false;
	}
	roles->has_refusals = false;
	LIST_EACH(node, &roles->database->members) {
		struct pool *pool = LIST_OBJECT(node, struct pool, of_database);

		has_changed |= pool_set_targets(pool);
		/* the host lives, although a login got no answer; a lasting refusal stays */
		if (pool->host && pool->login_failed && pool->login_failure == FAILURE_PASSING &&
		    pool->host->is_fresh && pool->host->evidence.at > pool->login_failed_at)
			pool_login_forgiven(pool);
		roles->has_refusals |= pool->host && pool->login_failed;
	}
	return has_changed;
}

/* The primary is another one than before, or none any more. */
static void role_log_change(const struct roles *roles)
{
	char name[PRINTABLE_NAME];

	printable_name(roles->database->name, name, sizeof(name));
	if (roles->primary)
		log_info("database %s: the primary is %s (%s)", name, roles->primary->key,
			 roles->primary->why);
	else
		log_warning("database %s: no primary: %s", name, roles->why);
}

void roles_decide(struct roles *roles, usec_t now)
{
	struct host *was = roles->primary, *last = roles->last, *primary;
	uint32_t timeline = roles->timeline;
	bool is_waited_for = roles->is_waited_for, has_changed;

	roles->is_due = roles->is_waited_for = false;
	set_fresh(roles, now);
	leave_other_clusters(roles);
	primary = roles->primary = find_primary(roles, now);
	if (primary && primary->evidence.at > roles->doubt_since)
		roles->doubt_since = 0;
	else if (!primary && was)
		roles->doubt_since = now;
	if (primary) {
		roles->timeline = primary->evidence.timeline > 0 || primary != last
					  ? primary->evidence.timeline
					  : roles->timeline;
		roles->last = primary;
		roles->system = primary->evidence.system_id > 0 ? primary->evidence.system_id
								: roles->system;
		roles->last_seen = now;
		roles->why[0] = '\0';
		primary->users++;
		/* a name may have one address for some time, and is then another host, but the same
		   server */
		if (last && last != primary && !is_same_server(last, primary))
			leave_host(roles->database, last);
		if (last)
			host_drop(last);
	}
	has_changed = (primary && primary != last) || roles->timeline != timeline;
	roles_judge_standbys(roles, has_changed, now);
	roles_cover(roles, has_changed);
	if (primary != was) {
		roles->changed_at = now;
		role_log_change(roles);
	}
	roles_find_rivals(roles);
	judge_held(roles->database);
	if (set_suits(roles, now) || primary != was || is_waited_for)
		move_waiting(roles->database, now);
	roles_recall_reads(roles, now);
}

void roles_admit(struct database *database, usec_t now)
{
	if (database->roles)
		roles_decide(database->roles, now);
	LIST_EACH(node, &database->members) {
		struct pool *pool = LIST_OBJECT(node, struct pool, of_database);

		pool_set_targets(pool);
	}
}

void roles_decide_due(struct pools *pools, usec_t now)
{
	pools->are_roles_due = false;
	for (struct database *database = pools->databases; database; database = database->hh.next) {
		if (database->roles && database->roles->is_due)
			roles_decide(database->roles, now);
	}
	if (pools->are_hosts_doubtful)
		pools->ops->ask_hosts(pools);
	pools->are_hosts_doubtful = false;
}

void roles_tick(struct pools *pools, usec_t now)
{
	for (struct database *database = pools->databases; database; database = database->hh.next) {
		struct roles *roles = database->roles;
		bool is_due = false;

		if (!roles)
			continue;
		if (roles->primary)
			roles->last_seen = now;
		for (unsigned i = 0; i < roles->count; i++) {
			const struct host *host = roles->places[i].host;

			is_due |= host->is_fresh &&
				  now - host->evidence.at > roles_fresh_for(pools);
		}
		is_due |= roles->has_source && roles->primary &&
			  now - roles->source_at > roles_fresh_for(pools);
		if (is_due || roles->is_due || roles->is_waited_for || !roles->primary)
			roles_decide(roles, now);
	}
}

const char *roles_text(const struct database *database, usec_t now, char *buf, size_t size)
{
	const struct roles *roles = database->roles;
	size_t used;

	snprintf(buf, size, "no host has the role that the client asks for");
	if (hosts_are_closed(database))
		snprintf(buf, size,
			 "an administrator has disabled each host of the database (DISABLE HOST)");
	if (roles && !roles->primary && *roles->why)
		snprintf(buf + strlen(buf), size - strlen(buf), "; no primary for %.1f s: %s",
			 (double)(now - roles->changed_at) / USEC, roles->why);
	for (unsigned i = 0; roles && i < roles->count; i++) {
		const struct host *host = roles->places[i].host;

		const char *claim = host_claim_word(host->is_fresh ? host->evidence.claim
								   : CLAIM_UNKNOWN);
		bool has_why = !host->is_fresh && *host->why;

		used = strlen(buf);
		snprintf(buf + used, size - used, "%s%s: %s%s%s%s%s", i == 0 ? "; " : ", ",
			 host->key, claim, has_why ? " (" : "", has_why ? host->why : "",
			 has_why ? ")" : "",
			 !host_is_closed_to(host, database) ? ""
			 : host->is_disabled		    ? ", disabled"
							    : ", draining");
	}
	return buf;
}

/* ---- clients ---- */

bool pool_client_set_target(struct pool_client *client, usec_t now)
{
	const struct user *user = client->login_user;
	int64_t of_user = OF_USER(user, target_session_attrs);
	const struct conf_database *conf = client->pool->database->conf;
	/* of a read that waits, or runs on a standby, during a RELOAD */
	bool is_read = client->target == TARGET_READ;

	/* the console has no hosts */
	if (client->pool->database->is_console)
		return true;
	client->role = client->own_target;
	if (client->role == TARGET_ANY)
		client->role = (uint8_t)first_set(
			of_user, CONF_UNSET, conf_target_of(client->pool->pools->conf, conf));
	/* other transactions than reads need the primary */
	if (client->role == TARGET_ANY && conf->reads != READS_OFF)
		client->role = TARGET_PRIMARY;
	client->reads = client->role == TARGET_PRIMARY ? (uint8_t)conf->reads : READS_OFF;
	pool_client_seek(client, is_read);
	if (client->role == TARGET_ANY)
		return true;
	if (!roles_begin(client->pool->database, now))
		return false;
	client->pool->database->roles->has_readers |= conf->reads != READS_OFF ||
						      client->role == TARGET_READ_ONLY ||
						      client->role == TARGET_STANDBY ||
						      client->role == TARGET_PREFER_STANDBY;
	return true;
}

bool pool_client_adopt(struct pool_client *client, usec_t now)
{
	if (!pool_client_set_target(client, now))
		return false;
	pool_client_note_adopted(client, now);
	return true;
}

bool roles_reconfigure(struct database *database, usec_t now)
{
	bool has_memory = true;

	LIST_EACH(node, &database->members) {
		const struct pool *pool = LIST_OBJECT(node, struct pool, of_database);

		for (int state = 0; state < CLIENT_STATES; state++)
			LIST_EACH(client, &pool->clients[state])
				has_memory &= pool_client_set_target(client_at(client), now);
	}
	has_memory &= roles_configure(database, now);
	/* they may wait for another role now, or for none */
	move_waiting(database, now);
	/* read_functions may have changed */
	if (database->roles)
		read_definitions_changed(database);
	return has_memory;
}

