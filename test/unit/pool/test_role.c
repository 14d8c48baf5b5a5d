/* Roles of hosts: evidence, the decision, what suits a client, and the clients that wait. */
#include "fake.h"

#include "pool/host_identity.h"
#include "pool/role.h"
#include "unit.h"

#define HOSTS "host=a,b,c target_session_attrs="

static struct roles *roles;
static struct host *host[3];

static void begin(const char *attrs, const char *more)
{
	char ini[512];

	snprintf(ini, sizeof(ini), "[databases]\nd = " HOSTS "%s\nplain = host=a,b,c\n[pgbouncer]\npool_mode = transaction\nhost_check_period = 1\n%s", attrs, more);
	fake_start(ini);
	roles = database_get(fake.pools, "d", true, fake.now)->roles;
	CHECK(roles && roles->count == 3);
	for (int i = 0; i < 3; i++)
		host[i] = roles->places[i].host;
}

/* The host answers the question for its role, and the databases decide. */
static void answers(int i, enum host_claim claim, uint32_t timeline)
{
	struct host_evidence evidence = { .claim = claim, .at = fake.now, .timeline = timeline, .system_id = 7 };

	host_note(host[i], &evidence, "asked", fake.now);
	roles_decide_due(fake.pools, fake.now);
}

/* Seconds later, a is the primary with timeline 1, and b and c are standbys. */
static void usual(double seconds)
{
	fake_pass(seconds);
	answers(0, CLAIM_PRIMARY, 1);
	answers(1, CLAIM_STANDBY, 0);
	answers(2, CLAIM_STANDBY, 0);
	CHECK(roles->primary == host[0]);
}

/* A client that aims at the role of its database. */
static struct fake_client *join(const char *database)
{
	struct fake_client *client = fake_join(database, "u");

	CHECK(pool_client_set_target(&client->pooled, fake.now));
	return client;
}

TEST(a_fresh_claim_makes_the_primary)
{
	begin("primary", "");
	CHECK(!roles->primary);
	CHECK_TEXT(roles->why, "no host has been asked yet");
	answers(1, CLAIM_STANDBY, 0);
	CHECK(!roles->primary);
	answers(2, CLAIM_STANDBY, 0);
	answers(0, CLAIM_PRIMARY, 1);
	CHECK(roles->primary == host[0] && roles->timeline == 1 && roles->last == host[0]);
	CHECK_TEXT(host[0]->why, "asked: not in recovery, timeline 1");
	/* older evidence changes nothing */
	fake_pass(-0.1);
	answers(0, CLAIM_STANDBY, 0);
	CHECK(host[0]->evidence.claim == CLAIM_PRIMARY);
	fake_end();
}

TEST(the_first_primary_is_chosen_when_all_hosts_have_answered)
{
	struct host_evidence login = { .claim = CLAIM_PRIMARY, .is_of_login = true };

	begin("primary", "");
	login.at = fake.now;
	host_note(host[2], &login, "login", fake.now);
	answers(0, CLAIM_PRIMARY, 1);
	CHECK(!roles->primary);
	CHECK_TEXT(roles->why, "not all hosts have answered yet");
	/* a failure is an answer, too */
	host_note_failure(host[1], "refused", fake.now);
	answers(2, CLAIM_PRIMARY, 2);
	CHECK(roles->primary == host[2]);
	fake_end();
	/* a host that is silent is not waited for longer than an answer is valid */
	begin("primary", "");
	answers(0, CLAIM_PRIMARY, 1);
	fake_pass(1.5);
	answers(0, CLAIM_PRIMARY, 1);
	CHECK(!roles->primary);
	fake_later(0.6);
	CHECK(roles->primary == host[0]);
	fake_end();
}

TEST(claims_expire)
{
	begin("primary", "");
	usual(1);
	fake_later(1.9);
	CHECK(roles->primary == host[0] && host[1]->is_fresh);
	fake_later(0.2);
	CHECK(!roles->primary && !host[0]->is_fresh && !host[1]->is_fresh);
	CHECK_INT(roles_fresh_for(fake.pools), 2 * USEC);
	/* a repeated claim is fresh, and a refused login repeats it */
	usual(0.1);
	fake_pass(1.5);
	host_note_alive(host[0], fake.now);
	fake_later(1);
	CHECK(roles->primary == host[0] && !host[1]->is_fresh);
	fake_end();
}

