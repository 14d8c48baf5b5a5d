/*
 * The roles of the hosts in a world with roles, their faults, and the rules for pgweir.
 *
 * All hosts of the list are one cluster: a primary and standbys. One fault follows the other: a planned switchover (the primary ends all sessions
 * with 57P01, refuses logins with 57P03, then connections; a standby is promoted with the next timeline; the old primary returns as a standby), a crash
 * with or without a promotion, a partition (the primary is silent, a standby is promoted, the old primary is back with the lower timeline for a while
 * and believes that it still is the primary, and may then be in recovery for a while without the WAL of the new one), a standby that goes
 * away, or that hangs (it accepts connections or does not, answers nothing, perhaps from the middle of an answer on, and goes on later with what it was
 * sent), a host that ends the session of the watcher and refuses logins, nonsense for
 * the watcher, and a standby that is replaced by the primary of another cluster. Meanwhile standbys lag: they replay nothing, or all with a delay, and
 * after a restart a standby may show older data than before. A position in the WAL is a time, and a request on a standby sees what it has replayed.
 *
 * Rules, for each byte that pgweir sends for a client, and each request that a host executes:
 * - Requests of clients that ask for the primary go to no standby, to no host with a lower timeline than a primary that pgweir knows, and to no other
 *   host than the primary that pgweir has decided for.
 * - No request goes to a host that is known as a member of another cluster, nor to a host that does not follow the primary that pgweir knows.
 * - No request is executed twice, but for a BEGIN READ ONLY, and the requests of such a transaction on a standby.
 * - A standby executes only requests of clients that have asked for standbys, and of READ ONLY transactions (reads = transaction). A request that was
 *   sent behind the end of the transaction is not one of these.
 * - A client that has no byte of the answer to the first request of its READ ONLY transaction does not stay at a standby that hangs: while there is a
 *   primary, pgweir takes the read back within HANG_PATIENCE.
 * - A reader sees nothing older than what it has seen before, and than what it has written; with read_your_writes = database also all that clients of its database had been told when
 *   the reader asked.
 * - Clients that wait for a primary get one within a bound, after there is one primary that the watcher reaches.
 * - In a world of planned switchovers, a client gets no error unless it has a request or a transaction at a server (client_judge.c).
 *
 * Invariants: an answer counts as known to pgweir when the watcher asks its next question in the same session. The knowledge about a host ends with
 * the era of the host: its role and its sessions.
 */
#include "roles.h"

#include "backend.h"
#include "base/mem.h"
#include "chance.h"
#include "conn/client.h"
#include "conn/server.h"
#include "core/lifecycle.h"
#include "data_row.h"
#include "pg/build.h"
#include "pool/inside.h"
#include "pool/role.h"
#include "relay/request.h"
#include "sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SYSTEM "7000000000000000001"
#define OTHER_SYSTEM "7000000000000000002"
#define OTHER_TIMELINE 99
#define PAST_LONG (50 * USEC)		/* pgweir refuses a primary of the past for longer than this */
#define PATIENCE (15 * USEC)
#define HANG_PATIENCE (5 * USEC)	/* a read on a host that hangs; two periods of the watcher, which are two seconds at most, and its time limits */
#define COLUMNS 7			/* of the answer to the question for the role */
#define POSITION_UNIT 64		/* bytes of WAL in a microsecond; no position follows a page header */

struct member {
	enum member_state state;
	bool is_standby, is_foreign, is_full, talks_nonsense;
	uint64_t diverged_at;		/* in recovery, follows no server and is at this position, with WAL that no other member has; 0: it has not diverged */
	uint32_t timeline;
	unsigned starts;		/* how often it has started */
	uint64_t era;
	usec_t silent_since;		/* in MEMBER_SILENT */
	bool has_met;			/* this silence has met a read in flight */
	usec_t frozen_at, delay;	/* a standby lags: it has replayed everything until then, and all but the last `delay`, if any; 0: it does not */
	bool is_known, was_known;	/* pgweir has an answer of this era; of a member of the cluster at any time */
};

