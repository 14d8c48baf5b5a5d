/*
 * The plan of a world, drawn from its seed: numbers, speeds, faults, and the configuration. Worlds are deliberately different: a world with every
 * fault at once would spend its time in timeouts.
 *
 * Invariant: the plan depends on the seed and on plan_limits only; a part that is left out is still drawn, so that the rest changes as little as
 * possible.
 */
#include "chance.h"
#include "neighbours.h"
#include "rules.h"
#include "sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ATTACK_LASTS_MOST (120 * USEC)	/* every failure shows within this time */

struct plan plan;
struct plan_limits plan_limits;

/* ---- the parts that a world may be without ---- */

static const struct { const char *name; size_t place; } parts[] = {
	{ "lookups", offsetof(struct plan, looks_up) },
	{ "lies", offsetof(struct plan, lies) },
	{ "changes", offsetof(struct plan, changes) },
	{ "streams", offsetof(struct plan, streams) },
	{ "portals", offsetof(struct plan, portals) },
	{ "calls", offsetof(struct plan, calls) },
	{ "versions", offsetof(struct plan, versions) },
	{ "modes", offsetof(struct plan, modes_change) },
	{ "rules", offsetof(struct plan, rules) },
	{ "neighbours", offsetof(struct plan, neighbours) },
	{ "names", offsetof(struct plan, prepares) },
	{ "server-faults", offsetof(struct plan, faulty_servers) },
	{ "client-faults", offsetof(struct plan, faulty_clients) },
	{ "network-faults", offsetof(struct plan, faulty_network) },
	{ "cancels", offsetof(struct plan, cancels) },
	{ "operator", offsetof(struct plan, operator) },
	{ "attackers", offsetof(struct plan, attackers_come) },
	{ "roles", offsetof(struct plan, has_roles) },
};

#define PARTS ((int)(sizeof(parts) / sizeof(parts[0])))

static bool *part_of(int part)
{
	return (bool *)((char *)&plan + parts[part].place);
}

const char *plan_part_name(int part)
{
	return part < PARTS ? parts[part].name : NULL;
}

bool plan_has_part(int part)
{
	return *part_of(part);
}

bool plan_leave_out(const char *name)
{
	for (int i = 0; i < PARTS; i++) {
		if (strcmp(parts[i].name, name) != 0)
			continue;
		plan_limits.without |= 1u << i;
		return true;
	}
	return false;
}

void plan_say_options(FILE *to, uint64_t seed, usec_t length)
{
	const char *between = " --without ";

	fprintf(to, "sim --seed %llu --seconds %lld", (unsigned long long)seed, (long long)(length / USEC));
	if (plan_limits.clients > 0)
		fprintf(to, " --clients %d", plan_limits.clients);
	for (int i = 0; i < PARTS; i++) {
		if (!(plan_limits.without & 1u << i))
			continue;
		fprintf(to, "%s%s", between, parts[i].name);
		between = ",";
	}
	if (plan_limits.salt > 0)
		fprintf(to, " --salt %llu", (unsigned long long)plan_limits.salt);
	fprintf(to, " --trace\n");
}

static void leave_out(void)
{
	for (int i = 0; i < PARTS; i++)
		if (plan_limits.without & 1u << i)
			*part_of(i) = false;
	if (plan_limits.clients > 0 && plan.clients > plan_limits.clients)
		plan.clients = plan_limits.clients;
}

/* ---- drawing ---- */

/*
 * Draws how a server authenticates this user, so that the pooler has a matching secret: a password works with every method, MD5 hashes and SCRAM keys
 * with their own method only, and the keys are known only after the user has logged in with SCRAM.
 */
static enum proof draw_server_question(int user)
{
	static const enum proof all[] = { PROOF_NONE, PROOF_PLAIN, PROOF_MD5, PROOF_SCRAM, PROOF_SCRAM };
	bool is_known = plan.is_listed[user] || (plan.auth != PROOF_NONE && !plan.rules);

	if (!is_known)
		return PROOF_NONE;
	if (plan.stored[user] == PROOF_PLAIN)
		return CHANCE_OF(all);
	if (plan.stored[user] == PROOF_SCRAM && (plan.rules || (plan.auth != PROOF_MD5 && plan.auth != PROOF_SCRAM)))
		return PROOF_NONE;
	return chance_one_in(4) ? PROOF_NONE : plan.stored[user];
}

