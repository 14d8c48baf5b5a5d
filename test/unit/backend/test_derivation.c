/*
 * Key derivations: requests for the same key share a derivation, a derivation without waiting logins is cancelled, and a server can cause a limited
 * number. The test world replaces the derivation processes and answers in the next turn.
 */
#include "backend/derivation.h"
#include "conn/world.h"
#include "pg/scram.h"
#include "unit.h"
#include "whole.h"

#define INI WHOLE_INI("", "")

/* Embedded in any struct that waits. */
struct waiter {
	struct derivation_wait wait;
	int answers;
	struct waiter *ends;		/* a waiter that leaves when this waiter is answered */
	uint8_t salted[SCRAM_KEY];
};

static struct waiter waiter[4];
static struct address server;
static struct user *user;

static void on_done(struct derivation_wait *wait, const struct verify_answer *answer)
{
	struct waiter *w = LIST_OBJECT(wait, struct waiter, wait);

	CHECK(!wait->derivation);
	CHECK_INT(answer->verdict, VERIFIED_YES);
	w->answers++;
	memcpy(w->salted, answer->salted, SCRAM_KEY);
	if (w->ends)
		derivation_leave(&w->ends->wait);
}

static struct peer peer;

static void begin(void)
{
	whole_open(INI);
	peer.world = whole.world;
	user = user_get(whole.world->pools, "u");
	memset(waiter, 0, sizeof(waiter));
	for (int i = 0; i < 4; i++) {
		derivation_wait_init(&waiter[i].wait, &peer);
		waiter[i].wait.done = on_done;
	}
	CHECK(user && address_from_ip(&server, "10.0.0.1", 5432));
}

static const struct derivation_login login = { &server, NULL };

static struct derivation_question question(const char *password)
{
	return (struct derivation_question){ .user = "u", .password = password, .salt = (const uint8_t *)"salt", .salt_size = 4,
					     .iterations = 10 };
}

static void ask(int i, const char *password)
{
	const struct derivation_question q = question(password);

	CHECK_INT(derivation_ask(whole.world, &q, NULL, &login, &waiter[i].wait), VERIFIERS_ASKED);
	CHECK(waiter[i].wait.derivation != NULL);
}

static bool none_is_under_way(void)
{
	return !whole.world->logins.derivations->under_way;
}

TEST(key_is_derived_from_the_password)
{
	uint8_t want[SCRAM_KEY];

	begin();
	ask(0, "secret");
	CHECK_INT(waiter[0].answers, 0);		/* not from inside the call */
	house_settle(&whole);
	CHECK_INT(waiter[0].answers, 1);
	CHECK(scram_salted_derive("secret", (const uint8_t *)"salt", 4, 10, want));
	CHECK(memcmp(waiter[0].salted, want, SCRAM_KEY) == 0);
	CHECK(none_is_under_way());
	whole_close();
}

TEST(equal_requests_share_a_derivation)
{
	begin();
	ask(0, "secret");
	ask(1, "secret");
	CHECK(waiter[0].wait.derivation == waiter[1].wait.derivation);
	house_settle(&whole);
	CHECK(waiter[0].answers == 1 && waiter[1].answers == 1);
	CHECK(memcmp(waiter[0].salted, waiter[1].salted, SCRAM_KEY) == 0);
	whole_close();
}

TEST(requests_are_compared_in_full)
{
	struct derivation_question q = question("secret");

	begin();
	CHECK_INT(derivation_ask(whole.world, &q, NULL, &login, &waiter[0].wait), VERIFIERS_ASKED);
	q.iterations++;
	CHECK_INT(derivation_ask(whole.world, &q, NULL, &login, &waiter[1].wait), VERIFIERS_ASKED);
	q.iterations--;
	q.salt = (const uint8_t *)"sals";
	CHECK_INT(derivation_ask(whole.world, &q, NULL, &login, &waiter[2].wait), VERIFIERS_ASKED);
	q.salt = (const uint8_t *)"salt";
	q.password = "secreT";
	CHECK_INT(derivation_ask(whole.world, &q, NULL, &login, &waiter[3].wait), VERIFIERS_ASKED);
	for (int i = 0; i < 4; i++)
		for (int k = 0; k < i; k++)
			CHECK(waiter[i].wait.derivation != waiter[k].wait.derivation);
	house_settle(&whole);
	for (int i = 0; i < 4; i++)
		CHECK_INT(waiter[i].answers, 1);
	whole_close();
}

TEST(answered_waiter_may_cancel_another)
{
	begin();
	ask(0, "secret");
	ask(1, "secret");
	waiter[0].ends = &waiter[1];
	house_settle(&whole);
	CHECK(waiter[0].answers == 1 && waiter[1].answers == 0);
	whole_close();
}