enum plot { PLOT_SWITCHOVER, PLOT_CRASH, PLOT_PARTITION, PLOT_STANDBY, PLOT_HANG, PLOT_REFUSAL, PLOT_NONSENSE, PLOT_FOREIGN, PLOTS };

static struct {
	struct world *world;
	struct member members[PLAN_HOSTS];
	uint32_t timeline;		/* the highest one of the cluster ... */
	usec_t promoted_at;		/* ... and when it began */
	usec_t stopped_at;		/* when the last primary went away: there is nothing newer until a primary is back */
	usec_t told_at[PLAN_DATABASES];	/* when the last request on the primary was executed of which a client of the database has the answer */
	struct actor actor;
	enum plot plot;
	int step;			/* of the plot; 0: none has begun */
	int old, new;			/* hosts of the plot */
	struct { uint32_t timeline; int host; usec_t at; } highest;	/* the primary with the highest timeline that pgweir has known */
	usec_t well_since;		/* one primary, without faults; 0: now there is none */
	uint64_t *done;			/* a hash table of executed requests: client and serial; 0: empty */
	size_t done_size, done_count;
} roles;

/* ---- the state of a host ---- */

enum member_state member_state(int host) { return roles.members[host].state; }
bool member_is_full(int host) { return roles.members[host].is_full; }
bool member_is_standby(int host) { return roles.members[host].is_standby; }

static void begin_era(struct member *m)
{
	m->era++;
	m->is_known = false;
}

/* Whether the primary of the highest timeline lives. */
static bool has_primary(void)
{
	for (int i = 0; i < plan.role_hosts; i++) {
		const struct member *m = &roles.members[i];

		if (!m->is_standby && !m->is_foreign && m->timeline == roles.timeline && (m->state == MEMBER_UP || m->state == MEMBER_SHUTS_DOWN))
			return true;
	}
	return false;
}

/* The time of the newest data. */
static usec_t newest(void) { return has_primary() ? loop_now() : roles.stopped_at; }

/* The time until which the host has all data. */
static usec_t replayed(const struct member *m)
{
	usec_t delayed = m->delay > 0 ? loop_now() - m->delay : 0, most = newest();
	usec_t at = m->frozen_at == 0 ? most : delayed > m->frozen_at ? delayed : m->frozen_at;

	return at < most ? at : most;
}

static void lag(int host, usec_t since)
{
	struct member *m = &roles.members[host];

	m->frozen_at = since;
	m->delay = chance_one_in(2) ? chance_spread(1, 20 * USEC) : 0;
	sim_counts.lags++;
	SIM_TRACE("host %d lags, from %.6f on, by %.6f s", host, (double)since / USEC, (double)m->delay / USEC);
}

static void catch_up(int host)
{
	roles.members[host].frozen_at = roles.members[host].delay = 0;
}

static void promote(int host)
{
	struct member *m = &roles.members[host];

	SIM_TRACE("host %d is promoted, timeline %u", host, roles.timeline + 1);
	catch_up(host);
	roles.promoted_at = loop_now();
	m->is_standby = false;
	m->timeline = ++roles.timeline;
	begin_era(m);
}

static void set_state(int host, enum member_state state)
{
	static const char *const words[] = { "up", "shutting down", "down", "silent" };
	struct member *m = &roles.members[host];
	bool was_silent = m->state == MEMBER_SILENT;

	SIM_TRACE("host %d is %s", host, words[state]);
	if (!m->is_standby && !m->is_foreign && m->timeline == roles.timeline && state >= MEMBER_DOWN && m->state < MEMBER_DOWN)
		roles.stopped_at = loop_now();
	if (state == MEMBER_SILENT && !was_silent) {
		m->silent_since = loop_now();
		m->has_met = false;
	}
	m->starts += state == MEMBER_UP && m->state == MEMBER_DOWN;
	m->state = state;
	if (state == MEMBER_DOWN)
		backends_crash(host);
	else if (was_silent)
		backends_go_on(host);
}

