/*
 * Simulated worlds: the real pools, sessions, console and protocol of pgweir between fake clients, fake servers and an operator, on a machine with a
 * network in memory and a clock that advances only between events. All events follow from a seed.
 *
 * sim [--seed N] [--minutes M] [--trace]: one world of M simulated minutes (default: drawn from the seed)
 * sim --from N --worlds W | --total M [--limit S]: the worlds of seeds N, N + 1, ...: W worlds, or M minutes in all; stops after S seconds of real
 * time
 * sim --shrink N [--minutes M]: searches for a smaller world that fails as that with seed N does (shrink.c)
 *
 * --seconds S, --clients C, --without PART,PART, --salt X make a world smaller, or change its random events; the message of a failure lists them.
 *
 * One world in eight has attackers: unauthenticated clients, or a server of the attackers, consume resources that others need (attack.c). Clients of
 * other addresses must be served within a time that follows from the settings (witness.c).
 *
 * A world includes logins by password, MD5 and SCRAM on both sides, user look-ups (auth_query), queries of both protocols, prepared statements,
 * portals, COPY, function calls, replication, cancel requests (for this pooler and for peers), HBA rules, the console; it excludes TLS, PAM, LDAP,
 * and online restart.
 *
 * One world in four has roles: the hosts are a primary and standbys, with switchovers, crashes, partitions, standbys that hang and nonsense for the watcher (roles.c).
 *
 * After each turn every invariant of the pooler's world is checked (world_check). At the end of a world the faults stop, and every client finishes
 * its work and disconnects: no client may wait then, every server must be idle and clean, and every descriptor, event and byte of memory must be
 * freed. A failed world prints how to run it again, and aborts.
 *
 * The simulation has found each of these bugs, inserted by hand, in at most 80 s of one busy core, mostly in two: an answer sent to another client; a
 * server released one answer too early; a FunctionCall or PortalSuspended missing in the ledger; a waiting client that is not queued, or waits for a
 * limit and is not resumed; a login that waits for the look-up of another user, joins a running look-up, takes a row with another name, or is not
 * resumed when its look-up ends or is refused; a wrong MD5 or SCRAM proof that is accepted; a cached secret that is not renewed; the HBA method of
 * the previous login; a walsender returned to the pool; a cancel key of which a prefix is sufficient; a cancel request that is not forwarded towards
 * its pooler; an unanswered protocol version. With attackers: a login of an address with few logins displaced by an address with many, or no
 * displacement at all; a limit on look-ups of one address or database, or on their connections, that is not enforced; a verifier queue without
 * fairness between addresses; keys for servers derived in the loop.
 */
#include "sim.h"

#include "admin/caller.h"
#include "base/log.h"
#include "chance.h"
#include "main/turn.h"
#include "machine.h"
#include "neighbours.h"
#include "pool/host.h"
#include "roles.h"
#include "rules.h"
#include "shrink.h"

#include <openssl/rand.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define CALM_MOST (7200 * USEC)
#define FAREWELLS 64
#define WORLDS_ENOUGH 25

bool sim_traces, sim_is_calm;
struct sim_counts sim_counts;

static struct pooler pooler;
static long blocks;			/* of memory, that pgweir and the simulation have */
static uint64_t worlds_done, turns_before, seconds_done;
static struct { char text[64]; uint64_t count; } farewells[FAREWELLS];

/* ---- saying ---- */

void sim_trace(const char *format, ...)
{
	va_list args;

	printf("%14.6f ", (double)loop_now() / (double)USEC);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf("\n");
}

static void say_how_to_replay(void)
{
	fprintf(stderr, "sim: seed %llu failed at %.6f s; play it again with: ", (unsigned long long)plan.seed,
		(double)loop_now() / (double)USEC);
	plan_say_options(stderr, plan.seed, plan.length);
}

void sim_failed(const char *file, int line, const char *format, ...)
{
	va_list args;

	fprintf(stderr, "sim: %s:%d: ", file, line);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fprintf(stderr, "\n");
	abort();
}

static void say_state(void);
static void say_result(void);

static void on_abort(int signum)
{
	/* the previous results */
	if (worlds_done > 0)
		say_result();
	fflush(stdout);
	if (pooler.world && sim_is_calm)
		say_state();
	say_how_to_replay();
	signal(signum, SIG_DFL);
	raise(signum);
}

