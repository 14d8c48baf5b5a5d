/* Standbys that follow the primary, and servers in recovery that do not. */
#include "fake.h"

#include "pool/following.h"
#include "pool/role.h"

#include "base/log.h"

#define HOSTS "host=h1,h2,h3"
#define SHOP "[databases]\nshop = " HOSTS " target_session_attrs=prefer-standby read_your_writes=off\n"

static struct host *host(int number)
{
	static const char *const keys[] = { NULL, "h1:5432", "h2:5432", "h3:5432" };
	struct host *found = host_hold(fake.pools, keys[number]);

	host_drop(found);
	return found;
}

/* Time passes, and the host answers. */
static void says(int number, struct host_evidence evidence)
{
	fake_pass(0.1);
	evidence.at = fake.now;
	evidence.system_id = 7;
	fake_pass(0.01);
	host_note(host(number), &evidence, "asked", fake.now);
	roles_decide_due(fake.pools, fake.now);
}

static void answers(int number, enum host_claim claim, uint32_t timeline, uint64_t position, uint32_t receiver)
{
	says(number, (struct host_evidence){ .claim = claim, .timeline = timeline, .position = position, .receiver = receiver });
}

/* A standby that receives from this server, in two answers. */
static void receives(int number, const char *sender)
{
	struct host_evidence evidence = { .claim = CLAIM_STANDBY, .timeline = 2, .position = 900, .receiver = 77 };

	snprintf(evidence.sender, SENDER_TEXT, "%s", sender);
	says(number, evidence);
	says(number, evidence);
}

static void primary(uint64_t position) { answers(1, CLAIM_PRIMARY, 2, position, 0); }
static void standby(uint64_t position, uint32_t receiver) { answers(2, CLAIM_STANDBY, 2, position, receiver); }

static bool is_read(void)
{
	struct roles *roles = database_find(fake.pools, "shop")->roles;

	return roles->places[1].targets >> TARGET_STANDBY & 1;
}

static const char *state(void)
{
	const char *word = following_word(host(2)->following);

	return word ? word : "";
}

static void start(void)
{
	fake_start(SHOP);
	CHECK(database_get(fake.pools, "shop", true, fake.now));
	CHECK(roles_begin(database_find(fake.pools, "shop"), fake.now));
	host_note_failure(host(3), "connect failed", fake.now);
}

TEST(a_standby_that_receives_is_read)
{
	start();
	standby(900, 77);
	CHECK(!is_read());			/* the primary is not known yet */
	primary(1000);
	CHECK(!is_read());			/* one answer */
	standby(900, 77);
	CHECK(is_read());
	/* its receiver has gone, and it has not replayed anything new */
	primary(1000);
	standby(1000, 0);
	CHECK(!is_read());
	CHECK_TEXT(state(), "not following");
	/* another one, in two answers */
	standby(1000, 78);
	CHECK(!is_read());
	standby(1000, 78);
	CHECK(is_read());
	fake_end();
}

TEST(a_standby_that_replays_new_wal_is_read)
{
	start();
	primary(1000);
	standby(900, 0);			/* fed from an archive */
	CHECK(!is_read());
	standby(1000, 0);			/* this may have been there before */
	CHECK(!is_read());
	standby(1100, 0);
	CHECK(!is_read());			/* perhaps beyond the primary */
	primary(1100);
	CHECK(!is_read());			/* it may have had this before it lost the primary */
	primary(1200);
	standby(1150, 0);
	CHECK(is_read());
	/* it stays so, as long as it is not beyond the primary */
	primary(2000);
	standby(1150, 0);
	CHECK(is_read());
	fake_end();
}

/* It has crashed, and replays what it had received from its former primary. The primary overtakes this. */
TEST(a_server_that_replays_what_it_had_is_not_read)
{
	start();
	primary(1000);
	standby(900, 0);
	primary(9000);
	standby(5000, 0);			/* the end of its WAL */
	for (uint64_t i = 0; i < 20; i++) {
		primary(9000 + i);
		standby(5000, 0);
		CHECK(!is_read());
	}
	CHECK_TEXT(state(), "not following");
	fake_end();
	/* it is seen beyond the primary in between */
	start();
	primary(1000);
	standby(2000, 0);
	primary(1001);
	CHECK_TEXT(state(), "diverged");
	primary(9000);
	standby(5000, 0);
	primary(9001);
	standby(9000, 0);
	CHECK_TEXT(state(), "diverged");
	fake_end();
}

/* The watcher has logged in again; the server is the same. */
TEST(a_server_that_has_diverged_is_known_by_its_identity)
{
	struct host_evidence evidence = { .claim = CLAIM_STANDBY, .timeline = 2, .position = 5000, .server_id = 1, .receiver = 77 };

	start();
	primary(1000);
	says(2, evidence);
	primary(1001);
	CHECK_TEXT(state(), "diverged");
	host_forget(host(2));
	primary(6000);
	says(2, evidence);
	says(2, evidence);
	CHECK_TEXT(state(), "diverged");
	/* rewound */
	evidence.server_id = 2;
	says(2, evidence);
	says(2, evidence);
	CHECK(is_read());
	fake_end();
}