static void come_as_standby(int host)
{
	struct member *m = &roles.members[host];

	m->is_standby = true;
	m->is_foreign = false;
	m->diverged_at = 0;
	begin_era(m);
	set_state(host, MEMBER_UP);
	catch_up(host);
	if (!sim_is_calm && !plan.only_switchovers && chance_one_in(2))
		lag(host, loop_now() - chance_spread(0, 20 * USEC));
}

/* ---- faults ---- */

static void next_step(usec_t least, usec_t most)
{
	roles.step++;
	actor_at(&roles.actor, loop_now() + chance_spread(least, most));
}

static void plot_ends(void)
{
	roles.step = 0;
	actor_at(&roles.actor, loop_now() + chance_spread(USEC / 10, chance_one_in(3) ? 120 * USEC : 10 * USEC));
}

static void switchover(void)
{
	switch (roles.step) {
	case 0:
		sim_counts.switchovers++;
		set_state(roles.old, MEMBER_SHUTS_DOWN);
		backends_terminate(roles.old, false);
		next_step(1, 2 * USEC);
		return;
	case 1:
		set_state(roles.old, MEMBER_DOWN);
		next_step(1, 3 * USEC);
		return;
	case 2:
		promote(roles.new);
		next_step(1, 20 * USEC);
		return;
	default:
		come_as_standby(roles.old);
		plot_ends();
	}
}

static void crash(void)
{
	switch (roles.step) {
	case 0:
		sim_counts.crashes++;
		set_state(roles.old, MEMBER_DOWN);
		next_step(1, 20 * USEC);
		return;
	case 1:
		if (chance_one_in(4)) {
			/* the same primary again */
			begin_era(&roles.members[roles.old]);
			set_state(roles.old, MEMBER_UP);
			plot_ends();
			return;
		}
		promote(roles.new);
		next_step(1, 30 * USEC);
		return;
	default:
		come_as_standby(roles.old);
		plot_ends();
	}
}

/* The old primary is in recovery with its own WAL, perhaps with the number of the new timeline, and before or beyond the position of the new one. */
static void come_diverged(int host)
{
	struct member *m = &roles.members[host];
	int64_t distance = chance_spread(0, 20 * USEC) - 10 * USEC;

	come_as_standby(host);
	catch_up(host);
	m->timeline = chance_one_in(2) ? roles.timeline : m->timeline;
	m->diverged_at = (uint64_t)(loop_now() + distance) * POSITION_UNIT + 8;
	sim_counts.divergences++;
	SIM_TRACE("host %d has diverged, timeline %u, by %.6f s", host, m->timeline, (double)distance / USEC);
}

static void partition(void)
{
	switch (roles.step) {
	case 0:
		sim_counts.partitions++;
		set_state(roles.old, MEMBER_SILENT);
		next_step(1, 10 * USEC);
		return;
	case 1:
		if (chance_one_in(4)) {
			set_state(roles.old, MEMBER_UP);
			plot_ends();
			return;
		}
		promote(roles.new);
		next_step(1, 20 * USEC);
		return;
	case 2:
		/* a primary of the past */
		set_state(roles.old, MEMBER_UP);
		next_step(1, 30 * USEC);
		return;
	case 3:
		set_state(roles.old, MEMBER_DOWN);
		next_step(1, 5 * USEC);
		return;
	case 4:
		if (chance_one_in(2)) {
			come_diverged(roles.old);
			next_step(1, 30 * USEC);
			return;
		}
		come_as_standby(roles.old);
		plot_ends();
		return;
	default:
		set_state(roles.old, MEMBER_DOWN);
		come_as_standby(roles.old);
		plot_ends();
	}
}