void sim_note_final_error(const char *text)
{
	for (int i = 0; i < FAREWELLS; i++) {
		if (farewells[i].count > 0 && strncmp(farewells[i].text, text, sizeof(farewells[i].text) - 1) != 0)
			continue;
		if (farewells[i].count++ == 0)
			snprintf(farewells[i].text, sizeof(farewells[i].text), "%s", text);
		return;
	}
}

/* ---- other functions of the machine ---- */

int __wrap_RAND_bytes(unsigned char *buf, int num);
int __wrap_RAND_bytes(unsigned char *buf, int num)
{
	for (int i = 0; i < num; i++)
		buf[i] = (unsigned char)chance_draw();
	return 1;
}

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_malloc(size_t size)
{
	blocks++;
	return __real_malloc(size);
}

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size)
{
	blocks++;
	return __real_calloc(count, size);
}

void *__real_realloc(void *old, size_t size);
void *__wrap_realloc(void *old, size_t size);
void *__wrap_realloc(void *old, size_t size)
{
	if (!old)
		blocks++;
	return __real_realloc(old, size);
}

char *__real_strdup(const char *text);
char *__wrap_strdup(const char *text);
char *__wrap_strdup(const char *text)
{
	blocks++;
	return __real_strdup(text);
}

void __real_free(void *memory);
void __wrap_free(void *memory);
void __wrap_free(void *memory)
{
	if (memory)
		blocks--;
	__real_free(memory);
}

/* ---- goodbyes that no correct pooler says to correct clients and servers ---- */

static void judge_goodbye(const struct server *server, enum close_reason why, const char *detail)
{
	switch (why) {
	case REASON_SERVER_BROKEN:
	case REASON_IDLE_DIRTY:
	case REASON_SERVER_PARAMETER:
	case REASON_NO_MEMORY:
		SIM_CHECK(false, "goodbye: %s", close_reason_rows[why].text);
		return;
	case REASON_SERVER_LOGIN_BROKEN:
		if (plan.attack == ATTACK_SALTS && strcmp(server->pooled.pool->database->name, "attacked") == 0)
			return;
		/* the secret may have been changed since the pooler learned it */
		SIM_CHECK(truth_has_changed(), "goodbye: %s: %s", close_reason_rows[why].text, detail);
		return;
	default:
		return;
	}
}

void __real_server_end(struct server *server, enum close_reason why, const char *detail);
void __wrap_server_end(struct server *server, enum close_reason why, const char *detail);
void __wrap_server_end(struct server *server, enum close_reason why, const char *detail)
{
	SIM_TRACE("pooler ends server %u: %s (%s)", server->backend_pid, close_reason_rows[why].text, detail ? detail : "");
	judge_goodbye(server, why, detail);
	__real_server_end(server, why, detail);
}

void __real_server_end_leaving(struct server *server, enum close_reason why, bool client_dies);
void __wrap_server_end_leaving(struct server *server, enum close_reason why, bool client_dies);
void __wrap_server_end_leaving(struct server *server, enum close_reason why, bool client_dies)
{
	SIM_TRACE("pooler ends server %u, which its client leaves: %s", server->backend_pid,
		  close_reason_rows[why].text);
	sim_counts.recalls += why == REASON_READ_RECALLED;
	__real_server_end_leaving(server, why, client_dies);
}

/* ---- the pooler ---- */

static void say_problems(const struct conf_problems *problems)
{
	for (size_t i = 0; i < problems->count; i++)
		if (!problems->items[i].is_warning || sim_traces)
			fprintf(stderr, "sim: %s: %s\n", plan.conf_path, problems->items[i].text);
}

static struct conf *load(struct conf_problems *problems)
{
	struct conf *conf = conf_load(plan.conf_path, problems);

	if (conf && pooler.world)
		conf_keep_fixed(conf, pooler.world->conf, problems);
	say_problems(problems);
	SIM_CHECK(conf && problems->errors == 0, "the configuration has faults");
	SIM_CHECK(conf_read_rules(conf, pooler.world ? pooler.world->conf : NULL, !pooler.world, problems), "rules with faults");
	return conf;
}

