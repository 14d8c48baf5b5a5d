/* Host records that pools share. */
#include "pool/host.h"

#include "unit.h"

#include <string.h>

static struct host *table;

static struct host *hold(const char *name, int port)
{
	return host_hold(&table, name, strlen(name), port);
}

TEST(name_and_port_identify_a_host)
{
	struct host *a = hold("db1", 5432), *again = host_hold(&table, "db1,db2", 3, 5432), *other = hold("db1", 5433), *longer = hold("db12", 5432);

	CHECK(a && a == again);
	CHECK(other && other != a && longer && longer != a && longer != other);
	CHECK_INT(HASH_COUNT(table), 3);
	host_drop(&a);
	CHECK(!a);
	CHECK_INT(HASH_COUNT(table), 3);
	host_drop(&again);
	CHECK_INT(HASH_COUNT(table), 2);
	host_drop(&other);
	host_drop(&longer);
	host_drop(&longer);
	CHECK(!table);
}

TEST(host_state_is_shared_between_pools)
{
	struct host *a = hold("db1", 5432), *b = hold("db1", 5432);

	CHECK(!host_is_unreachable(b, 100 * USEC, 15 * USEC));
	host_note(a, false, 100 * USEC);
	CHECK(host_is_unreachable(b, 110 * USEC, 15 * USEC));
	CHECK(!host_is_unreachable(b, 115 * USEC, 15 * USEC));
	host_note(b, false, 115 * USEC);
	host_note(b, true, 116 * USEC);
	CHECK(!host_is_unreachable(a, 116 * USEC, 15 * USEC));
	host_drop(&a);
	host_drop(&b);
}

UNIT_MAIN
