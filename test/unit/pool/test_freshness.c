/* Marks, what standbys cover, and which standbys are fresh enough for a client. */
#include "fake.h"

#include "pool/freshness.h"
#include "pool/role.h"

#define MS (USEC / 1000)
#define PAGE 8192u
#define HOSTS "host=h1,h2,h3"

static struct host *host(const char *key)
{
	struct host *found = host_hold(fake.pools, key);

	host_drop(found);
	return found;
}

/* The host has answered a question that was sent now. */
static void answer(const char *key, enum host_claim claim, uint32_t timeline, uint64_t position)
{
	struct host_evidence evidence = { .claim = claim, .at = fake.now, .timeline = timeline, .position = position, .system_id = 7,
		.receiver = claim == CLAIM_STANDBY && position > 0 ? 77 : 0 };

	/* the second answer proves that a standby receives */
	host_note(host(key), &evidence, "asked", fake.now);
	host_note(host(key), &evidence, "asked", fake.now);
	roles_decide_due(fake.pools, fake.now);
}

static struct roles *roles(void) { return database_find(fake.pools, "shop")->roles; }
/* In milliseconds after second 1000. */
static int covers(unsigned place) { return (int)((roles()->places[place].fresh_to - 1000 * USEC) / MS); }
static bool suits(unsigned place, enum target target) { return roles()->places[place].targets >> target & 1; }

static struct fake_client *reader(const char *database, enum target target)
{
	struct fake_client *client = fake_join(database, "bob");

	client->pooled.own_target = (uint8_t)target;
	CHECK(pool_client_set_target(&client->pooled, fake.now));
	return client;
}

/* The host of the server that the client would get. */
static const char *route(struct fake_client *client)
{
	return pool_for_client(&client->pooled, fake.now)->host->key;
}

/* A transaction of the client ends now, at this host. */
static void end_at(struct fake_client *client, enum target target, const char *key)
{
	uint8_t was = client->pooled.target;

	client->pooled.target = (uint8_t)target;
	pool_client_move(&client->pooled, pool_at_host(client->pooled.pool, host(key), fake.now), fake.now);
	pool_client_note_end(&client->pooled, fake.now);
	client->pooled.target = was;
}

/* The next 179 random numbers are no multiples of SETTLE_ONE_IN. */
static void do_not_settle(void) { fake.pools->random = 69609; }

/* Second 1000: h1 is the primary, and h2 and h3 have replayed everything. */
static void start(const char *ini)
{
	fake_start(ini);
	do_not_settle();
	CHECK(database_get(fake.pools, "shop", true, fake.now));
	CHECK(roles_begin(database_find(fake.pools, "shop"), fake.now));
	answer("h1:5432", CLAIM_PRIMARY, 1, 1000);
	answer("h2:5432", CLAIM_STANDBY, 1, 1000);
	answer("h3:5432", CLAIM_STANDBY, 1, 1000);
}

TEST(marks_of_positions)
{
	struct marks marks = { 0 };

	marks_add(&marks, 10, 500);
	marks_add(&marks, 20, 700);
	marks_add(&marks, 20, 800);		/* not later */
	CHECK_INT(marks_covered(&marks, 499), 0);
	CHECK_INT(marks_covered(&marks, 500), 10);
	CHECK_INT(marks_covered(&marks, 699), 10);
	CHECK_INT(marks_covered(&marks, 701), 20);
	/* an idle primary needs no more marks */
	for (usec_t at = 30; at <= 100000; at += 10)
		marks_add(&marks, at, 700);
	CHECK_INT(marks.count, 2);
	CHECK_INT(marks_covered(&marks, 700), 100000);
	/* positions behind this one have not survived a crash */
	marks_add(&marks, 100010, 600);
	CHECK_INT(marks_covered(&marks, 650), 100010);
	CHECK_INT(marks_covered(&marks, 550), 10);
	marks_add(&marks, 100020, 400);
	CHECK_INT(marks.count, 1);
}