/* A standby goes away; or, another cluster takes its place for a while. */
static void standby(bool is_foreign)
{
	struct member *m = &roles.members[roles.new];

	switch (roles.step) {
	case 0:
		set_state(roles.new, MEMBER_DOWN);
		next_step(1, 30 * USEC);
		return;
	case 1:
		come_as_standby(roles.new);
		if (!is_foreign || plan.role_hosts < 3) {
			plot_ends();
			return;
		}
		SIM_TRACE("host %d is of another cluster", roles.new);
		m->is_standby = false;
		m->is_foreign = true;
		m->timeline = OTHER_TIMELINE;
		next_step(1, 30 * USEC);
		return;
	default:
		set_state(roles.new, MEMBER_DOWN);
		come_as_standby(roles.new);
		plot_ends();
	}
}

/*
 * A standby answers nothing for a time. Its connections stay, it replays nothing meanwhile, and
 * answers later. A hang without a read in flight would judge
 * little, so the next standby that executes a read of a READ ONLY transaction hangs before it
 * answers; if none does, the drawn one hangs. Most hangs are longer than the time after which
 * pgweir takes reads back. (chance_spread() from a microsecond on rarely draws seconds.)
 */
static void hang(void)
{
	switch (roles.step) {
	case 0:
		next_step(1 + chance_below(30 * USEC), 30 * USEC);
		return;
	case 1:
		sim_counts.hangs++;
		sim_counts.hung_answers += backends_that_answer(roles.new);
		if (roles.members[roles.new].frozen_at == 0)
			lag(roles.new, loop_now());
		set_state(roles.new, MEMBER_SILENT);
		next_step(chance_one_in(3) ? 1 : 2 * USEC + chance_below(20 * USEC), 60 * USEC);
		return;
	default:
		set_state(roles.new, MEMBER_UP);
		plot_ends();
	}
}

static void hang_within_read(int host)
{
	if (roles.plot != PLOT_HANG || roles.step != 1 || sim_is_calm)
		return;
	SIM_TRACE("standby %d hangs within a read", host);
	roles.new = host;
	actor_rest(&roles.actor);
	hang();
}

static void refusal(bool *what, bool ends_sessions)
{
	*what = roles.step == 0;
	if (!*what) {
		plot_ends();
		return;
	}
	if (ends_sessions)
		backends_terminate(roles.old, true);
	next_step(1, 20 * USEC);
}

/* Some standbys begin to lag, others catch up. */
static void change_lags(void)
{
	for (int i = 0; i < plan.role_hosts && !plan.only_switchovers; i++) {
		if (roles.members[i].frozen_at > 0 && chance_one_in(2))
			catch_up(i);
		else if (roles.members[i].frozen_at == 0 && roles.members[i].is_standby && chance_one_in(3))
			lag(i, loop_now());
	}
}

static void act(struct actor *actor)
{
	(void)actor;
	if (sim_is_calm)
		return;
	if (roles.step == 0) {
		change_lags();
		roles.plot = plan.only_switchovers ? PLOT_SWITCHOVER : (enum plot)chance_below(PLOTS);
		if (!plan.only_switchovers && plan_splits_reads(0) && chance_one_in(3))
			roles.plot = PLOT_HANG;
		for (int i = 0; i < plan.role_hosts; i++)
			roles.old = roles.members[i].is_standby ? roles.old : i;
		roles.new = (roles.old + 1 + (int)chance_below((uint32_t)plan.role_hosts - 1)) % plan.role_hosts;
		SIM_TRACE("plot %d, primary %d, standby %d", (int)roles.plot, roles.old, roles.new);
	}
	switch (roles.plot) {
	case PLOT_SWITCHOVER:
		switchover();
		return;
	case PLOT_CRASH:
		crash();
		return;
	case PLOT_PARTITION:
		partition();
		return;
	case PLOT_STANDBY:
	case PLOT_FOREIGN:
		standby(roles.plot == PLOT_FOREIGN);
		return;
	case PLOT_HANG:
		hang();
		return;
	case PLOT_REFUSAL:
		refusal(&roles.members[roles.old].is_full, true);
		return;
	default:
		refusal(&roles.members[roles.old].talks_nonsense, false);
	}
}

/* ---- answers to the watcher ---- */

