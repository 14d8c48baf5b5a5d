/* Addresses: text to socket address, to the brief form and back to text; and socket options read back from the kernel. */
#include "net/address.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <unistd.h>

#include "unit.h"

static const char *shown(const char *ip, uint16_t port, char *buf, size_t size)
{
	struct address a;
	struct brief_address brief;

	if (!address_from_ip(&a, ip, port))
		return NULL;
	brief_address_of(&brief, &a, 1);
	return brief_address_and_port(&brief, buf, size);
}

TEST(ip_text_round_trips)
{
	char buf[80];
	struct address a;
	struct brief_address brief;

	CHECK_TEXT(shown("127.0.0.1", 6432, buf, sizeof buf), "127.0.0.1:6432");
	CHECK_TEXT(shown("::1", 65535, buf, sizeof buf), "[::1]:65535");
	CHECK_TEXT(shown("fe80::1%lo", 1, buf, sizeof buf), "[fe80::1]:1");
	REQUIRE(address_from_ip(&a, "fe80::1%lo", 1));
	CHECK(a.u.v6.sin6_scope_id != 0);
	REQUIRE(address_from_ip(&a, "2001:db8::7", 5));
	CHECK_INT(a.size, sizeof(struct sockaddr_in6));
	brief_address_of(&brief, &a, 9);
	CHECK_INT(brief.port, 5);
	CHECK_TEXT(brief_address_text(&brief, buf, sizeof buf), "2001:db8::7");
	REQUIRE(address_from_ip(&a, "10.1.2.3", 5));
	CHECK_INT(a.size, sizeof(struct sockaddr_in));
	CHECK_INT(sizeof(struct brief_address), 20);
}

TEST(invalid_ip_is_refused)
{
	static const char *const bad[] = {
		"", "localhost", "127.0.0.1.1", "127.0.0", "1", "::g", "[::1]", "*", " 127.0.0.1", "::1%nosuchlink0", "::1%",
		"1:2:3:4:5:6:7:8:9:1:2:3:4:5:6:7:8:9:1:2:3:4:5:6:7:8:9",
	};
	struct address a;

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		if (address_from_ip(&a, bad[i], 1))
			UNIT_FAIL("\"%s\" was taken", bad[i]);
}

TEST(unix_names)
{
	struct address a;
	struct brief_address brief;
	char buf[80], dir[120];

	REQUIRE(address_from_unix(&a, "/tmp", 6432));
	CHECK_INT(a.u.local.sun_family, AF_UNIX);
	CHECK_TEXT(a.u.local.sun_path, "/tmp/.s.PGSQL.6432");
	CHECK_INT(a.size, offsetof(struct sockaddr_un, sun_path) + strlen("/tmp/.s.PGSQL.6432") + 1);
	brief_address_of(&brief, &a, 6432);
	brief.u.peer.pid = 4711;
	CHECK_TEXT(brief_address_text(&brief, buf, sizeof buf), "unix");
	CHECK_TEXT(brief_address_and_port(&brief, buf, sizeof buf), "unix(4711):6432");

	REQUIRE(address_from_unix(&a, "@weir", 1));
	CHECK_INT(a.u.local.sun_path[0], 0);
	CHECK_TEXT(a.u.local.sun_path + 1, "weir/.s.PGSQL.1");
	CHECK_INT(a.size, offsetof(struct sockaddr_un, sun_path) + strlen("@weir/.s.PGSQL.1"));

	/* 107 characters and a NUL fit, 108 do not. */
	memset(dir, 'd', sizeof dir);
	dir[107 - strlen("/.s.PGSQL.1")] = '\0';
	CHECK(address_from_unix(&a, dir, 1));
	CHECK(!address_from_unix(&a, dir, 10));
}

TEST(missing_address_is_an_empty_text)
{
	struct brief_address brief = { .family = 0 };
	struct address odd = { .u.any.sa_family = AF_PACKET };
	char buf[8] = "x";

	CHECK_TEXT(brief_address_text(&brief, buf, sizeof buf), "");
	brief_address_of(&brief, &odd, 5);
	CHECK_INT(brief.family, 0);
	CHECK_INT(brief.port, 0);
	CHECK_TEXT(brief_address_and_port(&brief, buf, sizeof buf), "");
}