static void draw_users(void)
{
	static const enum proof kinds[] = { PROOF_NONE, PROOF_NONE, PROOF_PLAIN, PROOF_MD5, PROOF_SCRAM, PROOF_SCRAM };
	static const enum proof stored[] = { PROOF_PLAIN, PROOF_MD5, PROOF_SCRAM, PROOF_SCRAM };

	plan.auth = CHANCE_OF(kinds);
	if (plan.attack == ATTACK_VERIFIERS)
		plan.auth = PROOF_PLAIN;
	plan.iterations = chance_one_in(50) ? 4096 : 1 + chance_below(2);
	for (int i = 0; i < PLAN_USERS; i++) {
		/* the first one looks others up, and is the forced user of servers: it has to be able to log in at once */
		plan.is_listed[i] = chance_one_in(4) || i == 0 || !plan.looks_up;
		plan.stored[i] = i == 0 ? PROOF_PLAIN : CHANCE_OF(stored);
		if (plan.auth == PROOF_SCRAM && plan.stored[i] == PROOF_MD5)
			plan.stored[i] = PROOF_PLAIN;
		plan.server_asks[i] = draw_server_question(i);
		/* a watcher does not send it */
		if (plan.has_roles && plan.server_asks[i] == PROOF_PLAIN)
			plan.server_asks[i] = PROOF_SCRAM;
	}
}

static void draw_databases(void)
{
	plan.asks_one = chance_one_in(3);
	for (int i = 0; i < plan.databases; i++) {
		plan.modes[i] = chance_one_in(4) ? PLAN_SESSION : chance_one_in(6) ? PLAN_STATEMENT : PLAN_TRANSACTION;
		plan.forced_user[i] = chance_one_in(4);
		plan.cluster[i] = plan.asks_one ? 0 : i == 0 || chance_one_in(2) ? i : plan.cluster[chance_below((uint32_t)i)];
	}
}

/* One world in eight has attackers, and none of the faults that make clients wait for other reasons. */
static void draw_attack(uint64_t seed)
{
	static const int places[] = { 20, 30, 60 };

	if (!plan.attackers_come)
		return;
	plan.attack = (enum attack)(1 + seed / 8 % (ATTACKS - 1));
	plan.attack_addresses = 1 + (int)chance_below(3);
	plan.places = CHANCE_OF(places);
	plan.attackers = plan.places + (int)chance_spread(4, plan.places / 2);
	plan.login_timeout = (5 + (usec_t)chance_below(20)) * USEC;
	plan.looks_up = true;
	plan.faulty_servers = plan.faulty_clients = plan.operator = plan.lies = plan.modes_change = plan.rules = false;
	if (plan.clients > 20)
		plan.clients = 20;
	if (plan.length > ATTACK_LASTS_MOST)
		plan.length = ATTACK_LASTS_MOST;
}

/*
 * One world in four has roles. In one of four of these, planned switchovers are the only fault, so that each error of a client in between is a fault
 * of pgweir.
 */
static void draw_roles(uint64_t seed)
{
	if (!plan.has_roles)
		return;
	plan.role_hosts = 2 + (int)(seed / 16 % 2);
	/* a watcher that gets no answer for long begins again */
	if (plan.slowness > USEC / 20)
		plan.slowness = USEC / 20;
	plan.only_switchovers = seed / 4 % 4 == 0;
	if (!plan.only_switchovers)
		return;
	plan.faulty_servers = plan.operator = plan.looks_up = plan.lies = plan.changes = plan.rules = plan.modes_change = plan.streams = false;
}

void plan_draw(uint64_t seed, usec_t length)
{
	/* of clients between two jobs; where they have time the world lasts longer, so that each costs about as much to play */
	static const struct { usec_t most; int64_t minutes; } paces[] = {
		{ USEC / 100, 2 }, { USEC, 15 }, { 10 * USEC, 60 }, { 60 * USEC, 200 }, { 300 * USEC, 800 },
	};
	uint32_t pace;
	int64_t drawn;
	static const usec_t slownesses[] = { 0, 500, 5000, 50000, USEC };
	static const usec_t latenesses[] = { 0, 0, USEC / 2, 5 * USEC };
	struct plan before = plan;

	chance_seed(seed);
	pace = chance_below(sizeof(paces) / sizeof(paces[0]));
	plan = (struct plan){
		.seed = seed, .length = length, .databases = 1 + (int)chance_below(PLAN_DATABASES),
		.users = 1 + (int)chance_below(PLAN_USERS), .hosts = PLAN_HOSTS, .clients = (int)chance_spread(2, 60),
		.prepares = !chance_one_in(4),
		.faulty_servers = !chance_one_in(3), .faulty_clients = !chance_one_in(3), .faulty_network = !chance_one_in(5),
		.cancels = !chance_one_in(3), .operator = !chance_one_in(3), .pause_most = paces[pace].most,
		.slowness = CHANCE_OF(slownesses), .lateness = CHANCE_OF(latenesses),
		.looks_up = chance_one_in(2), .lies = chance_one_in(3), .changes = chance_one_in(2), .streams = chance_one_in(3),
		.portals = chance_one_in(2), .calls = chance_one_in(2), .versions = chance_one_in(2),
		.rules = chance_one_in(4), .neighbours = chance_one_in(4), .modes_change = chance_one_in(3),
		.attackers_come = seed % 8 == 0, .has_roles = seed % 4 == 1,
	};
	memcpy(plan.conf_path, before.conf_path, sizeof(plan.conf_path));
	memcpy(plan.users_path, before.users_path, sizeof(plan.users_path));
	memcpy(plan.rules_path, before.rules_path, sizeof(plan.rules_path));
	drawn = chance_spread(1, paces[pace].minutes);
	if (length == 0)
		plan.length = drawn * 60 * USEC;
	leave_out();
	draw_attack(seed);
	draw_roles(seed);
	draw_databases();
	draw_users();
	if (plan_limits.salt > 0)
		chance_seed(seed ^ plan_limits.salt << 40);
}