/* pgweir has read the answer of this host. */
static void learn(int host)
{
	struct member *m = &roles.members[host];

	m->is_known = true;
	m->was_known |= !m->is_foreign;
	if (m->is_standby || m->is_foreign || m->timeline < roles.highest.timeline)
		return;
	roles.highest.timeline = m->timeline;
	roles.highest.host = host;
	roles.highest.at = loop_now();
}

static const char *const columns[] = { "pg_is_in_recovery:text", "case:text", "case:text", "current_setting:text", "system_identifier:text",
	"pid:text", "int8:text" };

static void say_nonsense(struct backend *b)
{
	static char huge[3000];
	const char *cells[COLUMNS + 1] = { "t", "0/1", "000000010000000000000001", "off", SYSTEM, NULL, NULL, "?" };
	size_t count = COLUMNS;

	memset(huge, 'f', sizeof(huge) - 1);
	cells[0] = chance_one_in(2) ? "t" : "f";
	switch (chance_below(6)) {
	case 0:
		backend_error(b, "55000", 0, 0);
		return;
	case 1:
		pg_build_string(&b->out, 'C', "SELECT 0");
		return;
	case 2:
		count = chance_below(COLUMNS) + (chance_one_in(5) ? 2 : 0);
		count = count == COLUMNS ? COLUMNS + 1 : count;
		break;
	case 3:
		cells[0] = chance_one_in(2) ? NULL : "maybe";
		break;
	case 4:
		cells[1 + chance_below(4)] = huge;
		break;
	default:
		cells[1 + chance_below(2)] = "/";
	}
	pg_build_data_row(&b->out, cells, count);
	pg_build_string(&b->out, 'C', "SELECT 1");
}

/* When the server of the host has started. Returns buf. */
static const char *started_at(const struct member *m, char buf[24])
{
	snprintf(buf, 24, "%u", 1000000 + 1000 * (unsigned)(m - roles.members) + m->starts);
	return buf;
}

void roles_answer_identity(struct backend *b)
{
	char started[24];
	const char *cells[] = { started_at(&roles.members[b->host], started) };

	pg_build_data_row(&b->out, cells, 1);
	pg_build_string(&b->out, 'C', "SELECT 1");
}

void roles_answer(struct backend *b, bool is_short)
{
	struct member *m = &roles.members[b->host];
	char position[40], file[32], number[24], started[24];
	/* a server that has diverged has a new one each time */
	const char *receiver = !m->is_standby || !has_primary() ? NULL : m->diverged_at == 0 ? "77" : chance_one_in(20) ? number : NULL;
	const char *cells[COLUMNS] = { m->is_standby ? "t" : "f", position, file, "off", m->is_foreign ? OTHER_SYSTEM : SYSTEM, receiver,
		started_at(m, started) };
	uint64_t at = m->diverged_at > 0 ? m->diverged_at : (uint64_t)replayed(m) * POSITION_UNIT;

	snprintf(number, sizeof(number), "%u", (unsigned)sim_counts.role_questions++);
	if (b->has_answered && b->answered_sanely && b->answered_in == m->era)
		learn(b->host);
	b->watches = b->has_answered = true;
	b->answered_in = m->era;
	b->answered_sanely = !is_short && !(m->talks_nonsense && chance_one_in(2));
	if (!b->answered_sanely && !is_short) {
		say_nonsense(b);
		return;
	}
	if (m->is_standby && m->diverged_at == 0 && replayed(m) >= roles.promoted_at)
		m->timeline = roles.timeline;
	snprintf(position, sizeof(position), "%X/%X", (unsigned)(at >> 32), (unsigned)at);
	if (m->is_standby)
		snprintf(file, sizeof(file), "%u", m->timeline);
	else
		snprintf(file, sizeof(file), "%08X%08X%08X", m->timeline, (unsigned)(at >> 32), 1u);
	if (is_short)
		cells[1] = cells[2] = cells[4] = cells[5] = cells[6] = NULL;
	pg_build_row_description(&b->out, columns, COLUMNS);
	pg_build_data_row(&b->out, cells, COLUMNS);
	pg_build_string(&b->out, 'C', "SELECT 1");
}