TEST(of_two_claims_the_higher_timeline_decides)
{
	begin("primary", "");
	usual(1);
	answers(1, CLAIM_PRIMARY, 2);
	CHECK(roles->primary == host[1]);
	/* with equal timelines, neither */
	answers(0, CLAIM_PRIMARY, 2);
	CHECK(!roles->primary);
	CHECK_TEXT(roles->why, "both a:5432 and b:5432 say that they are the primary, with timeline 2");
	answers(0, CLAIM_STANDBY, 0);
	CHECK(roles->primary == host[1]);
	fake_end();
}

TEST(primaries_of_the_past_are_refused)
{
	begin("primary", "");
	usual(1);
	answers(0, CLAIM_STANDBY, 0);
	answers(1, CLAIM_PRIMARY, 2);
	/* the new primary goes away, and the old one claims to be the primary */
	host_note_failure(host[1], "refused", fake.now);
	answers(0, CLAIM_PRIMARY, 1);
	CHECK(!roles->primary);
	CHECK_TEXT(roles->why, "a:5432 is a primary of the past: its timeline 1 is lower than 2");
	for (int i = 0; i < 59; i++) {
		fake_pass(1);
		answers(0, CLAIM_PRIMARY, 1);
		CHECK(!roles->primary);
	}
	/* away for long */
	fake_pass(1);
	answers(0, CLAIM_PRIMARY, 1);
	CHECK(roles->primary == host[0] && roles->timeline == 1);
	fake_end();
}

TEST(a_past_primary_is_accepted_when_the_last_one_is_a_standby)
{
	begin("primary", "");
	usual(1);
	answers(1, CLAIM_PRIMARY, 2);
	answers(1, CLAIM_STANDBY, 0);
	answers(0, CLAIM_PRIMARY, 1);
	CHECK(roles->primary == host[0]);
	fake_end();
}

TEST(hosts_of_another_cluster_are_refused)
{
	struct host_evidence evidence = { .claim = CLAIM_PRIMARY, .timeline = 9, .system_id = 8 };

	begin("primary", "");
	usual(1);
	evidence.at = fake.now;
	host_note(host[2], &evidence, "asked", fake.now);
	roles_decide_due(fake.pools, fake.now);
	CHECK(roles->primary == host[0] && !host[2]->is_fresh && host[2]->is_of_another);
	fake_end();
	/* it was the primary, because it alone had answered in time: its timeline means nothing */
	begin("primary", "");
	evidence.at = fake.now;
	host_note(host[2], &evidence, "asked", fake.now);
	host_note_failure(host[0], "refused", fake.now);
	host_note_failure(host[1], "refused", fake.now);
	roles_decide_due(fake.pools, fake.now);
	CHECK(roles->primary == host[2]);
	fake_pass(0.1);
	answers(0, CLAIM_PRIMARY, 1);
	answers(1, CLAIM_STANDBY, 1);
	CHECK(roles->primary == host[0]);
	fake_end();
}

TEST(a_host_without_an_answer_does_not_vote_for_its_system_identifier)
{
	struct host_evidence other = { .claim = CLAIM_STANDBY, .system_id = 8 };

	begin("primary", "");
	usual(1);
	/* the address of b has had a server of another cluster, and now has none */
	other.at = fake.now;
	host_note(host[1], &other, "asked", fake.now);
	host_note_failure(host[1], "refused", fake.now);
	other = (struct host_evidence){ .claim = CLAIM_PRIMARY, .at = fake.now, .timeline = 99, .system_id = 8 };
	host_note(host[2], &other, "asked", fake.now);
	roles_decide_due(fake.pools, fake.now);
	CHECK(roles->primary == host[0] && host[2]->is_of_another);
	/* not even when no host of the cluster answers any more */
	host_note_failure(host[0], "refused", fake.now);
	roles_decide_due(fake.pools, fake.now);
	CHECK(!roles->primary && host[2]->is_of_another);
	/* more than half of the list: the cluster was replaced */
	other.claim = CLAIM_STANDBY;
	other.at = fake.now;
	host_note(host[0], &other, "asked", fake.now);
	roles_decide_due(fake.pools, fake.now);
	CHECK(roles->primary == host[2] && roles->system == 8 && !host[0]->is_of_another);
	fake_end();
}