/* h3 lives on as a primary that pgweir cannot ask, and feeds h2. */
TEST(a_standby_of_another_server_than_the_primary_is_not_read)
{
	start();
	primary(1000);
	receives(2, "h3:5432");
	CHECK(!is_read());
	CHECK_TEXT(state(), "not following");
	CHECK_TEXT(host(2)->follows_why, "it receives from h3:5432, which is not known to follow the primary");
	/* it is told to follow the primary */
	receives(2, "h1:5432");
	CHECK(is_read());
	/* h3 answers, and follows no server */
	receives(2, "H3:5432");
	answers(3, CLAIM_STANDBY, 2, 900, 0);
	CHECK(!is_read());
	/* a good standby: a cascade */
	receives(3, "h1:5432");
	primary(1000);
	CHECK(is_read());
	/* each is fed by the other one */
	receives(3, "h2:5432");
	primary(1000);
	CHECK(!is_read());
	fake_end();
}

/* The list does not name the sender, or each machine means another server by its address. */
TEST(a_sender_that_is_unknown_contradicts_nothing)
{
	static const char *const senders[] = { "", "h4:5432", "h1:5433", "h2:5432" };

	for (size_t i = 0; i < sizeof(senders) / sizeof(senders[0]); i++) {
		start();
		primary(1000);
		receives(2, senders[i]);
		CHECK(is_read());
		fake_end();
	}
	fake_start("[databases]\nshop = host=h1,h2,127.0.0.1 target_session_attrs=prefer-standby read_your_writes=off\n");
	CHECK(database_get(fake.pools, "shop", true, fake.now));
	CHECK(roles_begin(database_find(fake.pools, "shop"), fake.now));
	host_note_failure(database_find(fake.pools, "shop")->roles->places[2].host, "connect failed", fake.now);
	primary(1000);
	receives(2, "127.0.0.1:5432");
	CHECK(is_read());
	fake_end();
}

TEST(a_former_primary_that_follows_no_server_is_not_read)
{
	start();
	primary(1000);
	standby(5000, 0);
	CHECK(!is_read());
	primary(1000);
	CHECK_TEXT(state(), "diverged");
	CHECK(host(2)->is_warned);
	/* the primary overtakes it, and the server tries to receive */
	primary(6000);
	standby(5000, 77);
	standby(5000, 77);
	CHECK(!is_read());
	CHECK_TEXT(state(), "diverged");
	/* rewound: it has restarted */
	host_forget(host(2));
	roles_decide_due(fake.pools, fake.now);
	CHECK(!is_read());
	standby(4000, 78);
	standby(4500, 78);
	CHECK(is_read());
	CHECK(!host(2)->is_warned);
	fake_end();
}

TEST(a_former_primary_below_the_position_of_the_primary_is_not_read)
{
	start();
	primary(6000);
	for (uint32_t i = 0; i < 200; i++) {
		primary(6000 + i);
		/* its receiver ends again and again */
		standby(5000, i % 2 ? 100 + i : 0);
		CHECK(!is_read());
		CHECK_INT(host(2)->is_warned, i * 0.22 > 10);
	}
	CHECK_TEXT(state(), "not following");
	fake_end();
}

TEST(timelines_of_standbys)
{
	start();
	primary(1000);
	answers(2, CLAIM_STANDBY, 1, 900, 77);
	answers(2, CLAIM_STANDBY, 1, 900, 77);
	CHECK(!is_read());
	CHECK_TEXT(state(), "not following");
	answers(2, CLAIM_STANDBY, 2, 950, 77);
	CHECK(is_read());
	answers(2, CLAIM_STANDBY, 3, 950, 77);
	CHECK(!is_read());
	CHECK_TEXT(state(), "diverged");
	fake_end();
}

TEST(an_answer_that_is_newer_than_the_answer_of_the_primary_says_nothing)
{
	start();
	primary(1000);
	standby(1000, 77);
	standby(1000, 77);
	CHECK(is_read());
	for (uint64_t i = 1; i < 100; i++) {
		standby(1000 + 10 * i, 77);
		CHECK(is_read());
		primary(1000 + 10 * i);
		CHECK(is_read());
	}
	fake_end();
}

TEST(without_a_primary_the_verdict_stays)
{
	start();
	primary(1000);
	standby(900, 77);
	standby(1000, 77);
	CHECK(is_read());
	host_note_failure(host(1), "connect failed", fake.now);
	standby(1000, 0);
	CHECK(is_read());
	/* it restarts: no primary can contradict it */
	host_forget(host(2));
	standby(1000, 0);
	CHECK(is_read());
	primary(1000);
	standby(1000, 0);
	CHECK(!is_read());
	fake_end();
	/* a server that has diverged does not become good */
	start();
	primary(1000);
	standby(5000, 0);
	primary(1001);
	host_note_failure(host(1), "connect failed", fake.now);
	standby(5000, 0);
	CHECK(!is_read());
	fake_end();
}

TEST(without_any_primary_all_hosts_have_answered)
{
	start();
	standby(900, 0);
	CHECK(!is_read());
	host_note_failure(host(1), "connect failed", fake.now);
	host_note_failure(host(3), "connect failed", fake.now);
	roles_decide_due(fake.pools, fake.now);
	CHECK(is_read());
	fake_end();
}

TEST(services_without_wal)
{
	start();
	primary(0);
	standby(0, 0);
	CHECK(is_read());
	fake_end();
}

UNIT_MAIN