TEST(positions_after_the_header_of_a_page)
{
	static const struct { uint64_t reported, replayed; bool is_covered; } cases[] = {
		{ 5 * PAGE + 24, 5 * PAGE, true }, { 5 * PAGE + 40, 5 * PAGE, true }, { 0x5000028, 0x5000000, true },
		{ 5 * PAGE + 32, 5 * PAGE, false }, { 5 * PAGE + 48, 5 * PAGE, false }, { 5 * PAGE + 24, 5 * PAGE - 8, false },
		{ 5 * PAGE, 5 * PAGE, true },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct marks marks = { 0 };

		marks_add(&marks, 10, cases[i].reported);
		CHECK_INT(marks_covered(&marks, cases[i].replayed) > 0, cases[i].is_covered);
	}
}

TEST(old_marks_are_thinned_out)
{
	struct marks marks = { 0 };

	for (int i = 1; i <= 10000; i++)
		marks_add(&marks, i, (uint64_t)i * 100);
	CHECK(marks.count <= MARKS_MOST);
	for (unsigned i = 1; i < marks.count; i++)
		CHECK(marks.list[i].at > marks.list[i - 1].at && marks.list[i].position > marks.list[i - 1].position);
	/* a covered time is never too late, and too early by a part of its age */
	for (int i = 1; i <= 10000; i++) {
		usec_t at = marks_covered(&marks, (uint64_t)i * 100 + 50);

		CHECK(at <= i && i - at <= (10000 - i) / 3 + 1);
	}
}

TEST(a_standby_covers_marks_that_it_has_replayed)
{
	start("[databases]\nshop = " HOSTS " target_session_attrs=primary\n");
	CHECK_INT(covers(1), 0);
	fake_pass(0.1);
	answer("h2:5432", CLAIM_STANDBY, 1, 1500);
	answer("h1:5432", CLAIM_PRIMARY, 1, 2000);
	CHECK_INT(covers(1), 0);
	CHECK_INT(host("h2:5432")->lag / MS, 100);
	fake_pass(0.1);
	answer("h2:5432", CLAIM_STANDBY, 1, 2000);
	CHECK_INT(covers(1), 100);
	/* the position was replayed before the primary said it */
	answer("h1:5432", CLAIM_PRIMARY, 1, 2000);
	CHECK_INT(covers(1), 200);
	CHECK_INT(host("h2:5432")->lag, 0);
	CHECK_INT(covers(2), 0);
	/* answers of a login have no position */
	fake_pass(0.1);
	answer("h1:5432", CLAIM_PRIMARY, 0, 0);
	answer("h2:5432", CLAIM_STANDBY, 0, 0);
	CHECK_INT(covers(1), 200);
	/* an answer that a login has overtaken */
	fake_pass(-0.05);
	answer("h1:5432", CLAIM_PRIMARY, 1, 2000);
	CHECK_INT(covers(1), 250);
	fake_end();
}

TEST(marks_die_with_the_primary_and_its_timeline)
{
	start("[databases]\nshop = " HOSTS " target_session_attrs=primary\n");
	/* no primary: time stands still */
	fake_pass(0.1);
	host_note_failure(host("h1:5432"), "connect failed", fake.now);
	roles_decide_due(fake.pools, fake.now);
	CHECK(!roles()->primary);
	CHECK_INT(covers(1), 0);
	CHECK_INT(host("h2:5432")->lag, 0);
	fake_pass(0.1);
	answer("h3:5432", CLAIM_PRIMARY, 2, 1100);
	CHECK(roles()->places[1].fresh_to == 0);
	/* h2 is on the old timeline, perhaps behind the place where the new one begins */
	answer("h2:5432", CLAIM_STANDBY, 1, 5000);
	CHECK(roles()->places[1].fresh_to == 0);
	answer("h2:5432", CLAIM_STANDBY, 2, 1100);
	CHECK_INT(covers(1), 200);
	/* the same host on another timeline */
	fake_pass(0.1);
	answer("h3:5432", CLAIM_PRIMARY, 3, 1200);
	CHECK(roles()->places[1].fresh_to == 0);
	answer("h2:5432", CLAIM_STANDBY, 2, 1300);
	CHECK(roles()->places[1].fresh_to == 0);
	fake_end();
}

