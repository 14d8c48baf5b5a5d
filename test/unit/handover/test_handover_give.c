/* The running process in an online restart: the request of another process, which the test plays. */
#include "handover/handover.h"

#include "base/bytes.h"
#include "unit.h"
#include "whole.h"

#define PATIENCE 20000
/* an abstract socket: no file is left */
#define SOCKET "unix_socket_dir=@pgweir-test-give\n"

static struct pidfile *pidfile;
static struct giver *giver;
static struct records *asker;
static bool due;

static struct record heard(uint8_t type)
{
	struct record r = { .type = 0 };

	for (int i = 0; i < 100 && records_next(asker, &r) == RECORDS_AGAIN; i++)
		house_settle(&whole);
	CHECK_INT(r.type, type);
	return r;
}

/* The other process connects and greets. */
static bool begin(void)
{
	struct record hello;
	char why[128];
	int fd;

	whole_open(WHOLE_INI("", SOCKET));
	due = false;
	giver = giver_open(whole.base, whole.world, &pidfile, &due);
	if (!giver || handover_connect(&whole.world->conf->settings, &fd, why, sizeof(why)) != TAKER_FOUND)
		return false;
	asker = records_new(fd);
	hello = heard(HANDOVER_HELLO);
	CHECK(handover_read_hello(&hello, why, sizeof(why)));
	return handover_say_hello(asker, PATIENCE);
}

static void end(void)
{
	records_free(&asker);
	giver_close(&giver);
	CHECK(!giver);
	whole_close();
}

TEST(request_is_noted_and_handed_over_in_a_tick)
{
	REQUIRE(begin());
	CHECK(records_send(asker, HANDOVER_TAKE, NULL, -1, PATIENCE));
	for (int i = 0; i < 100 && !due; i++)
		house_settle(&whole);
	CHECK(due);
	end();
}

TEST(refusal_says_why)
{
	struct record refusal;
	struct unpack in;

	REQUIRE(begin());
	whole.world->pools->paused = true;
	CHECK(records_send(asker, HANDOVER_TAKE, NULL, -1, PATIENCE));
	refusal = heard(HANDOVER_REFUSAL);
	in = unpack_of(refusal.body, refusal.size);
	CHECK_TEXT(unpack_text(&in), "it is paused or suspended: RESUME it first");
	CHECK(!due);
	whole.world->pools->paused = false;
	end();
}

UNIT_MAIN