TEST(two_primaries_at_once_are_reported)
{
	begin("primary", "");
	usual(1);
	/* a switchover: the last answer of a is still valid */
	fake_pass(0.1);
	answers(1, CLAIM_PRIMARY, 2);
	answers(1, CLAIM_PRIMARY, 2);
	CHECK(roles->primary == host[1] && host[0]->rivals == 0);
	fake_pass(0.1);
	answers(1, CLAIM_PRIMARY, 2);
	CHECK_INT(host[0]->rivals, 0);
	/* a says so again */
	answers(0, CLAIM_PRIMARY, 1);
	CHECK(roles->primary == host[1] && host[0]->rivals == 1 && host[1]->rivals == 0);
	answers(0, CLAIM_STANDBY, 2);
	CHECK_INT(host[0]->rivals, 0);
	/* without a decision both are told from the rest */
	fake_pass(0.1);
	answers(0, CLAIM_PRIMARY, 2);
	fake_pass(0.1);
	answers(0, CLAIM_PRIMARY, 2);
	answers(1, CLAIM_PRIMARY, 2);
	CHECK(!roles->primary && host[0]->rivals + host[1]->rivals == 1);
	fake_later(3);
	CHECK(host[0]->rivals == 0 && host[1]->rivals == 0);
	fake_end();
}

TEST(doubt_ends_with_newer_evidence)
{
	begin("primary", "");
	usual(1);
	CHECK_INT(roles->doubt_since, 0);
	/* a standby that fails puts no primary in doubt */
	host_note_failure(host[1], "refused", fake.now);
	CHECK(roles->doubt_since == 0 && host[1]->errors == 1);
	fake_pass(0.1);
	host_doubt(host[0], fake.now);
	CHECK_INT(roles->doubt_since, fake.now);
	/* from before */
	roles_decide(roles, fake.now);
	CHECK(roles->doubt_since > 0 && roles->primary == host[0]);
	fake_pass(0.1);
	answers(0, CLAIM_PRIMARY, 1);
	CHECK_INT(roles->doubt_since, 0);
	host_note_failure(host[0], "refused", fake.now);
	roles_decide_due(fake.pools, fake.now);
	CHECK(!roles->primary && roles->doubt_since > 0);
	fake_end();
}

TEST(a_promotion_is_reported_by_a_session)
{
	begin("primary", "");
	usual(1);
	host_note_promotion(host[1], "on", fake.now);
	CHECK(host[1]->evidence.claim == CLAIM_STANDBY);
	host_note_failure(host[0], "refused", fake.now);
	host_note_promotion(host[1], "off", fake.now);
	CHECK(host[1]->evidence.claim == CLAIM_PRIMARY && host[1]->evidence.timeline == 0);
	fake_end();
}

static const struct { const char *attrs; bool suits[3], alone[3]; } targets[] = {
	/* a is the primary; alone: no standby is known */
	{ "primary", { true, false, false }, { true, false, false } },
	{ "read-write", { true, false, false }, { true, false, false } },
	{ "standby", { false, true, true }, { false, false, false } },
	{ "read-only", { false, true, true }, { false, false, false } },
	{ "prefer-standby", { false, true, true }, { true, false, false } },
};

TEST(hosts_suit_by_their_role)
{
	for (size_t t = 0; t < sizeof(targets) / sizeof(targets[0]); t++) {
		struct fake_client *client;

		begin(targets[t].attrs, "");
		usual(1);
		client = join("d");
		for (int i = 0; i < 3; i++)
			CHECK_INT(roles->places[i].targets >> client->pooled.target & 1, targets[t].suits[i]);
		host_note_failure(host[1], "refused", fake.now);
		host_note_failure(host[2], "refused", fake.now);
		roles_decide_due(fake.pools, fake.now);
		for (int i = 0; i < 3; i++)
			CHECK_INT(roles->places[i].targets >> client->pooled.target & 1, targets[t].alone[i]);
		fake_end();
	}
}