TEST(a_standby_that_may_have_restarted_covers_nothing)
{
	start("[databases]\nshop = " HOSTS " target_session_attrs=primary\n");
	CHECK_INT(covers(1), 0);
	host_forget(host("h2:5432"));
	roles_decide_due(fake.pools, fake.now);
	CHECK(roles()->places[1].fresh_to == 0);
	CHECK_INT(covers(2), 0);
	answer("h2:5432", CLAIM_STANDBY, 1, 900);
	CHECK(roles()->places[1].fresh_to == 0);
	answer("h2:5432", CLAIM_STANDBY, 1, 1000);
	CHECK_INT(covers(1), 0);
	CHECK(roles()->places[1].fresh_to > 0);
	fake_end();
}

TEST(max_lag)
{
	start("[databases]\nshop = " HOSTS " target_session_attrs=prefer-standby max_lag=1\n");
	CHECK(suits(1, TARGET_PREFER_STANDBY) && suits(1, TARGET_STANDBY) && suits(1, TARGET_READ_ONLY) && !suits(0, TARGET_PREFER_STANDBY));
	for (int i = 0; i < 15; i++) {
		fake_pass(0.1);
		answer("h1:5432", CLAIM_PRIMARY, 1, 1001 + (uint64_t)i);
		answer("h2:5432", CLAIM_STANDBY, 1, 1000);
		answer("h3:5432", CLAIM_STANDBY, 1, 1001 + (uint64_t)i);
		CHECK_INT(suits(1, TARGET_PREFER_STANDBY), i < 10);
		CHECK(suits(2, TARGET_PREFER_STANDBY));
	}
	CHECK(!suits(1, TARGET_STANDBY) && !suits(1, TARGET_READ_ONLY));
	/* an idle primary takes no standby out */
	for (int i = 0; i < 600; i++) {
		fake_pass(0.1);
		answer("h1:5432", CLAIM_PRIMARY, 1, 1015);
		answer("h2:5432", CLAIM_STANDBY, 1, 1000);
		answer("h3:5432", CLAIM_STANDBY, 1, 1015);
		CHECK(!suits(1, TARGET_STANDBY) && suits(2, TARGET_STANDBY));
	}
	/* an unknown lag is too much */
	host_forget(host("h3:5432"));
	roles_decide_due(fake.pools, fake.now);
	CHECK(!suits(2, TARGET_STANDBY) && suits(0, TARGET_PREFER_STANDBY));
	answer("h3:5432", CLAIM_STANDBY, 1, 1015);
	CHECK(suits(2, TARGET_STANDBY) && !suits(0, TARGET_PREFER_STANDBY));
	/* it stays as it is while there is no primary */
	host_note_failure(host("h1:5432"), "connect failed", fake.now);
	for (int i = 0; i < 30; i++) {
		fake_pass(0.1);
		answer("h2:5432", CLAIM_STANDBY, 1, 1000);
		answer("h3:5432", CLAIM_STANDBY, 1, 1015);
		CHECK(!suits(1, TARGET_STANDBY) && suits(2, TARGET_STANDBY));
	}
	fake_end();
}

/* h1 and h2 answer again; h3 has not replayed anything since the beginning. */
static void turn(uint64_t position)
{
	fake_pass(0.1);
	answer("h1:5432", CLAIM_PRIMARY, 1, position);
	answer("h2:5432", CLAIM_STANDBY, 1, position);
	answer("h3:5432", CLAIM_STANDBY, 1, 1000);
}

