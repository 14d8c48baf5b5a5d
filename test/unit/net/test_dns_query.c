/* Name servers with ports in a resolv.conf. */
#include "base/mem.h"
#include "net/dns_query.h"
#include "tempfile.h"
#include "unit.h"

/* Compares the servers read from a file with this text; "" if the file has none with a port. */
static void check(const char *text, const char *want)
{
	char *got = dns_servers_read(temp_write("resolv.conf", text));

	CHECK_TEXT(got ? got : "", want);
	mem_free(got);
}

TEST(files_without_ports_are_left_to_the_library)
{
	check("", "");
	check("nameserver 192.0.2.1\nnameserver 2001:db8::1\nsearch example.test\n", "");
	check("# nameserver 192.0.2.1:5353\nnameservers 192.0.2.1:5353\n nameserver 192.0.2.1:5353\n", "");
	CHECK(!dns_servers_read("/nonexistent/resolv.conf"));
}

TEST(one_port_makes_all_servers_explicit)
{
	check("nameserver 192.0.2.1:5353\n", "192.0.2.1:5353");
	check("nameserver\t192.0.2.1:5353  # a remark\nnameserver 192.0.2.2 ;\nnameserver 2001:db8::1\n",
	      "192.0.2.1:5353,192.0.2.2:53,[2001:db8::1]:53");
	check("options timeout:1\nnameserver [2001:db8::1]:5354\nnameserver [2001:db8::2]", "[2001:db8::1]:5354,[2001:db8::2]:53");
}

TEST(invalid_lines_are_skipped)
{
	check("nameserver 192.0.2.1:5353\nnameserver\nnameserver \nnameserver one.example.test\nnameserver 192.0.2.300:1\n",
	      "192.0.2.1:5353");
	check("nameserver 192.0.2.1:0\nnameserver 192.0.2.1:65536\nnameserver 192.0.2.1:-1\nnameserver 192.0.2.1:\n", "");
	check("nameserver [2001:db8::1\nnameserver [2001:db8::1]5353\nnameserver 192.0.2.1:53:53\nnameserver 192.0.2.1:5x\n", "");
}

UNIT_MAIN