/* ---- rules ---- */

static const struct server *server_at_backend(const struct backend *b)
{
	LIST_EACH(node, &roles.world->peers.servers) {
		const struct server *s = LIST_OBJECT(node, struct server, peer.node);

		if (s->backend_pid == b->pid)
			return s;
	}
	return NULL;
}

void roles_judge_sent(struct backend *b, const uint8_t *data, size_t size)
{
	const struct server *s = server_at_backend(b);
	const struct member *m = &roles.members[b->host];
	struct pool_client *client = s ? s->pooled.link : NULL;
	const struct roles *known = s ? s->pooled.pool->database->roles : NULL;
	int known_hosts = 0;

	(void)data;
	(void)size;
	if (!client || client->is_internal || !known)
		return;
	for (int i = 0; i < plan.role_hosts; i++)
		known_hosts += roles.members[i].was_known && i != b->host;
	SIM_CHECK(!m->is_foreign || !m->is_known || known_hosts < 2 || client->target == TARGET_ANY,
		  "server %u of another cluster is sent a request", b->pid);
	/* a transaction that has begun on it while there was nothing to compare it with goes on */
	if (!known->primary || known->primary->evidence.position_at == 0)
		b->free_since = client->since;
	SIM_CHECK(m->diverged_at == 0 || client->target == TARGET_ANY ||
		  b->free_since == client->since,
		  "server %u of a host that does not follow the primary is sent a request", b->pid);
	/* a transaction on a standby stays there, and while its role is unknown, its end counts as
	   that of a write: roles_judge_executed() judges its requests */
	if ((client->target != TARGET_PRIMARY && client->target != TARGET_READ_WRITE) ||
	    request_step_in(client_of(client), REQUEST_IN(MAY_WRITE)))
		return;
	SIM_CHECK(!m->is_standby, "server %u of a standby is sent a request for the primary", b->pid);
	SIM_CHECK(!known->primary || known->primary == s->pooled.host, "server %u is sent a request, and the primary is %s", b->pid,
		  known->primary->key);
	SIM_CHECK(m->timeline >= roles.highest.timeline || loop_now() - roles.highest.at > PAST_LONG,
		  "server %u with timeline %u is sent a request, and the timeline %u of host %d is known since %.3f s", b->pid, m->timeline,
		  roles.highest.timeline, roles.highest.host, (double)(loop_now() - roles.highest.at) / USEC);
}

static uint64_t *place_of(uint64_t key)
{
	size_t at = (size_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> 20) & (roles.done_size - 1);

	while (roles.done[at] && roles.done[at] != key)
		at = (at + 1) & (roles.done_size - 1);
	return &roles.done[at];
}

static void make_room(void)
{
	uint64_t *old = roles.done;
	size_t size = roles.done_size;

	if (roles.done_count * 2 < size)
		return;
	roles.done_size = size ? 2 * size : 1024;
	roles.done = mem_must(roles.done_size * sizeof(*roles.done));
	for (size_t i = 0; i < size; i++)
		if (old[i])
			*place_of(old[i]) = old[i];
	mem_free(old);
}

/* Clients of this database may get another server after each transaction. */
static bool are_moved(int database)
{
	return plan_target(database) && plan.modes[database] != PLAN_SESSION && !plan.modes_change;
}

void roles_judge_executed(struct backend *b, uint32_t client, uint32_t serial)
{
	uint64_t key = (uint64_t)client << 32 | serial, *place;
	const struct server *s = server_at_backend(b);
	const struct pool_client *linked = s ? s->pooled.link : NULL;
	const struct member *m = &roles.members[b->host];
	const struct sight *sight = client_sight(client);
	bool may_repeat = sight && sight_may_repeat(sight, serial);

	/* a query of pgweir's own, or a text that all clients share */
	if (serial == 0 || client == 0)
		return;
	/* a read that may be repeated, or was taken back from a server that has hung */
	if (m->is_standby && (may_repeat || !s))
		return;
	SIM_CHECK(!m->is_standby || !sight || sight->reads || !are_moved(atoi(b->database + 2)), "server %u of a standby executes request %u of client %u, which is no read",
		  b->pid, serial, client);
	SIM_CHECK(!linked || linked->target != TARGET_PRIMARY || !m->is_standby, "server %u of a standby executes request %u of client %u", b->pid, serial,
		  client);
	make_room();
	place = place_of(key);
	SIM_CHECK(*place == 0, "server %u executes request %u of client %u a second time", b->pid, serial, client);
	*place = key;
	roles.done_count++;
}