TEST(clients_read_their_writes)
{
	struct fake_client *client;

	start("[databases]\nshop = " HOSTS " reads=transaction load_balance_hosts=disable\n");
	client = reader("shop", TARGET_PREFER_STANDBY);
	CHECK_TEXT(route(client), "h2:5432");
	fake_pass(0.05);
	end_at(client, TARGET_PRIMARY, "h1:5432");
	CHECK_TEXT(route(client), "h1:5432");
	/* a mark of the same moment may be older than the acknowledgement */
	answer("h1:5432", CLAIM_PRIMARY, 1, 1100);
	answer("h2:5432", CLAIM_STANDBY, 1, 1100);
	CHECK_TEXT(route(client), "h1:5432");
	turn(1100);
	CHECK_TEXT(route(client), "h2:5432");
	/* a read on the primary counts as well: a standby must not show older data */
	fake_pass(0.01);
	end_at(client, TARGET_PREFER_STANDBY, "h1:5432");
	CHECK_TEXT(route(client), "h1:5432");
	turn(1100);
	CHECK_TEXT(route(client), "h2:5432");
	/* a client that has to read from standbys waits */
	client = reader("shop", TARGET_STANDBY);
	CHECK_TEXT(route(client), "h2:5432");
	end_at(client, TARGET_PRIMARY, "h1:5432");
	CHECK(pool_for_client(&client->pooled, fake.now)->host == fake.pools->no_host);
	fake_want(client);
	CHECK(client->pooled.pool->host == fake.pools->no_host);
	turn(1200);
	CHECK_TEXT(client->pooled.pool->host->key, "h2:5432");
	fake_end();
}

TEST(clients_do_not_go_back_in_time)
{
	struct fake_client *client;

	start("[databases]\nshop = " HOSTS " reads=transaction load_balance_hosts=disable\n");
	client = reader("shop", TARGET_PREFER_STANDBY);
	turn(1000);
	/* it has read from h3, which may have replayed more than is known */
	fake_pass(0.05);
	end_at(client, TARGET_PREFER_STANDBY, "h3:5432");
	CHECK_TEXT(route(client), "h3:5432");
	host_note_failure(host("h3:5432"), "connect failed", fake.now);
	roles_decide_due(fake.pools, fake.now);
	CHECK_TEXT(route(client), "h1:5432");
	fake_pass(0.05);
	answer("h1:5432", CLAIM_PRIMARY, 1, 1000);
	answer("h2:5432", CLAIM_STANDBY, 1, 1000);
	CHECK_TEXT(route(client), "h2:5432");
	end_at(client, TARGET_PREFER_STANDBY, "h2:5432");
	/* after a restart the same host may show less */
	host_forget(host("h2:5432"));
	answer("h2:5432", CLAIM_STANDBY, 1, 1000);
	CHECK_TEXT(route(client), "h1:5432");
	fake_pass(0.1);
	answer("h1:5432", CLAIM_PRIMARY, 1, 1000);
	answer("h2:5432", CLAIM_STANDBY, 1, 1000);
	CHECK_TEXT(route(client), "h2:5432");
	fake_end();
}

/* h3 may have shown the client data that h2 lacks. */
TEST(without_a_primary_reads_do_not_go_back_in_time)
{
	struct fake_client *client;

	start("[databases]\nshop = " HOSTS " reads=transaction load_balance_hosts=disable\n");
	client = reader("shop", TARGET_PREFER_STANDBY);
	answer("h1:5432", CLAIM_PRIMARY, 1, 1050);
	end_at(client, TARGET_PREFER_STANDBY, "h3:5432");
	client->pooled.read_incarnation = 0;
	fake_pass(0.1);
	host_note_failure(host("h1:5432"), "connect failed", fake.now);
	roles_decide_due(fake.pools, fake.now);
	fake_want(client);
	fake_pass(1.1);
	answer("h2:5432", CLAIM_STANDBY, 1, 1060);
	/* h1 may come back with more */
	CHECK(client->pooled.pool->host == fake.pools->no_host);
	answer("h1:5432", CLAIM_STANDBY, 1, 1100);
	CHECK_TEXT(client->pooled.pool->host->key, "h1:5432");
	client->pooled.read_incarnation = 0;
	CHECK(pool_for_client(&client->pooled, fake.now)->host != host("h2:5432"));
	fake_end();
}

