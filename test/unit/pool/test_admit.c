/* DISABLE HOST, ENABLE HOST and DRAIN HOST: which hosts are closed to which databases. */
#include "fake.h"

#include "pool/admit.h"
#include "pool/closed.h"
#include "pool/drain.h"
#include "unit.h"

#define INI(plain) "[databases]\nplain = host=" plain "\nother = host=c\nroles = host=a,b target_session_attrs=primary\n[pgbouncer]\n" \
	"pool_mode = transaction\n"

static struct database *database(const char *name) { return database_get(fake.pools, name, true, fake.now); }

static struct host *host(const char *key)
{
	struct host *found = host_hold(fake.pools, key);

	host_drop(found);
	return found;
}

TEST(names_of_hosts)
{
	fake_start(INI("a,/tmp"));
	CHECK(host_is_listed(fake.pools, NULL, "a") && host_is_listed(fake.pools, NULL, "a:5432") && host_is_listed(fake.pools, NULL, "/tmp:5432"));
	CHECK(!host_is_listed(fake.pools, NULL, "a:5433") && !host_is_listed(fake.pools, NULL, "a:") && !host_is_listed(fake.pools, NULL, ""));
	CHECK(host_is_listed(fake.pools, database("other"), "c") && !host_is_listed(fake.pools, database("other"), "a"));
	CHECK(!host_is_listed(fake.pools, database("pgweir"), "a"));
	CHECK(host_is_named(host("a:5432"), "a") && host_is_named(host("a:5432"), "a:5432") && !host_is_named(host("a:5432"), "a:543"));
	fake_end();
}

TEST(servers_of_a_disabled_host_end)
{
	fake_start(INI("a"));
	fake_fill("plain", "u", 2);
	CHECK(fake_want(c(1)));
	fake_diary();
	CHECK(hosts_disable(fake.pools, "a", true, fake.now));
	CHECK_TEXT(fake_diary(), "drop s1 HOST_CLOSED");
	CHECK(hosts_are_closed(database("plain")) && !hosts_are_closed(database("other")) && !hosts_are_closed(database("roles")));
	CHECK(fake_release(s(2)) == REASON_HOST_CLOSED);
	CHECK(!fake_want(c(2)));
	CHECK_TEXT(fake_schedule(), "");
	CHECK_INT(fake_pool("plain", "u")->held_by, LIMIT_ROLE);
	/* a second word changes nothing */
	CHECK(hosts_disable(fake.pools, "a:5432", true, fake.now) && hosts_disable(fake.pools, "a", false, fake.now));
	CHECK(!hosts_are_closed(database("plain")));
	CHECK_TEXT(fake_schedule(), "dial c2");
	fake_end();
}

TEST(word_holds_without_a_database)
{
	fake_start(INI("a,d"));
	CHECK(hosts_disable(fake.pools, "d", true, fake.now));
	fake_reload(INI("a"));
	CHECK(host_is_listed(fake.pools, NULL, "d") && host("d:5432")->is_disabled);
	fake_reload(INI("d"));
	CHECK(hosts_are_closed(database("plain")) && fake_pool("plain", "u")->targets == 0);
	fake_reload(INI("d,a"));
	CHECK(!hosts_are_closed(database("plain")) && fake_pool("plain", "u")->targets != 0);
	fake_end();
}

/* Only databases with roles and several hosts leave a drained host. */
TEST(drained_host)
{
	struct drain *drain;

	fake_start(INI("a"));
	drain = drain_begin(fake.pools, DRAIN_OF_HOST, "a", fake.now, fake.now);
	REQUIRE(drain);
	hosts_admit_anew(fake.pools, fake.now);
	CHECK(host("a:5432")->is_drained && !host("b:5432")->is_drained);
	CHECK(host_is_closed_to(host("a:5432"), database("roles")) && !host_is_closed_to(host("a:5432"), database("plain")));
	CHECK(drain_applies(drain, database("plain"), "u", NULL));
	CHECK(!drain_applies(drain, database("roles"), "u", NULL) && !drain_applies(drain, database("roles"), "u", host("b:5432")));
	CHECK(drain_applies(drain, database("roles"), "u", host("a:5432")) && !drain_applies(drain, database("other"), "u", NULL));
	/* a host that comes later */
	CHECK(drain_begin(fake.pools, DRAIN_OF_HOST, "e:5432", fake.now, fake.now));
	fake_reload(INI("e"));
	CHECK(!hosts_are_closed(database("plain")));
	hosts_disable(fake.pools, "a", false, fake.now);
	CHECK(!host("a:5432")->is_drained && !host_is_closed_to(host("a:5432"), database("roles")));
	fake_end();
}

TEST(hosts_of_the_process_before)
{
	fake_start(INI("a"));
	CHECK(host_restore_disabled(fake.pools, "z:1") && !host_restore_disabled(fake.pools, "z"));
	CHECK(host("z:1")->is_disabled && fake.pools->hosts);
	fake_end();
}

UNIT_MAIN
