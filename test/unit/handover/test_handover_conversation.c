/* The running process in an online restart: the request of another process, which the test plays. */
#include "handover/handover.h"

#include "base/bytes.h"
#include "base/version.h"
#include "unit.h"
#include "whole.h"

#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

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

	for (int i = 0; i < 100 && records_next(asker, &r, 0) == RECORDS_AGAIN; i++)
		house_settle(&whole);
	CHECK_INT(r.type, type);
	return r;
}

/* Connects as a new process does. Returns a non-blocking descriptor, or -1. */
static int connect_to_giver(void)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int size = snprintf(a.sun_path + 1, sizeof(a.sun_path) - 1, "pgweir-takeover/pgweir-test-give/.s.PGSQL.%u",
			    (unsigned)whole.world->conf->settings.listen_port);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	return connect(fd, (struct sockaddr *)&a, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)size)) == 0 ? fd : -1;
}

/* The other process connects and greets. */
static bool begin(void)
{
	struct bytes out = BYTES_EMPTY;
	struct record hello;
	struct unpack in;
	bool sent;
	int fd;

	whole_open(WHOLE_INI("", SOCKET));
	due = false;
	giver = giver_open(whole.base, whole.world, &pidfile, &due);
	fd = giver ? connect_to_giver() : -1;
	if (fd < 0)
		return false;
	asker = records_new(fd);
	hello = heard(HANDOVER_HELLO);
	in = unpack_of(hello.body, hello.size);
	CHECK_TEXT(unpack_text(&in), "pgweir");
	CHECK_INT(unpack_u32(&in), HANDOVER_VERSION);
	pack_text(&out, "pgweir");
	bytes_append_u32(&out, HANDOVER_VERSION);
	pack_text(&out, PGWEIR_VERSION);
	sent = records_send(asker, HANDOVER_HELLO, &out, -1, PATIENCE);
	bytes_free(&out);
	return sent;
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
