/* Choice of the login to end when too many logins are in progress. */
#include "auth/displace.h"

#include "address_stage.h"
#include "auth/refusal.h"

static struct {
	const struct client *ended;
	bool has_refusal;		/* a failed login waits for its refusal */
} told;

void client_end(struct client *c, enum close_reason why, const char *detail)
{
	(void)why;
	(void)detail;
	told.ended = c;
	c->peer.fate = PEER_ENDS;
}

bool refusals_hurry(struct refusals *refusals)
{
	(void)refusals;
	return told.has_refusal;
}

/* Returns the client whose login ends in favour of this client; NULL: the new client is refused. */
static const struct client *displaced_by(struct client *newcomer)
{
	told.ended = NULL;
	CHECK_INT(displace_login(newcomer, REASON_LOGIN_TIMEOUT), told.ended != NULL);
	return told.ended;
}

TEST(youngest_login_of_the_fullest_address_ends)
{
	struct client *newcomer, *youngest;

	begin(3);
	come(1);
	come(1);
	youngest = come(1);
	come(2);
	newcomer = come(3);
	CHECK(displaced_by(newcomer) == youngest);
	end();
}

TEST(silent_client_of_the_fullest_address_ends_first)
{
	struct client *silent;

	begin(3);
	silent = come(1);
	scene.world.now += 2 * USEC;
	come(1);
	come(1);
	CHECK(displaced_by(come(2)) == silent);
	end();
}

TEST(address_with_equal_count_is_displaced_only_if_silent)
{
	struct client *first, *newcomer;

	begin(1);
	first = come(1);
	newcomer = come(2);
	CHECK(!displaced_by(newcomer));
	scene.world.now += 2 * USEC;
	CHECK(displaced_by(come(3)) == first);
	end();
}

TEST(slow_login_of_a_less_used_address_is_kept)
{
	begin(1);
	come(1);
	scene.world.now += 2 * USEC;
	come(2);
	CHECK(!displaced_by(come(2)));
	end();
}

TEST(login_that_waits_for_pgweir_is_not_silent)
{
	struct client *looked_up;

	begin(1);
	looked_up = come(1);
	looked_up->login->step = LOGIN_LOOKUP;
	client_address_login_stepped(looked_up);
	scene.world.now += 10 * USEC;
	CHECK(!displaced_by(come(2)));
	end();
}

TEST(delayed_refusal_is_displaced_before_any_login)
{
	struct client *newcomer;

	begin(1);
	come(1);
	come(1);
	newcomer = come(2);
	told.has_refusal = true;
	CHECK(displace_login(newcomer, REASON_LOGIN_TIMEOUT));
	CHECK(!told.ended);
	told.has_refusal = false;
	end();
}

TEST(addresses_of_a_site_count_together)
{
	struct client *youngest;

	begin(3);
	for (int i = 0; i < 3; i++)
		youngest = come_from_site(1, i);
	CHECK(displaced_by(come(1)) == youngest);
	CHECK(displaced_by(come_from_site(2, 0)) == &scene.clients[1]);
	end();
}

TEST(site_with_many_addresses_displaces_only_its_own_logins)
{
	begin(3);
	for (int i = 0; i < 4; i++)
		come_from_site(1, i);
	/* more logins than any address of the site has, and fewer than the site has */
	for (int i = 0; i < 3; i++)
		come(1);
	CHECK(!displaced_by(come_from_site(1, 4)));
	scene.world.now += 2 * USEC;
	/* now all logins are silent */
	for (int i = 5; i < 9; i++) {
		CHECK(displaced_by(come_from_site(1, i)) == &scene.clients[i - 5]);
		leave(&scene.clients[i - 5]);
	}
	end();
}

TEST(addresses_of_one_site_compete_with_each_other)
{
	struct client *youngest;

	begin(3);
	come_from_site(1, 0);
	come_from_site(1, 1);
	youngest = come_from_site(1, 1);
	come(1);
	CHECK(displaced_by(come_from_site(1, 2)) == youngest);
	leave(youngest);
	/* as many logins as any other address of the site */
	CHECK(!displaced_by(come_from_site(1, 3)));
	end();
}

TEST(ended_logins_are_skipped)
{
	begin(3);
	for (int i = 0; i < 40; i++)
		come_from_site(1, i);
	for (int i = 0; i < 20; i++)
		CHECK(displaced_by(come(i)) == &scene.clients[39 - i]);
	end();
}

UNIT_MAIN