TEST(without_a_primary_reads_go_on)
{
	struct fake_client *client;

	start("[databases]\nshop = " HOSTS " reads=transaction load_balance_hosts=disable\n");
	client = reader("shop", TARGET_PREFER_STANDBY);
	end_at(client, TARGET_PREFER_STANDBY, "h3:5432");
	fake_pass(0.1);
	host_note_failure(host("h1:5432"), "connect failed", fake.now);
	host_note_failure(host("h3:5432"), "connect failed", fake.now);
	roles_decide_due(fake.pools, fake.now);
	CHECK(pool_for_client(&client->pooled, fake.now)->host == fake.pools->no_host);
	fake_want(client);
	/* Patroni has restarted h1 as a standby; both may have more than they have replayed yet */
	fake_pass(0.9);
	answer("h1:5432", CLAIM_STANDBY, 1, 1000);
	answer("h2:5432", CLAIM_STANDBY, 1, 1000);
	CHECK(client->pooled.pool->host == fake.pools->no_host);
	fake_pass(0.2);
	answer("h1:5432", CLAIM_STANDBY, 1, 1000);
	answer("h2:5432", CLAIM_STANDBY, 1, 1000);
	CHECK(client->pooled.pool->host != fake.pools->no_host);
	/* but a write that no standby is known to have stays visible */
	client->pooled.wrote_at = fake.now - 1;
	CHECK(pool_for_client(&client->pooled, fake.now)->host == fake.pools->no_host);
	fake_end();
}

/* h1, the last primary, is a standby again, but of a primary that pgweir has not found yet. */
TEST(without_a_primary_reads_do_not_go_back_behind_an_unknown_primary)
{
	static const uint32_t timelines[] = { 2, 1 };

	for (int i = 0; i < 2; i++) {
		struct fake_client *client;

		start("[databases]\nshop = " HOSTS " reads=transaction load_balance_hosts=disable\n");
		client = reader("shop", TARGET_PREFER_STANDBY);
		fake_pass(0.1);
		host_note_failure(host("h1:5432"), "connect failed", fake.now);
		roles_decide_due(fake.pools, fake.now);
		fake_pass(1.1);
		answer("h1:5432", CLAIM_STANDBY, timelines[i], 2000);
		answer("h2:5432", CLAIM_STANDBY, timelines[i], 3000);
		end_at(client, TARGET_PREFER_STANDBY, "h2:5432");
		host_note_failure(host("h3:5432"), "connect failed", fake.now);
		/* the timeline of a checkpoint, which is older; or the one that the standby follows */
		CHECK(pool_client_needs(&client->pooled, host("h1:5432")) > client->pooled.read_at);
		CHECK(pool_client_needs(&client->pooled, host("h2:5432")) == 0);
		fake_end();
	}
}

/* How many of 3000 clients read from each host. */
static void count_readers(int counts[3])
{
	memset(counts, 0, 3 * sizeof(*counts));
	for (int i = 0; i < 3000; i++) {
		struct fake_client *client = reader("shop", TARGET_READ);

		counts[route(client)[1] - '1']++;
		fake_leave(client);
	}
}