void roles_judge_read(const struct backend *b, uint32_t client, uint32_t serial)
{
	const struct member *m = &roles.members[b->host];
	int database = atoi(b->database + 2);
	usec_t sees = m->is_standby ? replayed(m) : loop_now();
	struct sight *sight = client_sight(client);

	if (sight && m->is_standby && server_at_backend(b)) {
		sim_counts.standby_reads += sight->reads;
		if (!sight->reads && sight_may_repeat(sight, serial)) {
			sim_counts.split_reads++;
			hang_within_read(b->host);
		}
	}
	/* a client that has left; a request that was taken back, which a host that has hung executes later; or a primary of the past */
	if (!sight || !server_at_backend(b) || !are_moved(database) || m->is_foreign ||
	    (!m->is_standby && m->timeline != roles.timeline))
		return;
	if (!sight->reads && !sight_may_repeat(sight, serial)) {
		sight->executed_at = loop_now();
		return;
	}
	sim_counts.stale_looks += m->frozen_at > 0;
	SIM_CHECK(sees >= sight->seen, "server %u shows client %u data of %.6f, and it has seen or written data of %.6f", b->pid, client, (double)sees / USEC,
		  (double)sight->seen / USEC);
	SIM_CHECK(sees >= sight->must_see, "server %u shows client %u data of %.6f, and others were told of %.6f", b->pid, client, (double)sees / USEC,
		  (double)sight->must_see / USEC);
	sight->sees = sees;
}

void roles_note_told(struct sight *sight, int database)
{
	if (sight->sees > sight->seen)
		sight->seen = sight->sees;
	/* a client reads its own writes */
	if (sight->executed_at > sight->seen)
		sight->seen = sight->executed_at;
	if (sight->executed_at > roles.told_at[database])
		roles.told_at[database] = sight->executed_at;
	sight->executed_at = 0;
}

void roles_note_asks(struct sight *sight, int database)
{
	sight->must_see = plan_reads_all_writes() ? roles.told_at[database] : 0;
}

void roles_note_hit(struct backend *b)
{
	const struct server *s = server_at_backend(b);

	if (s && s->pooled.link && !s->pooled.link->is_internal)
		client_is_hit(client_of(s->pooled.link)->cancel_key.pid);
}

/* Whether there is one primary, which the watcher reaches. */
static bool is_well(void)
{
	int primaries = 0;

	for (int i = 0; i < plan.role_hosts; i++) {
		const struct member *m = &roles.members[i];

		if (!backends_are_well(i) || m->is_full || m->talks_nonsense || m->is_foreign || (!m->is_standby && m->state != MEMBER_UP))
			return false;
		primaries += !m->is_standby;
	}
	return primaries == 1 && !roles.world->pools->suspended;
}

/*
 * While there is a primary, pgweir takes a read back from a standby that hangs, unless the client has a
 * byte of the answer, or a part of the request has not arrived or is too large to be kept.
 */
