/* Listening sockets: the sockets that a configuration opens, the sockets of another process that are kept, and their end. */
#include "conn/listen_sockets.h"

#include "net/listen.h"
#include "unit.h"
#include "whole.h"

#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define INI WHOLE_INI("pool_size=1", "")

static struct conf_problems problems;
static struct settings *set;
static struct settings before;
static char directory[] = "/tmp/pgweir-listening-XXXXXX";
static char addresses[64], unix_dir[64];

/* Begins with this configuration; "" for no Unix socket. The port is one that the kernel reported as free. */
static void begin(const char *listen_addr, const char *dir)
{
	struct address a;
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	CHECK(address_from_ip(&a, "127.0.0.1", 0));
	CHECK(bind(fd, &a.u.any, a.size) == 0 && getsockname(fd, &a.u.any, &a.size) == 0);
	close(fd);
	whole_open(INI);
	set = &whole.world->conf->settings;
	before = *set;
	snprintf(addresses, sizeof(addresses), "%s", listen_addr);
	snprintf(unix_dir, sizeof(unix_dir), "%s", dir);
	set->listen_addr = addresses;
	set->unix_socket_dir = unix_dir;
	set->listen_port = ntohs(a.u.v4.sin_port);
	set->so_reuseport = false;
}

static void end(void)
{
	listen_sockets_let_go(&whole.world->listen_sockets, true);
	*set = before;
	conf_problems_free(&problems);
	whole_close();
}

static bool listens(void)
{
	return world_listen(whole.world, NULL, 0, &problems);
}

static int count(void)
{
	return whole.world->listen_sockets.count;
}

static const struct listen_socket *at(int i)
{
	return whole.world->listen_sockets.all[i];
}

/* A socket that another process would listen on. */
static int other_socket(int64_t port)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), on = 1;
	struct address a;

	CHECK(address_from_ip(&a, "127.0.0.1", (uint16_t)port));
	CHECK(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0);
	CHECK(bind(fd, &a.u.any, a.size) == 0 && listen(fd, 5) == 0);
	return fd;
}

/* ---- opening ---- */

TEST(one_address)
{
	char text[64];

	begin("127.0.0.1", "");
	CHECK(listens());
	REQUIRE(count() == 1);
	snprintf(text, sizeof(text), "127.0.0.1:%d", (int)set->listen_port);
	CHECK_TEXT(at(0)->text, text);
	CHECK_INT(problems.count, 0);
	end();
}

TEST(duplicate_address)
{
	begin("127.0.0.1,127.0.0.1", "");
	CHECK(listens());
	CHECK_INT(count(), 1);
	end();
}

/* A wildcard address makes other addresses of its family redundant, in any order. */
TEST(wildcard_addresses)
{
	begin("127.0.0.1,0.0.0.0", "");
	CHECK(listens());
	REQUIRE(count() == 1);
	CHECK(strncmp(at(0)->text, "0.0.0.0:", 8) == 0);
	end();
}

TEST(no_listen_address)
{
	begin("", "");
	CHECK(!listens());
	CHECK_INT(count(), 0);
	REQUIRE(problems.count == 1);
	CHECK(strncmp(problems.items[0].text, "nowhere to listen", 17) == 0);
	end();
}

TEST(address_in_use)
{
	int fd;

	begin("127.0.0.1", "");
	fd = other_socket(set->listen_port);
	CHECK(!listens());
	CHECK_INT(count(), 0);
	CHECK_INT(problems.errors, 1);
	close(fd);
	end();
}

/* The address may currently belong to another machine: the other addresses are served. */
TEST(address_of_another_machine)
{
	begin("192.0.2.1,127.0.0.1", "");
	CHECK(listens());
	CHECK_INT(count(), 1);
	CHECK_INT(problems.count, 0);
	end();
	begin("192.0.2.1", "");
	CHECK(!listens());
	CHECK_INT(problems.errors, 1);
	end();
}

TEST(a_unix_socket)
{
	char path[80];
	struct stat st;

	REQUIRE(mkdtemp(directory));
	begin("", directory);
	CHECK(listens());
	REQUIRE(count() == 1);
	CHECK(listen_socket_is_unix(at(0)));
	snprintf(path, sizeof(path), "%s/.s.PGSQL.%d", directory, (int)set->listen_port);
	CHECK(lstat(path, &st) == 0 && S_ISSOCK(st.st_mode));
	/* a shutdown keeps the socket until the shutdown is complete */
	world_stop_listen_sockets(whole.world, STOP_TCP);
	CHECK_INT(count(), 1);
	world_stop_listen_sockets(whole.world, STOP_ALL);
	CHECK_INT(count(), 0);
	end();
	/* if the sandbox holds the files, the listener does not find its own */
	unlink(path);
	rmdir(directory);
}