TEST(the_primary_has_a_share_of_reads)
{
	struct fake_client *client;
	int counts[3];

	start("[databases]\nshop = " HOSTS " reads=transaction\n");
	/* no host has come back lately */
	for (int i = 0; i < 700; i++)
		turn(1000);
	count_readers(counts);
	for (int i = 0; i < 3; i++)
		CHECK(counts[i] > 900 && counts[i] < 1100);
	/* a reader stays with the primary if it was a choice ... */
	do
		client = reader("shop", TARGET_READ);
	while (strcmp(route(client), "h1:5432") != 0);
	do_not_settle();
	for (int i = 0; i < 100; i++) {
		end_at(client, TARGET_READ, "h1:5432");
		turn(1000);
		CHECK_TEXT(route(client), "h1:5432");
	}
	/* ... also after a write elsewhere in the meantime, but a write on the primary is no choice */
	end_at(client, TARGET_PRIMARY, "h1:5432");
	turn(1000);
	CHECK_TEXT(route(client), "h1:5432");
	do_not_settle();
	do {
		client = reader("shop", TARGET_READ);
		end_at(client, TARGET_PRIMARY, "h1:5432");
		CHECK_TEXT(route(client), "h1:5432");
		end_at(client, TARGET_READ, "h1:5432");
		turn(1000);
	} while (strcmp(route(client), "h1:5432") == 0);
	fake_reload("[databases]\nshop = " HOSTS " reads=transaction reads_on_primary=off\n");
	count_readers(counts);
	CHECK_INT(counts[0], 0);
	/* the last resort */
	host_note_failure(host("h2:5432"), "connect failed", fake.now);
	host_note_failure(host("h3:5432"), "connect failed", fake.now);
	roles_decide_due(fake.pools, fake.now);
	CHECK_TEXT(route(reader("shop", TARGET_READ)), "h1:5432");
	fake_end();
}

/* A reader that writes, and then reads without pauses until it waits for a standby. Returns the client. */
static struct fake_client *settle(int *reads)
{
	struct fake_client *client = reader("shop", TARGET_READ);

	end_at(client, TARGET_PRIMARY, "h1:5432");
	for (*reads = 0; strcmp(route(client), "h1:5432") == 0 && *reads < 1000; ++*reads)
		end_at(client, TARGET_READ, "h1:5432");
	CHECK(client->pooled.settles);
	pool_client_move(&client->pooled, pool_at_host(client->pooled.pool, fake.pools->no_host, fake.now), fake.now);
	pool_client_become(fake.pools, &client->pooled, CLIENT_WAITING, fake.now);
	return client;
}

/* A client without pauses, whose last write only the primary has: some of its reads wait for a standby. */
TEST(a_busy_reader_returns_to_a_standby)
{
	struct fake_client *client;
	int reads;

	start("[databases]\nshop = " HOSTS " reads=transaction reads_on_primary=off\n");
	client = settle(&reads);
	CHECK(reads > 0 && reads < 1000);
	CHECK(roles()->is_waited_for);
	turn(1100);
	CHECK_TEXT(client->pooled.pool->host->key, "h2:5432");
	/* not for long */
	client = settle(&reads);
	fake_pass(0.2);
	roles_tick(fake.pools, fake.now);
	CHECK(client->pooled.pool->host == fake.pools->no_host);
	fake_pass(0.1);
	roles_tick(fake.pools, fake.now);
	CHECK_TEXT(client->pooled.pool->host->key, "h1:5432");
	/* a standby that lags is not worth a wait */
	turn(1100);
	answer("h1:5432", CLAIM_PRIMARY, 1, 1200);
	fake_pass(0.3);
	answer("h1:5432", CLAIM_PRIMARY, 1, 1300);
	answer("h2:5432", CLAIM_STANDBY, 1, 1100);
	answer("h3:5432", CLAIM_STANDBY, 1, 1000);
	client = reader("shop", TARGET_READ);
	end_at(client, TARGET_PRIMARY, "h1:5432");
	for (int i = 0; i < 200; i++) {
		CHECK_TEXT(route(client), "h1:5432");
		end_at(client, TARGET_READ, "h1:5432");
	}
	fake_end();
}