static bool use(struct conf *conf, struct conf_problems *problems)
{
	bool ok = conf && world_reconfigure(pooler.world, conf, problems);

	if (conf)
		conf_drop(&conf);
	return ok;
}

static bool reload(void *context, struct conf_problems *problems)
{
	(void)context;
	plan_write_conf();
	return use(load(problems), problems);
}

static bool set(void *context, const char *name, const char *value, struct conf_problems *problems)
{
	(void)context;
	return use(conf_with(pooler.world->conf, name, value, problems), problems);
}

static void shut_down(void *context, enum world_drain how)
{
	(void)context;
	world_drain(pooler.world, how);
}

static void open_pooler(void)
{
	static const struct control control = { .reload = reload, .set = set, .shutdown = shut_down, .version = "simulated" };
	struct conf_problems problems = { .count = 0 };
	struct conf *conf;

	memset(&pooler, 0, sizeof(pooler));
	plan_write_conf();
	conf = load(&problems);
	pooler.base = sim_event_base();
	pooler.shared = shared_new();
	pooler.world = world_new(pooler.base, pooler.shared, conf, &problems);
	say_problems(&problems);
	SIM_CHECK(pooler.world, "no world");
	pooler.console = console_new(pooler.world, &control);
	SIM_CHECK(pooler.console && turn_begin(&pooler), "no console");
	SIM_CHECK(world_listen(pooler.world, NULL, 0, &problems), "nowhere to listen");
	conf_problems_free(&problems);
	conf_drop(&conf);
}

static void close_pooler(void)
{
	console_free(&pooler.console);
	world_end_sessions(pooler.world, REASON_POOLER_SHUTTING_DOWN, false);
	world_free(&pooler.world);
	shared_free(&pooler.shared);
	event_free(pooler.tick);
}

/* ---- a world ---- */

/* Above max_host_connections, after a RELOAD, a host only loses servers. */
static void check_hosts(void)
{
	static struct { char key[64]; int64_t servers; } known[16];
	int64_t limit = pooler.world->conf->settings.max_host_connections;

	for (const struct host *host = pooler.world->pools->hosts; host; host = host->hh.next) {
		size_t i = 0;

		while (*known[i].key && strcmp(known[i].key, host->key) != 0)
			SIM_CHECK(++i < sizeof(known) / sizeof(known[0]), "too many hosts");
		SIM_CHECK(limit == 0 || host->servers->used <= limit || host->servers->used <= known[i].servers,
			  "%lld servers at %s, max_host_connections is %lld", (long long)host->servers->used, host->key, (long long)limit);
		snprintf(known[i].key, sizeof(known[i].key), "%s", host->key);
		known[i].servers = host->servers->used;
	}
}

static bool step(void)
{
	bool goes_on = turn(&pooler);

	world_check(pooler.world);
	check_hosts();
	if (plan.has_roles)
		roles_judge_turn();
	return goes_on;
}

static void run_until(usec_t moment)
{
	while (loop_now() < moment)
		SIM_CHECK(step(), "the pooler has stopped by itself");
}

/* A server that min_pool_size has opened as a replacement: it logs in, or runs connect_query. */
static bool is_new(const struct server *s)
{
	return s->pooled.state == SERVER_LOGIN || (s->pooled.state == SERVER_TESTED && !s->pooled.lent);
}

static void check_servers(void)
{
	char why[200];

	LIST_EACH(node, &pooler.world->peers.servers) {
		const struct server *s = LIST_OBJECT(node, struct server, peer.node);
		bool rests = s->pooled.state == SERVER_IDLE || s->pooled.state == SERVER_USED;

		/* a watcher asks at any time */
		if (s->pooled.is_watcher)
			continue;
		SIM_CHECK(rests || is_new(s), "server %u is in state %d when nobody is there", s->backend_pid, (int)s->pooled.state);
		SIM_CHECK(is_new(s) || ledger_is_empty(&s->ledger), "server %u owes something to nobody", s->backend_pid);
	}
	SIM_CHECK(backends_are_at_rest(why, sizeof(why)), "%s", why);
}