/* ---- sockets of others ---- */

TEST(a_socket_of_systemd)
{
	int fd;

	begin("127.0.0.1", "");
	fd = other_socket(0);
	CHECK(world_listen(whole.world, &fd, 1, &problems));
	/* nothing else is opened */
	CHECK_INT(count(), 1);
	CHECK(whole.world->listen_sockets.inherited && at(0)->fd == fd);
	end();
}

TEST(descriptor_that_is_not_a_socket)
{
	int fd;

	begin("127.0.0.1", "");
	fd = dup(0);
	CHECK(!world_listen(whole.world, &fd, 1, &problems));
	CHECK_INT(problems.errors, 1);
	CHECK(!world_offer_listen_socket(whole.world, fd, false, &problems));
	CHECK_INT(whole.world->listen_sockets.offer_count, 0);
	close(fd);
	end();
}

TEST(offered_socket_in_the_configuration)
{
	int fd;

	begin("127.0.0.1", "");
	fd = other_socket(set->listen_port);
	CHECK(world_offer_listen_socket(whole.world, fd, false, &problems));
	CHECK(listens());
	REQUIRE(count() == 1);
	CHECK_INT(at(0)->fd, fd);
	world_close_unwanted_sockets(whole.world);
	CHECK_INT(whole.world->listen_sockets.offer_count, 0);
	CHECK_INT(count(), 1);
	end();
}

TEST(offered_socket_not_in_the_configuration)
{
	int fd;

	begin("127.0.0.1", "");
	fd = other_socket(0);
	CHECK(world_offer_listen_socket(whole.world, fd, false, &problems));
	CHECK(listens());
	REQUIRE(count() == 1);
	CHECK(at(0)->fd != fd);
	/* until the other process has closed its socket */
	CHECK(listen(fd, 5) == 0);
	world_close_unwanted_sockets(whole.world);
	CHECK(listen(fd, 5) != 0);
	CHECK_INT(count(), 1);
	end();
}

TEST(offers_of_systemd_are_all_kept)
{
	begin("", "");
	CHECK(world_offer_listen_socket(whole.world, other_socket(0), false, &problems));
	CHECK(world_offer_listen_socket(whole.world, other_socket(0), false, &problems));
	whole.world->listen_sockets.inherited = true;
	CHECK(listens());
	CHECK_INT(count(), 2);
	end();
}

/* ---- a shutdown ---- */

TEST(sockets_close_at_shutdown)
{
	begin("127.0.0.1", "");
	CHECK(listens());
	world_stop_listen_sockets(whole.world, STOP_TCP_GENTLY);
	/* either connected clients are accepted for a moment, or the socket is closed */
	CHECK((count() == 1) == (whole.world->listen_sockets.leave_until > whole.world->now));
	world_stop_listen_sockets(whole.world, STOP_TCP);
	CHECK_INT(count(), 0);
	CHECK_INT(whole.world->listen_sockets.leave_until, 0);
	CHECK(!whole.world->listen_sockets.all);
	end();
}

/* ---- a connection ---- */

TEST(a_client_connects)
{
	struct address a;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	begin("127.0.0.1", "");
	/* the client has not sent anything */
	set->tcp_defer_accept = 0;
	CHECK(listens());
	CHECK(address_from_ip(&a, "127.0.0.1", (uint16_t)set->listen_port));
	listen_socket_set_accepting(whole.world->listen_sockets.all[0], false);
	CHECK(connect(fd, &a.u.any, a.size) == 0);
	house_settle(&whole);
	CHECK(list_is_empty(&whole.world->peers.clients));
	listen_socket_set_accepting(whole.world->listen_sockets.all[0], true);
	house_settle(&whole);
	REQUIRE(whole_last_client());
	CHECK_INT(whole_last_client()->peer.remote.family, AF_INET);
	close(fd);
	house_settle(&whole);
	CHECK(list_is_empty(&whole.world->peers.clients));
	end();
}

UNIT_MAIN