/* A reader without pauses at a standby: some of its reads wait for the standby that has returned. */
TEST(a_busy_reader_settles_on_another_standby)
{
	struct fake_client *client;
	int reads;

	start("[databases]\nshop = " HOSTS " reads=transaction load_balance_hosts=disable reads_on_primary=off\n");
	client = reader("shop", TARGET_READ);
	fake_pass(0.01);
	end_at(client, TARGET_READ, "h3:5432");
	for (reads = 0; strcmp(route(client), "h3:5432") == 0 && reads < 1000; reads++)
		end_at(client, TARGET_READ, "h3:5432");
	CHECK(client->pooled.settles);
	pool_client_move(&client->pooled, pool_at_host(client->pooled.pool, fake.pools->no_host, fake.now), fake.now);
	pool_client_become(fake.pools, &client->pooled, CLIENT_WAITING, fake.now);
	roles_tick(fake.pools, fake.now);
	CHECK(client->pooled.pool->host == fake.pools->no_host);
	turn(1100);
	CHECK_TEXT(client->pooled.pool->host->key, "h2:5432");
	fake_end();
}

TEST(writes_of_all_clients_of_a_database)
{
	struct fake_client *writer, *other, *elsewhere;

	start("[databases]\nshop = " HOSTS " reads=transaction\nshop_ro = host=h3,h2,h1 dbname=shop target_session_attrs=prefer-standby\n"
	      "other = " HOSTS " target_session_attrs=prefer-standby\n[pgbouncer]\nread_your_writes = database\n");
	writer = reader("shop", TARGET_ANY);
	CHECK_INT(writer->pooled.target, TARGET_PRIMARY);
	other = reader("shop_ro", TARGET_ANY);
	elsewhere = reader("other", TARGET_ANY);
	turn(1000);
	CHECK(strcmp(route(other), "h1:5432") != 0 && strcmp(route(elsewhere), "h1:5432") != 0);
	fake_pass(0.01);
	end_at(writer, TARGET_PRIMARY, "h1:5432");
	CHECK_TEXT(route(other), "h1:5432");
	CHECK(strcmp(route(elsewhere), "h1:5432") != 0);
	turn(1100);
	CHECK_TEXT(route(other), "h2:5432");
	/* another list of hosts: what was written until now counts */
	fake_reload("[databases]\nshop = host=h0,h1,h2 reads=transaction\nshop_ro = host=h0,h1,h2 dbname=shop target_session_attrs=prefer-standby\n"
		    "[pgbouncer]\nread_your_writes = database\n");
	other = reader("shop_ro", TARGET_ANY);
	CHECK_TEXT(route(other), "h1:5432");
	/* h3 is in no list now */
	fake_pass(0.1);
	answer("h1:5432", CLAIM_PRIMARY, 1, 1200);
	answer("h2:5432", CLAIM_STANDBY, 1, 1200);
	CHECK_TEXT(route(other), "h2:5432");
	fake_end();
}

TEST(read_your_writes_is_off)
{
	struct fake_client *client;

	start("[databases]\nshop = " HOSTS " reads=transaction load_balance_hosts=disable read_your_writes=off\n");
	client = reader("shop", TARGET_PREFER_STANDBY);
	fake_pass(0.05);
	end_at(client, TARGET_PRIMARY, "h1:5432");
	CHECK_TEXT(route(client), "h2:5432");
	fake_end();
}

TEST(servers_without_positions)
{
	struct fake_client *client;

	fake_start("[databases]\nshop = " HOSTS " reads=transaction load_balance_hosts=disable\n");
	CHECK(database_get(fake.pools, "shop", true, fake.now));
	CHECK(roles_begin(database_find(fake.pools, "shop"), fake.now));
	answer("h1:5432", CLAIM_PRIMARY, 0, 0);
	answer("h2:5432", CLAIM_STANDBY, 0, 0);
	answer("h3:5432", CLAIM_STANDBY, 0, 0);
	client = reader("shop", TARGET_PREFER_STANDBY);
	CHECK_TEXT(route(client), "h2:5432");
	end_at(client, TARGET_PRIMARY, "h1:5432");
	fake_pass(1);
	answer("h1:5432", CLAIM_PRIMARY, 0, 0);
	answer("h2:5432", CLAIM_STANDBY, 0, 0);
	CHECK_TEXT(route(client), "h1:5432");
	fake_end();
}

UNIT_MAIN
