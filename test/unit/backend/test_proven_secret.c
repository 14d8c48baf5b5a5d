/* Secrets that logins have proven: which secret is kept, integrity after an allocation failure, and handover to another process. */
#include "backend/proven_secret.h"

#include "backend/server_info.h"
#include "unit.h"
#include "whole.h"

#define INI WHOLE_INI("pool_size=1", "")

static struct pool *pool;

static const struct proven_secret *found(void)
{
	const struct server_info *info = pool->server_info;

	return info ? info->proven.found : NULL;
}

static const struct proven_secret *shown(void)
{
	const struct server_info *info = pool->server_info;

	return info ? info->proven.shown : NULL;
}

static bool begin(void)
{
	struct house_end *end;
	struct client *c;

	whole_open(INI);
	c = whole_login(&end);
	pool = c ? c->pooled.pool : NULL;
	CHECK(pool && !found() && !shown());
	return pool;
}

static const char *text_of(const struct proven_secret *f)
{
	return f ? f->secret->bytes : "none";
}

static void find(const char *text, uint64_t answer)
{
	struct secret *secret = secret_new(text, strlen(text));

	proven_secret_keep(pool, whole.world, secret, answer);
	secret_free(&secret);
}

static void show(const char *text)
{
	struct secret *secret = secret_new(text, strlen(text));

	shown_keep(pool, whole.world, secret);
	secret_free(&secret);
}

static void fail(enum login_failure failure)
{
	pool_login_failed(pool, failure, whole.world->now);
	CHECK(pool->login_failed);
}

/* A login that began before a change of the secret may end after a later login. */
TEST(latest_answer_is_used)
{
	REQUIRE(begin());
	find("one", 5);
	CHECK_TEXT(text_of(found()), "one");
	find("old", 4);
	CHECK_TEXT(text_of(found()), "one");
	find("two", 5);
	CHECK_TEXT(text_of(found()), "two");
	find("two", 9);
	find("three", 8);
	CHECK_TEXT(text_of(found()), "two");
	find("", 10);
	CHECK_TEXT(text_of(found()), "two");
	whole_close();
}

TEST(cleartext_password_is_kept)
{
	REQUIRE(begin());
	show("one");
	CHECK_TEXT(text_of(shown()), "one");
	CHECK(!found());
	show("two");
	CHECK_TEXT(text_of(shown()), "two");
	shown_keep(pool, whole.world, NULL);
	CHECK(!shown());
	shown_keep(pool, whole.world, NULL);
	whole_close();
}

/* A server that refused another secret may accept this one; an unavailable server is still unavailable. */
TEST(new_secret_clears_a_refusal)
{
	REQUIRE(begin());
	find("one", 1);
	fail(FAILURE_LASTING);
	find("one", 2);
	CHECK(pool->login_failed);
	find("two", 3);
	CHECK(!pool->login_failed);
	fail(FAILURE_LASTING);
	show("one");
	CHECK(!pool->login_failed);
	fail(FAILURE_AWAY);
	find("three", 4);
	show("two");
	CHECK(pool->login_failed);
	whole_close();
}

TEST(out_of_memory_keeps_the_earlier_secret)
{
	struct secret *two = secret_new("two", 3);
	int failed = 1, more;

	REQUIRE(begin());
	find("one", 1);
	show("one");
	for (more = 0; failed > 0 && more < 100; more++) {
		bool is_kept;

		whole_memory_ends(more);
		proven_secret_keep(pool, whole.world, two, 2);
		shown_keep(pool, whole.world, two);
		failed = whole_memory_is_back();
		is_kept = strcmp(text_of(shown()), "two") == 0;
		CHECK(is_kept == (failed == 0));
		CHECK(found() && shown());
	}
	CHECK(more > 2 && failed == 0);
	CHECK_TEXT(text_of(found()), "two");
	secret_free(&two);
	whole_close();
}

/* ---- to another process ---- */

TEST(secret_is_handed_over)
{
	struct bytes packed = BYTES_EMPTY;
	struct proven_secret **got;
	struct unpack in;

	REQUIRE(begin());
	find("secret", 3);
	/* the world frees it at the end */
	got = &((struct server_info *)pool->server_info)->proven.shown;
	proven_secret_pack(&packed, found());
	in = unpack_of(bytes_front(&packed), bytes_size(&packed));
	proven_secret_unpack(&in, got);
	CHECK(!in.bad);
	CHECK_TEXT(text_of(*got), "secret");
	CHECK(*got && (*got)->keys && (*got)->answer == 0);
	/* a truncated record is not a secret */
	for (size_t size = 0; size < bytes_size(&packed); size++) {
		in = unpack_of(bytes_front(&packed), size);
		proven_secret_unpack(&in, got);
		CHECK(in.bad);
	}
	bytes_free(&packed);
	whole_close();
}

TEST(missing_secret_is_handed_over)
{
	struct bytes packed = BYTES_EMPTY;
	struct proven_secret *got = NULL;
	struct unpack in;

	proven_secret_pack(&packed, NULL);
	in = unpack_of(bytes_front(&packed), bytes_size(&packed));
	proven_secret_unpack(&in, &got);
	CHECK(!in.bad && !got);
	bytes_free(&packed);
}

UNIT_MAIN