/* ---- the configuration ---- */

/* "name = value" for a number of seconds, mostly none. */
static void limit(FILE *f, const char *name, uint32_t one_in, int64_t least, int64_t most)
{
	if (chance_one_in(one_in))
		fprintf(f, "%s = %lld\n", name, (long long)chance_spread(least, most));
}

/* To or from session mode. If prepared statements work in session mode only, clients would have to forget their statements. */
static void change_modes(void)
{
	for (int i = 0; plan.modes_change && plan.prepares && i < plan.databases; i++)
		if (plan.modes[i] != PLAN_STATEMENT && chance_one_in(3))
			plan.modes[i] = plan.modes[i] == PLAN_SESSION ? PLAN_TRANSACTION : PLAN_SESSION;
}

static void write_databases(FILE *f)
{
	static const char *const modes[] = { "session", "transaction", "statement" };
	static const char *const where[] = { "10.0.0.1", "10.0.0.2,10.0.0.1", "10.0.0.3,10.0.0.1,10.0.0.2", "host1", "host0,host2" };

	static const char *const role_hosts[2][2] = { { "10.0.0.1,10.0.0.2", "host0,host1" }, { "10.0.0.1,10.0.0.2,10.0.0.3", "host0,host1,host2" } };

	fprintf(f, "[databases]\n");
	for (int i = 0; i < plan.databases; i++) {
		/* mostly the same after a RELOAD */
		fprintf(f, "d%d = host=%s dbname=db%d pool_mode=%s pool_size=%lld", i,
			plan_target(i) ? role_hosts[plan.role_hosts - 2][plan.seed / 32 % 2] :
			where[(plan.seed + (uint64_t)i + chance_one_in(5)) % (sizeof(where) / sizeof(where[0]))], i, modes[plan.modes[i]],
			(long long)chance_spread(1, 10));
		if (plan_target(i))
			fprintf(f, " target_session_attrs=%s", plan_target(i) == PLAN_PREFER_STANDBY ? "prefer-standby" : i == 0 ? "primary" : "read-write");
		if (plan_splits_reads(i))
			fprintf(f, " reads=transaction reads_on_primary=off");
		if (plan.forced_user[i])
			fprintf(f, " user=u0 password=password0");
		if (chance_one_in(5))
			fprintf(f, " reserve_pool_size=%u", 1 + chance_below(4));
		if (chance_one_in(5))
			fprintf(f, " min_pool_size=%u", 1 + chance_below(4));
		if (chance_one_in(5))
			fprintf(f, " max_db_connections=%u", 1 + chance_below(6));
		if (chance_one_in(10))
			fprintf(f, " max_db_client_connections=%u", 1 + chance_below(20));
		if (chance_one_in(10))
			fprintf(f, " connect_query='select 1'");
		if (chance_one_in(10))
			fprintf(f, " load_balance_hosts=disable");
		if (plan.looks_up && !plan.asks_one && (plan.cluster[i] != i || chance_one_in(2)))
			fprintf(f, " auth_dbname=d%d", plan.cluster[i]);
		if (plan.versions && chance_one_in(3))
			fprintf(f, " max_protocol_version=%s", chance_one_in(2) ? "3.2" : "latest");
		fprintf(f, "\n");
	}
	if (plan.attack)
		attack_write_databases(f);
	fprintf(f, "[users]\n");
	/* the first one looks others up */
	for (int i = plan.attack ? 1 : 0; i < plan.users && !plan.only_switchovers; i++) {
		if (chance_one_in(6))
			fprintf(f, "u%d = max_user_connections=%u\n", i, 1 + chance_below(5));
		else if (chance_one_in(6))
			fprintf(f, "u%d = query_timeout=%u idle_transaction_timeout=%u\n", i, 1 + chance_below(100), 1 + chance_below(100));
	}
}