static void judge_hung_reads(void)
{
	usec_t most = HANG_PATIENCE + 20 * plan.slowness + 6 * plan.lateness;
	bool is_judged = roles.well_since > 0 && loop_now() - roles.well_since >= most &&
			 plan_has_check_user();

	LIST_EACH(node, &roles.world->peers.servers) {
		const struct server *s = LIST_OBJECT(node, struct server, peer.node);
		const struct roles *known = s->pooled.pool ? s->pooled.pool->database->roles : NULL;
		const struct client *c = s->pooled.link && !s->pooled.link->is_internal ? client_of(s->pooled.link) : NULL;
		const struct backend *b = c ? backend_of(s->backend_pid) : NULL;
		struct member *m = b ? &roles.members[b->host] : NULL;

		if (!m || m->state != MEMBER_SILENT || !m->is_standby)
			continue;
		if (!m->has_met && client_waits_for_read(c->cancel_key.pid)) {
			m->has_met = true;
			sim_counts.met_hangs++;
		}
		if (!is_judged || loop_now() - m->silent_since < most ||
		    loop_now() - c->pooled.since < most || !known || !known->primary ||
		    loop_now() - known->changed_at < most)
			continue;
		SIM_CHECK(!client_waits_for_read(c->cancel_key.pid) || c->half_sent || c->peer.passing > 0 || request_is_cut(c->request) || c->request->repeat == REPEAT_BOUND,
			  "a client still waits for its read at server %u, which has been silent for %.3f s", s->backend_pid,
			  (double)(loop_now() - m->silent_since) / USEC);
	}
}

void roles_judge_turn(void)
{
	const struct pools *pools = roles.world->pools;
	usec_t most = PATIENCE + 20 * plan.slowness + 6 * plan.lateness;

	if (!is_well())
		roles.well_since = 0;
	else if (roles.well_since == 0)
		roles.well_since = loop_now();
	judge_hung_reads();
	if (roles.well_since == 0 || loop_now() - roles.well_since < most || !plan_has_check_user())
		return;
	LIST_EACH(node, &pools->all) {
		const struct pool *pool = LIST_OBJECT(node, struct pool, node);

		const struct roles *known = pool->database->roles;

		/* the clients were in the queue of the last primary before */
		if (pool->host != pools->no_host || (known && loop_now() - known->changed_at < most))
			continue;
		for (int i = 0; i < 2; i++) {
			LIST_EACH(at, &pool->clients[i ? CLIENT_WAITING_LOGIN : CLIENT_WAITING])
				SIM_CHECK(loop_now() - LIST_OBJECT(at, struct pool_client, node)->since < most,
					  "a client of %s, with target %d%s, still waits for a host, %.3f s after there is one: %s", pool->database->name,
					  LIST_OBJECT(at, struct pool_client, node)->target,
					  LIST_OBJECT(at, struct pool_client, node)->is_held ? ", which is held" : "",
					  (double)(loop_now() - roles.well_since) / USEC, known ? known->why : "");
		}
	}
}

/* ---- all of it ---- */

void roles_sim_begin(struct world *world)
{
	memset(&roles, 0, sizeof(roles));
	roles.world = world;
	roles.timeline = 1 + chance_below(20);
	for (int i = 0; i < PLAN_HOSTS; i++)
		roles.members[i] = (struct member){ .is_standby = i > 0, .timeline = roles.timeline };
	actor_init(&roles.actor, act, 0);
	plot_ends();
}

void roles_sim_calm(void)
{
	int primary = -1;

	/* the newest one stays */
	for (int i = 0; i < plan.role_hosts; i++) {
		const struct member *m = &roles.members[i];

		if (!m->is_standby && !m->is_foreign && (primary < 0 || m->timeline > roles.members[primary].timeline))
			primary = i;
	}
	for (int i = 0; i < plan.role_hosts; i++) {
		struct member *m = &roles.members[i];

		m->is_full = m->talks_nonsense = false;
		catch_up(i);
		if (m->is_foreign || m->diverged_at > 0 || (!m->is_standby && i != primary)) {
			set_state(i, MEMBER_DOWN);
			come_as_standby(i);
		} else if (m->state == MEMBER_SHUTS_DOWN) {
			set_state(i, MEMBER_DOWN);
		}
		if (m->state != MEMBER_UP)
			set_state(i, MEMBER_UP);
	}
	actor_rest(&roles.actor);
}

void roles_sim_end(void)
{
	actor_rest(&roles.actor);
	mem_free(roles.done);
	roles.done = NULL;
}