TEST(local_name_and_unix_peer)
{
	int pair[2], tcp = socket(AF_INET, SOCK_STREAM, 0);
	struct address a;
	struct brief_address local;
	int32_t pid = 0;
	uint32_t uid = 0;

	REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
	CHECK(address_unix_peer(pair[0], &pid, &uid));
	CHECK_INT(pid, getpid());
	CHECK_INT(uid, getuid());
	CHECK(address_of_socket(pair[0], &local, 77));
	CHECK_INT(local.family, AF_UNIX);
	CHECK_INT(local.port, 77);

	REQUIRE(address_from_ip(&a, "127.0.0.1", 0));
	REQUIRE(bind(tcp, &a.u.any, a.size) == 0);
	CHECK(address_of_socket(tcp, &local, 77));
	CHECK_INT(local.family, AF_INET);
	CHECK(local.port != 0 && local.port != 77);
	CHECK(!address_unix_peer(tcp, &pid, &uid));
	close(pair[0]);
	close(pair[1]);
	close(tcp);
	CHECK(!address_of_socket(-1, &local, 1));
	CHECK(!address_unix_peer(-1, &pid, &uid));
}

static int is_own(const char *ip, bool whole_net)
{
	struct brief_address brief;
	struct address a;

	if (!address_from_ip(&a, ip, 0))
		return -1;
	brief_address_of(&brief, &a, 0);
	return address_is_own(&brief, whole_net);
}

/* Every machine has the loopback interface with 127.0.0.1/8. */
TEST(addresses_of_this_machine)
{
	struct brief_address local = { .family = AF_UNIX };

	CHECK_INT(is_own("127.0.0.1", false), 1);
	CHECK_INT(is_own("127.0.0.1", true), 1);
	CHECK_INT(is_own("127.1.2.3", false), 0);
	CHECK_INT(is_own("127.1.2.3", true), 1);
	CHECK_INT(is_own("::ffff:127.0.0.1", false), 1);
	CHECK_INT(is_own("::ffff:127.1.2.3", true), 1);
	CHECK_INT(is_own("::ffff:127.1.2.3", false), 0);
	/* a reserved address and the discard prefix: no machine has them */
	CHECK_INT(is_own("240.0.0.1", true), 0);
	CHECK_INT(is_own("100::1", true), 0);
	CHECK_INT(address_is_own(&local, true), 0);
}

/* The child has no free descriptor for the query. */
TEST(own_addresses_are_unknown_without_descriptors)
{
	struct rlimit before, none;
	int own, why;

	REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
	none = (struct rlimit){ .rlim_cur = 0, .rlim_max = before.rlim_max };
	REQUIRE(setrlimit(RLIMIT_NOFILE, &none) == 0);
	own = is_own("127.0.0.1", false);
	why = errno;
	REQUIRE(setrlimit(RLIMIT_NOFILE, &before) == 0);
	CHECK_INT(own, -1);
	CHECK_INT(why, EMFILE);
}

static int option_of(int fd, int level, int name)
{
	int value = -1;
	socklen_t size = sizeof value;

	return getsockopt(fd, level, name, &value, &size) == 0 ? value : -1;
}

TEST(socket_options_are_set)
{
	struct socket_options options = { true, 11, 12, 3, 1234, 65536 };
	int tcp = socket(AF_INET, SOCK_STREAM, 0), pair[2];
	int idle = option_of(tcp, IPPROTO_TCP, TCP_KEEPIDLE);

	REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
	CHECK(socket_apply_options(tcp, AF_INET, &(struct socket_options){ .keepalive = false }));
	CHECK_INT(option_of(tcp, IPPROTO_TCP, TCP_NODELAY), 1);
	CHECK_INT(option_of(tcp, SOL_SOCKET, SO_KEEPALIVE), 0);
	CHECK_INT(option_of(tcp, IPPROTO_TCP, TCP_KEEPIDLE), idle);
	CHECK(socket_apply_options(tcp, AF_INET, &options));
	CHECK_INT(option_of(tcp, SOL_SOCKET, SO_KEEPALIVE), 1);
	CHECK_INT(option_of(tcp, IPPROTO_TCP, TCP_KEEPIDLE), 11);
	CHECK_INT(option_of(tcp, IPPROTO_TCP, TCP_KEEPINTVL), 12);
	CHECK_INT(option_of(tcp, IPPROTO_TCP, TCP_KEEPCNT), 3);
	CHECK_INT(option_of(tcp, IPPROTO_TCP, TCP_USER_TIMEOUT), 1234);
	CHECK_INT(option_of(tcp, SOL_SOCKET, SO_SNDBUF), 2 * 65536);
	CHECK_INT(option_of(tcp, SOL_SOCKET, SO_RCVBUF), 2 * 65536);
	options.keepcnt = 1000;
	CHECK(!socket_apply_options(tcp, AF_INET, &options));
	CHECK(socket_apply_options(pair[0], AF_UNIX, &options));
	CHECK_INT(option_of(pair[0], SOL_SOCKET, SO_KEEPALIVE), 0);
	close(tcp);
	close(pair[0]);
	close(pair[1]);
}

UNIT_MAIN