/* Prints the pooler's state of each client and server, to find out why a world failed. */
static void say_state(void)
{
	static const char *const console_states[] = {
#define CONSOLE_STATE(id, name, moves) [CONSOLE_##id] = name,
#include "tbl/console_state.tbl"
#undef CONSOLE_STATE
	};

	LIST_EACH(node, &pooler.world->peers.clients) {
		const struct client *c = LIST_OBJECT(node, struct client, peer.node);

		fprintf(stderr, "C-0x%llx pid %u state %d, holds %zu, passing %u, blocked %x %s, unsent %zu, server %u\n", (unsigned long long)c->peer.id,
			c->cancel_key.pid, (int)c->pooled.state, bytes_size(&c->peer.held), c->peer.passing,
			c->peer.blocked,
			c->minds.refused_until ? "refusing" : c->console.is_connected ? console_states[c->console.state] : "",
			stream_unsent(&c->peer.stream),
			c->pooled.link ? server_of(c->pooled.link)->backend_pid : 0);
	}
	LIST_EACH(node, &pooler.world->peers.servers) {
		const struct server *s = LIST_OBJECT(node, struct server, peer.node);

		fprintf(stderr, "server %u state %d (%s) status %c, owes %zu%s, task %s, holds %zu, passing %u, blocked %x, unsent %zu, cancels %u\n",
			s->backend_pid, (int)s->pooled.state, s->pooled.pool->database->name, s->status, ledger_depth(&s->ledger),
			s->ledger.lost ? " (lost)" : "", s->task ? s->task->description : "none", bytes_size(&s->peer.held), s->peer.passing,
			s->peer.blocked,
			stream_unsent(&s->peer.stream), s->pooled.cancels);
	}
}

/* No more faults: everything that was begun comes to its end. */
static void calm_down(void)
{
	usec_t end = loop_now() + CALM_MOST;
	bool undone = false;
	char who[300] = "";

	SIM_TRACE("calm");
	sim_is_calm = true;
	wire_faults = (struct wire_faults){ 0, 0, 0 };
	backends_calm();
	if (plan.has_roles)
		roles_sim_calm();
	truth_calm();
	operator_calm();
	clients_calm();
	witnesses_calm();
	attack_calm();
	while (!undone || clients_present(who, sizeof(who)) + witnesses_present() > 0) {
		SIM_CHECK(loop_now() < end, "left waiting: %s", undone ? who : "the operator");
		SIM_CHECK(step(), "the pooler has stopped by itself");
		undone = undone || operator_is_done();
	}
	run_until(loop_now() + 60 * USEC);
	check_servers();
	LIST_EACH(node, &pooler.world->peers.clients)
		SIM_CHECK(false, "client C-0x%llx is still there", (unsigned long long)LIST_OBJECT(node, struct client, peer.node)->peer.id);
}

/* An operator ends it, or a signal. */
static void shut_it_down(void)
{
	static const char *const how[] = { "SHUTDOWN", "SHUTDOWN WAIT_FOR_SERVERS", "SHUTDOWN WAIT_FOR_CLIENTS" };
	usec_t end = loop_now() + CALM_MOST;

	if (chance_one_in(2))
		return;
	operator_say(CHANCE_OF(how));
	while (step())
		SIM_CHECK(loop_now() < end, "it does not shut down");
}

static void run_world(uint64_t seed, usec_t length)
{
	long blocks_before = blocks;
	static const uint32_t rarities[] = { 0, 0, 4, 16, 64 };

	plan_draw(seed, length);
	sim_is_calm = false;
	wire_faults = (struct wire_faults){ CHANCE_OF(rarities), CHANCE_OF(rarities), CHANCE_OF(rarities) };
	if (!plan.faulty_network)
		wire_faults = (struct wire_faults){ 0, 0, 0 };
	loop_begin(plan.lateness);
	truth_begin();
	rules_begin();
	neighbours_begin();
	processes_begin();
	backends_begin();
	open_pooler();
	clients_begin(plan.clients);
	witnesses_begin();
	attack_begin();
	operator_begin(pooler.world);
	if (plan.has_roles)
		roles_sim_begin(pooler.world);
	run_until(loop_now() + plan.length);
	calm_down();
	shut_it_down();
	close_pooler();
	clients_end();
	witnesses_end();
	attack_end();
	operator_end();
	truth_end();
	backends_end();
	if (plan.has_roles)
		roles_sim_end();
	neighbours_end();
	SIM_CHECK(wire_end(), "%d descriptors are left open", wire_open_ends());
	SIM_CHECK(loop_end(), "events are left");
	SIM_CHECK(rooms_are_empty(), "a listener or a request for a name is left");
	SIM_CHECK(processes_are_gone(), "a process that derives keys is left");
	SIM_CHECK(blocks == blocks_before || turns_before == 0, "%ld blocks of memory are left", blocks - blocks_before);
	turns_before += loop_turns();
	seconds_done += (uint64_t)(plan.length / USEC);
}

