/* Pins: the number of clients of a pool that keep their server, the names of the pins, and the limits. */
#include "fake.h"

#define POOL "[pgbouncer]\npool_mode = transaction\nmax_pinned = 7\npinned_idle_timeout = 30\nserver_check_query =\n" \
	"[databases]\napp = host=127.0.0.1\nfew = host=127.0.0.1 max_pinned=1 pinned_idle_timeout=2\n" \
	"[users]\ncarol = max_pinned=3\n"

/* Makes two clients with a server each. */
static struct pool *start(void)
{
	fake_start(POOL);
	for (int id = 1; id <= 2; id++) {
		fake_ask("app", "bob");
		fake_schedule();
		fake_login(s(id));
		fake_schedule();
	}
	return fake_pool("app", "bob");
}

TEST(pin_names)
{
	char text[PIN_TEXT];

	CHECK_TEXT(pins_text(0, text), "");
	CHECK_TEXT(pins_text(PIN_LOCK, text), "advisory lock");
	CHECK_TEXT(pins_text(PIN_LISTENING | PIN_TEMPORARY, text), "temporary objects, listens");
	CHECK(strlen(pins_text((1u << PINS) - 1, text)) < PIN_TEXT);
}

TEST(pinned_clients_of_a_pool_are_counted)
{
	struct pool *pool = start();
	char text[PIN_TEXT];

	CHECK(!pool_pins_text(pool, text));
	pool_client_pin(&c(1)->policy, PIN_LOCK | PIN_LISTENING);
	pool_client_pin(&c(2)->policy, PIN_LISTENING);
	pools_check(fake.pools);
	CHECK_INT(pool->pinned, 2);
	CHECK_TEXT(pool_pins_text(pool, text), "2 of 2 server connections are pinned: 1 advisory lock, 2 listens");
	pool_client_pin(&c(2)->policy, PIN_TEMPORARY);
	CHECK_INT(pool->pinned, 2);
	pool_client_pin(&c(1)->policy, 0);
	CHECK_INT(pool->pinned, 1);
	/* the pins of a client are cleared when its server is unlinked */
	pool_unlink(&s(2)->policy, SERVER_IDLE, false, fake.now);
	CHECK_INT(pool->pinned, 0);
	CHECK_INT(c(2)->policy.pins, 0);
	pools_check(fake.pools);
	fake_end();
}

TEST(most_specific_pin_limit_applies)
{
	fake_start(POOL);
	CHECK_INT(pool_max_pinned_of(fake_pool("app", "bob")), 7);
	CHECK_INT(pool_max_pinned_of(fake_pool("few", "bob")), 1);
	CHECK_INT(pool_max_pinned_of(fake_pool("few", "carol")), 3);
	CHECK_INT(pool_pinned_idle_timeout_of(fake_pool("app", "bob")), 30 * USEC);
	CHECK_INT(pool_pinned_idle_timeout_of(fake_pool("few", "carol")), 2 * USEC);
	fake_end();
}

UNIT_MAIN