TEST(waiting_clients_move_in_their_order)
{
	begin("primary", "default_pool_size = 1\n");
	for (int i = 1; i <= 3; i++) {
		CHECK(!fake_want(join("d")));
		fake_pass(1);
	}
	CHECK_TEXT(fake_schedule(), "");
	CHECK(c(1)->pooled.pool->host == fake.pools->no_host && c(1)->pooled.pool->held_by == LIMIT_ROLE);
	answers(0, CLAIM_STANDBY, 1);
	answers(2, CLAIM_STANDBY, 1);
	answers(1, CLAIM_PRIMARY, 1);
	CHECK_TEXT(fake_schedule(), "dial c1");
	for (int i = 1; i <= 3; i++) {
		CHECK(c(i)->pooled.pool->host == host[1]);
		fake_login(s(1));
		/* the time of the wait goes on */
		CHECK_INT(fake.now - c(i)->pooled.since, (4 - i) * USEC);
		fake_schedule();
		CHECK(s(1)->pooled.link == &c(i)->pooled);
		if (i < 3)
			fake_release(s(1));
		if (i < 3)
			pool_server_become(&s(1)->pooled, SERVER_TESTED, fake.now);
	}
	fake_end();
}

TEST(connections_to_the_old_primary_end)
{
	begin("primary", "");
	usual(1);
	fake_want(join("d"));
	CHECK_TEXT(fake_schedule(), "dial c1");
	fake_login(s(1));
	CHECK_TEXT(fake_schedule(), "lend s1 c1");
	/* unknown only: the connection stays */
	host_note_failure(host[0], "refused", fake.now);
	roles_decide_due(fake.pools, fake.now);
	CHECK_TEXT(fake_diary(), "");
	answers(1, CLAIM_PRIMARY, 2);
	CHECK_TEXT(fake_diary(), "drop s1 HOST_ROLE");
	fake_end();
}

TEST(reload_keeps_the_state_of_hosts)
{
	struct host *primary;

	begin("primary", "");
	usual(1);
	primary = host[0];
	fake_reload("[databases]\nd = host=d,a target_session_attrs=primary\n[pgbouncer]\npool_mode = transaction\nhost_check_period = 1\n");
	roles = database_get(fake.pools, "d", true, fake.now)->roles;
	CHECK(roles->count == 2 && roles->places[1].host == primary && roles->primary == primary);
	/* without its host there is no primary */
	fake_reload("[databases]\nd = host=d target_session_attrs=primary\n[pgbouncer]\npool_mode = transaction\n");
	CHECK(roles->count == 1 && !roles->primary);
	fake_reload("[databases]\nd = host=d\n[pgbouncer]\npool_mode = transaction\n");
	CHECK(!database_get(fake.pools, "d", true, fake.now)->roles);
	fake_end();
}

TEST(roles_begin_with_a_client_that_asks)
{
	struct fake_client *client;
	struct database *plain;

	begin("primary", "");
	plain = database_get(fake.pools, "plain", true, fake.now);
	client = fake_join("plain", "u");
	CHECK(!plain->roles && client->pooled.pool->is_plain);
	client->pooled.own_target = TARGET_STANDBY;
	CHECK(pool_client_set_target(&client->pooled, fake.now));
	CHECK(plain->roles && !client->pooled.pool->is_plain && client->pooled.target == TARGET_STANDBY);
	CHECK(!fake_want(client));
	usual(1);
	fake_schedule();
	CHECK(client->pooled.pool->host == host[1] || client->pooled.pool->host == host[2]);
	fake_end();
}

TEST(the_wait_in_words)
{
	char text[1024];

	begin("primary", "");
	usual(1);
	host_note_failure(host[0], "connect failed (Connection refused)", fake.now);
	roles_decide_due(fake.pools, fake.now);
	fake_pass(1.5);
	CHECK_TEXT(roles_text(roles->database, fake.now, text, sizeof(text)),
		   "no host has the role that the client asks for; no primary for 1.5 s: no host says that it is the primary; 2 of 3 hosts are standbys; "
		   "a:5432: unknown (connect failed (Connection refused)), b:5432: standby, c:5432: standby");
	fake_end();
}

/* As answers(), from the server of this cluster that has started at this time. */
static void server_answers_with(int i, enum host_claim claim, uint64_t server_id, uint32_t timeline, uint64_t system_id)
{
	struct host_evidence evidence = { .claim = claim, .at = fake.now, .timeline = timeline, .position = 1000, .system_id = system_id,
		.server_id = server_id };

	host_note(host[i], &evidence, "asked", fake.now);
	roles_decide_due(fake.pools, fake.now);
}

static void server_answers(int i, enum host_claim claim, uint64_t server_id) { server_answers_with(i, claim, server_id, 1, 7); }