static void write_limits(FILE *f)
{
	limit(f, "login_failure_delay", 2, 0, 10);
	limit(f, "query_timeout", 4, 1, 100);
	limit(f, "idle_transaction_timeout", 4, 1, 100);
	limit(f, "transaction_timeout", 6, 1, 100);
	limit(f, "client_idle_timeout", 6, 1, 1000);
	/* where there is none, a login that is never continued is seen */
	if (chance_one_in(2))
		fprintf(f, "client_login_timeout = 0\n");
	else
		limit(f, "client_login_timeout", 2, 1, 60);
	limit(f, "server_idle_timeout", 2, 0, 600);
	limit(f, "server_lifetime", 3, 0, 600);
	limit(f, "server_connect_timeout", 2, 1, 15);
	limit(f, "server_login_retry", 2, 0, 15);
	limit(f, "server_check_delay", 2, 0, 30);
	limit(f, "reserve_pool_timeout", 2, 0, 10);
	limit(f, "query_wait_notify", 3, 0, 10);
	limit(f, "cancel_wait_timeout", 2, 1, 10);
	limit(f, "suspend_timeout", 2, 1, 10);
	limit(f, "pool_idle_timeout", 3, 1, 600);
	limit(f, "autodb_idle_timeout", 3, 1, 600);
	limit(f, "sbuf_loopcnt", 3, 0, 6);
	limit(f, "min_pool_size", 8, 1, 3);
	limit(f, "max_db_connections", 8, 1, 8);
	if (!plan.attack)
		limit(f, "max_host_connections", 4, 1, 12);
	limit(f, "server_round_robin", 3, 1, 1);
	limit(f, "server_reset_query_always", 5, 1, 1);
	limit(f, "server_fast_close", 4, 1, 1);
	limit(f, "show_extra_columns", 3, 1, 1);
	limit(f, "stats_period", 3, 1, 60);
}

void plan_write_conf(void)
{
	static const char *const methods[] = {
		[PROOF_NONE] = "trust", [PROOF_PLAIN] = "plain", [PROOF_MD5] = "md5", [PROOF_SCRAM] = "scram-sha-256",
	};
	FILE *f = fopen(plan.conf_path, "w");
	int64_t wait;

	SIM_CHECK(f, "cannot write %s", plan.conf_path);
	change_modes();
	write_databases(f);
	wait = chance_one_in(4) ? 0 : chance_spread(1, 300);
	fprintf(f, "[pgweir]\nsession_state = off\nlisten_addr = 127.0.0.1\nlisten_port = 6432\nunix_socket_dir =\nadmin_users = admin\n"
		"auth_type = %s\nauth_file = %s\nlog_stats = 0\nlog_connections = 0\nlog_disconnections = 0\nlog_pooler_errors = 0\n"
		"server_tls_sslmode = %s\nmax_client_conn = %u\nquery_wait_timeout = %lld\nmax_prepared_statements = %lld\n"
		"scram_iterations = %u\n",
		plan.rules ? "hba" : methods[plan.auth], plan.users_path, plan.seed % 6 == 0 ? "prefer" : "disable",
		chance_one_in(6) && !plan.attack ? 5 : 1000, plan.attack || plan.only_switchovers ? 0 : (long long)wait,
		plan.prepares ? (long long)chance_spread(1, 200) : 0, plan.iterations);
	if (plan.looks_up)
		fprintf(f, "auth_user = u0\nauth_query = " PLAN_AUTH_QUERY "\n%s", plan.asks_one ? "auth_dbname = d0\n" : "");
	if (plan.versions)
		fprintf(f, "server_max_protocol_version = %s\n", chance_one_in(2) ? "3.0" : "3.2");
	if (plan.rules) {
		fprintf(f, "auth_hba_file = %s\n", plan.rules_path);
		rules_write(plan.rules_path);
	}
	if (plan.neighbours)
		fprintf(f, "peer_id = %d\n", NEIGHBOUR_OWN_ID);
	if (plan.has_roles)
		fprintf(f, "host_check_period = %s\nhost_check_user = %s\n", plan.seed / 64 % 2 ? "1" : "0.3", plan_has_check_user() ? "u0" : "");
	if (plan.has_roles && plan_reads_all_writes())
		fprintf(f, "read_your_writes = database\n");
	if (plan.attack)
		attack_write_settings(f);
	else if (!plan.only_switchovers)
		write_limits(f);
	/* it takes effect at the start only */
	fprintf(f, "pkt_buf = %d\n", plan.seed % 2 ? 256 : 4096);
	if (chance_one_in(3))
		fprintf(f, "server_check_query = select 1\n");
	if (chance_one_in(3))
		fprintf(f, "server_down = fail\n");
	if (plan.neighbours)
		fprintf(f, "[peers]\n%d = host=10.0.0.%d pool_size=%u\n", NEIGHBOUR_ID, NEIGHBOUR_ADDRESS, 1 + chance_below(3));
	SIM_CHECK(fclose(f) == 0, "cannot write %s", plan.conf_path);
}