TEST(derivation_without_waiters_is_cancelled)
{
	begin();
	ask(0, "secret");
	ask(1, "secret");
	derivation_leave(&waiter[0].wait);
	CHECK(!none_is_under_way());
	derivation_leave(&waiter[1].wait);
	/* no process had started on the request */
	CHECK(none_is_under_way());
	derivation_leave(&waiter[1].wait);
	house_settle(&whole);
	CHECK(waiter[0].answers == 0 && waiter[1].answers == 0);
	whole_close();
}

TEST(running_derivations_end_with_the_process)
{
	begin();
	ask(0, "secret");
	derivation_leave(&waiter[0].wait);
	ask(0, "other");
	list_remove(&waiter[0].wait.node);
	whole_close();
}

TEST(out_of_memory)
{
	const struct derivation_question q = question("secret");

	begin();
	whole_memory_ends(0);
	CHECK_INT(derivation_ask(whole.world, &q, NULL, &login, &waiter[0].wait), VERIFIERS_NO_MEMORY);
	CHECK(whole_memory_is_back() > 0);
	CHECK(!waiter[0].wait.derivation);
	CHECK(none_is_under_way());
	whole_close();
}

/* ---- how many a server may cause ---- */

/* Returns how many keys are derived for logins of this user at the server that sends another salt each time; at most `most`. */
static int granted(const struct address *from, const struct user *of, int most)
{
	static uint32_t salt;
	const struct derivation_login at = { from, of };
	struct derivation_question q = question("secret");
	int count = 0;

	for (; count < most; count++, derivation_leave(&waiter[3].wait)) {
		salt++;
		q.salt = (const uint8_t *)&salt;
		if (derivation_ask(whole.world, &q, NULL, &at, &waiter[3].wait) != VERIFIERS_ASKED)
			break;
	}
	return count;
}

TEST(derivations_per_server_are_limited)
{
	struct address other_port, other_host;

	begin();
	CHECK_INT(granted(&server, user, 100), 16);
	CHECK_INT(granted(&server, user_get(whole.world->pools, "v"), 100), 16);
	CHECK(address_from_ip(&other_port, "10.0.0.1", 5433) && address_from_ip(&other_host, "10.0.0.2", 5432));
	CHECK_INT(granted(&other_port, user, 100), 16);
	CHECK_INT(granted(&other_host, user, 100), 16);
	CHECK_INT(granted(&server, user, 1), 0);
	whole_close();
}

TEST(limit_grows_by_one_per_period)
{
	begin();
	CHECK_INT(granted(&server, user, 100), 16);
	whole.world->now += 5 * USEC - 1;
	CHECK_INT(granted(&server, user, 100), 0);
	whole.world->now++;
	CHECK_INT(granted(&server, user, 100), 1);
	whole.world->now += 15 * USEC;
	CHECK_INT(granted(&server, user, 100), 3);
	/* no more than there were in the beginning */
	whole.world->now += 10000 * USEC;
	CHECK_INT(granted(&server, user, 100), 16);
	whole_close();
}

TEST(shared_derivation_does_not_count)
{
	const struct derivation_question q = question("secret");
	struct derivation_login at;

	begin();
	at = (struct derivation_login){ &server, user };
	CHECK_INT(granted(&server, user, 100), 16);
	ask(0, "secret");
	CHECK_INT(derivation_ask(whole.world, &q, NULL, &at, &waiter[1].wait), VERIFIERS_ASKED);
	for (int i = 0; i < 100 && !none_is_under_way(); i++)
		house_settle(&whole);
	CHECK(waiter[0].answers == 1 && waiter[1].answers == 1);
	CHECK_INT(derivation_ask(whole.world, &q, NULL, &at, &waiter[2].wait), VERIFIERS_TOO_MANY);
	whole_close();
}

TEST(unused_counter_is_removed)
{
	begin();
	CHECK_INT(granted(&server, user, 3), 3);
	derivations_tick(whole.world->logins.derivations, whole.world->now + 16 * 5 * USEC - 1);
	CHECK(whole.world->logins.derivations->budgets);
	derivations_tick(whole.world->logins.derivations, whole.world->now + 16 * 5 * USEC);
	CHECK(!whole.world->logins.derivations->budgets);
	whole_close();
}

/* ---- in the loop ---- */

TEST(derivations_in_the_loop_are_limited)
{
	struct derivation_question q = question("secret");
	uint8_t salted[SCRAM_KEY], want[SCRAM_KEY];

	CHECK(derivation_in_loop(&q, salted));
	CHECK(scram_salted_derive("secret", q.salt, q.salt_size, q.iterations, want));
	CHECK(memcmp(salted, want, sizeof(want)) == 0);
	q.iterations = DERIVATION_IN_LOOP + 1;
	CHECK(!derivation_in_loop(&q, salted));
}

UNIT_MAIN