TEST(two_addresses_of_one_server_are_no_rivals)
{
	begin("primary", "");
	server_answers(2, CLAIM_STANDBY, 3);
	server_answers(0, CLAIM_PRIMARY, 1);
	server_answers(1, CLAIM_PRIMARY, 1);
	CHECK(roles->primary == host[0]);
	server_answers(1, CLAIM_PRIMARY, 2);
	CHECK(!roles->primary);
	fake_end();
}

TEST(what_was_known_about_another_server_is_forgotten)
{
	struct pool *pool;
	struct pool_server plain;
	uint32_t incarnation;

	begin("primary", "");
	server_answers(1, CLAIM_STANDBY, 2);
	server_answers(2, CLAIM_STANDBY, 3);
	server_answers(0, CLAIM_PRIMARY, 1);
	CHECK(roles->primary == host[0] && host[0]->marks->count == 1);
	pool = pool_at_host(join("d")->pooled.pool, host[0], fake.now);
	CHECK(pool && pool->host == host[0]);
	incarnation = host[0]->incarnation;
	/* a session leads elsewhere: the watcher logs in again after some */
	fake_pass(0.1);
	plain = (struct pool_server){ .host = host[0], .pool = pool };
	CHECK(pool_server_identify(&plain, 1, fake.now) && pool_server_identify(&plain, 0, fake.now));
	for (int i = 1; i <= 4; i++) {
		CHECK(!pool_server_identify(&plain, 9, fake.now));
		CHECK_INT(host[0]->login_wanted == fake.now, i == 4);
	}
	/* and reaches the other server */
	server_answers(0, CLAIM_STANDBY, 9);
	CHECK(!roles->primary && host[0]->evidence.claim == CLAIM_STANDBY);
	CHECK(host[0]->incarnation != incarnation && host[0]->marks->count == 0);
	fake_end();
}

/* A virtual address moves to the new primary, and back to the old one when that has started again. */
TEST(an_address_that_leads_to_a_primary_of_the_past_is_refused)
{
	begin("primary", "");
	server_answers(1, CLAIM_STANDBY, 2);
	server_answers(2, CLAIM_STANDBY, 3);
	server_answers_with(0, CLAIM_PRIMARY, 1, 1, 7);
	CHECK(roles->primary == host[0]);
	fake_pass(0.1);
	server_answers_with(0, CLAIM_PRIMARY, 4, 2, 7);
	CHECK(roles->primary == host[0] && roles->timeline == 2);
	fake_pass(0.1);
	server_answers_with(0, CLAIM_PRIMARY, 5, 1, 7);
	CHECK(!roles->primary && roles->places[0].is_past);
	CHECK_TEXT(roles->why, "a:5432 is a primary of the past: its timeline 1 is lower than 2");
	/* until it leads to the new one again */
	fake_pass(0.1);
	server_answers_with(0, CLAIM_PRIMARY, 4, 2, 7);
	CHECK(roles->primary == host[0] && !roles->places[0].is_past);
	/* or for long, as after a backup was restored */
	fake_pass(0.1);
	server_answers_with(0, CLAIM_PRIMARY, 5, 1, 7);
	CHECK(!roles->primary);
	fake_pass(60);
	server_answers_with(0, CLAIM_PRIMARY, 5, 1, 7);
	CHECK(roles->primary == host[0] && roles->timeline == 1);
	/* the same server is promoted again, and reports this before it tells its timeline */
	fake_pass(0.1);
	server_answers_with(0, CLAIM_STANDBY, 6, 1, 7);
	CHECK(!roles->primary);
	host_note_promotion(host[0], "off", fake.now);
	roles_decide_due(fake.pools, fake.now);
	CHECK(roles->primary == host[0]);
	fake_end();
}

TEST(the_next_cluster_at_an_address_may_have_a_lower_timeline)
{
	begin("primary", "");
	server_answers(1, CLAIM_STANDBY, 2);
	server_answers(2, CLAIM_STANDBY, 3);
	server_answers_with(0, CLAIM_PRIMARY, 1, 5, 7);
	CHECK(roles->primary == host[0] && roles->timeline == 5);
	fake_pass(0.1);
	server_answers_with(0, CLAIM_PRIMARY, 4, 1, 8);
	CHECK(!roles->primary && host[0]->is_of_another);
	server_answers_with(1, CLAIM_STANDBY, 5, 1, 8);
	CHECK(roles->primary == host[0] && roles->timeline == 1);
	fake_end();
}

UNIT_MAIN