/* ---- the program ---- */

static double seconds_of_cpu(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (double)usage.ru_utime.tv_sec + (double)usage.ru_stime.tv_sec + (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static void say_result(void)
{
	const struct sim_counts *n = &sim_counts;

	printf("%llu worlds, %llu simulated minutes, %llu turns in %.1f s of CPU\n", (unsigned long long)worlds_done,
	       (unsigned long long)(seconds_done / 60), (unsigned long long)turns_before, seconds_of_cpu());
	printf("%llu logins, %llu refused, %llu connections ended by the pooler or a server; %llu queries, %llu answers judged, %llu COPY IN, "
	       "%llu uses of a named statement, %llu errors\n",
	       (unsigned long long)n->logins, (unsigned long long)n->refused, (unsigned long long)n->dropped, (unsigned long long)n->queries,
	       (unsigned long long)n->answers, (unsigned long long)n->copies, (unsigned long long)n->prepared, (unsigned long long)n->errors);
	printf("%llu server logins, %llu faults of servers, %llu of clients, %llu of the network, %llu cancel requests, %llu arrived, "
	       "%llu console commands, %llu RELOADs\n",
	       (unsigned long long)n->server_logins, (unsigned long long)n->server_faults, (unsigned long long)n->client_faults,
	       (unsigned long long)wire_faults_played, (unsigned long long)n->cancels, (unsigned long long)n->cancelled,
	       (unsigned long long)n->commands, (unsigned long long)n->reloads);
	printf("%llu look-ups, %llu proofs of clients, %llu streams of walsenders, %llu portals with names, %llu function calls, "
	       "%llu cancel requests handed on\n",
	       (unsigned long long)n->lookups, (unsigned long long)n->proofs, (unsigned long long)n->streams, (unsigned long long)n->portals,
	       (unsigned long long)n->calls, (unsigned long long)n->handed_on);
	if (n->role_questions > 0)
		printf("%llu questions for the role of a host, %llu switchovers, %llu crashes, "
		       "%llu partitions, %llu divergences, %llu lags\n"
		       "%llu standbys that hang, %llu in an answer, %llu with a read in flight, "
		       "%llu reads taken back; at standbys %llu reads of READ ONLY transactions, "
		       "%llu of clients that ask for standbys, %llu while the standby lags\n",
		       (unsigned long long)n->role_questions, (unsigned long long)n->switchovers,
		       (unsigned long long)n->crashes, (unsigned long long)n->partitions,
		       (unsigned long long)n->divergences, (unsigned long long)n->lags,
		       (unsigned long long)n->hangs, (unsigned long long)n->hung_answers,
		       (unsigned long long)n->met_hangs, (unsigned long long)n->recalls,
		       (unsigned long long)n->split_reads, (unsigned long long)n->standby_reads,
		       (unsigned long long)n->stale_looks);
	witnesses_say();
	for (int i = 0; sim_traces && i < FAREWELLS && farewells[i].count > 0; i++)
		printf("\t%llu x %s\n", (unsigned long long)farewells[i].count, farewells[i].text);
}

/* Whether WORLDS_ENOUGH worlds of some minutes, as test/run.sh plays, have done all of these:
   otherwise no rule has judged them. */
static bool has_done_enough(void)
{
	static const struct { const uint64_t *count; const char *what; } needed[] = {
		{ &sim_counts.split_reads, "read of a READ ONLY transaction at a standby" },
		{ &sim_counts.standby_reads, "read of a client that asks for standbys" },
		{ &sim_counts.met_hangs, "standby that hangs with a read in flight" },
		{ &sim_counts.recalls, "read taken back from a standby" },
	};
	bool has = true;

	if (worlds_done < WORLDS_ENOUGH || seconds_done < worlds_done * 120 || plan_limits.without)
		return true;
	for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++) {
		if (*needed[i].count > 0)
			continue;
		fprintf(stderr, "sim: %llu worlds without a %s: the rules judge nothing\n",
			(unsigned long long)worlds_done, needed[i].what);
		has = false;
	}
	return has;
}

static char directory[200];

static void remove_files(void)
{
	unlink(plan.conf_path);
	unlink(plan.users_path);
	unlink(plan.rules_path);
	rmdir(directory);
}

static void make_files(void)
{
	const char *where = getenv("TMPDIR");

	snprintf(directory, sizeof(directory), "%s/pgweir-sim-XXXXXX", where && *where ? where : "/tmp");
	if (!mkdtemp(directory)) {
		perror(directory);
		exit(1);
	}
	snprintf(plan.conf_path, sizeof(plan.conf_path), "%s/pgweir.ini", directory);
	snprintf(plan.rules_path, sizeof(plan.rules_path), "%s/rules", directory);
	snprintf(plan.users_path, sizeof(plan.users_path), "%s/users.txt", directory);
}

static uint64_t number(const char *text)
{
	char *end;
	unsigned long long value = text ? strtoull(text, &end, 10) : 0;

	if (!text || *end || end == text) {
		fprintf(stderr, "sim: a number is missing\n");
		exit(2);
	}
	return value;
}

static void leave_out(char *names)
{
	for (char *name = strtok(names, ","); name; name = strtok(NULL, ",")) {
		if (plan_leave_out(name))
			continue;
		fprintf(stderr, "sim: there is no part %s. There are:", name);
		for (int i = 0; plan_part_name(i); i++)
			fprintf(stderr, " %s", plan_part_name(i));
		fprintf(stderr, "\n");
		exit(2);
	}
}

/* The command line. */
static struct {
	uint64_t seed, worlds, total, limit;
	usec_t length;			/* of each world; 0: as drawn */
	bool shrinks;
} asked = { .seed = 1, .worlds = 1, .limit = UINT64_MAX };

static void read_option(const char *name, char *value)
{
	if (strcmp(name, "--seed") == 0 || strcmp(name, "--from") == 0 || strcmp(name, "--shrink") == 0) {
		asked.seed = number(value);
		asked.shrinks = strcmp(name, "--shrink") == 0;
	} else if (strcmp(name, "--minutes") == 0) {
		asked.length = (usec_t)number(value) * 60 * USEC;
	} else if (strcmp(name, "--seconds") == 0) {
		asked.length = (usec_t)number(value) * USEC;
	} else if (strcmp(name, "--worlds") == 0) {
		asked.worlds = number(value);
	} else if (strcmp(name, "--total") == 0) {
		asked.total = number(value);
	} else if (strcmp(name, "--limit") == 0) {
		asked.limit = number(value);
	} else if (strcmp(name, "--clients") == 0) {
		plan_limits.clients = (int)number(value);
	} else if (strcmp(name, "--salt") == 0) {
		plan_limits.salt = number(value);
	} else if (strcmp(name, "--without") == 0 && value) {
		leave_out(value);
	} else {
		fprintf(stderr, "sim: what is %s? See the beginning of test/sim/sim.c.\n", name);
		exit(2);
	}
}

static usec_t draw_length(uint64_t seed, usec_t length)
{
	plan_draw(seed, length);
	return plan.length;
}

int main(int argc, char **argv)
{
	struct log_config quiet = { .quiet = true };
	time_t begun = time(NULL);

	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--trace") == 0) {
			sim_traces = true;
			quiet.quiet = false;
		} else {
			read_option(argv[i], argv[i + 1]);
			i++;
		}
	}
	setenv("TZ", "UTC", 1);
	log_configure(&quiet);
	signal(SIGABRT, on_abort);
	signal(SIGSEGV, on_abort);
	make_files();
	atexit(remove_files);
	if (asked.shrinks)
		return shrink(asked.seed, asked.length, run_world, draw_length);
	while ((asked.total > 0 ? seconds_done / 60 < asked.total : worlds_done < asked.worlds) && (uint64_t)(time(NULL) - begun) < asked.limit) {
		run_world(asked.seed + worlds_done, asked.length);
		worlds_done++;
	}
	say_result();
	log_close();
	return has_done_enough() ? 0 : 1;
}
