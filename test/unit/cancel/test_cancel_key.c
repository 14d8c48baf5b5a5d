/*
 * Cancel keys: each client has its own, a request finds the client by it, and it is the same in another process after a handover.
 */
#include "cancel/cancel.h"
#include "two_worlds.h"
#include "unit.h"
#include "whole.h"

#define INI WHOLE_INI("pool_size=1", "")

TEST(each_client_has_its_own_cancel_key)
{
	struct house_end *end;
	struct client *other;

	REQUIRE(worlds_begin(INI));
	other = whole_login(&end);
	REQUIRE(other);
	CHECK(client->cancel_key.pid != 0 && client->cancel_key.pid <= INT32_MAX && other->cancel_key.pid != client->cancel_key.pid);
	CHECK_INT(client->cancel_key.size, CANCEL_KEY);
	CHECK(cancel_find(whole.world, client->cancel_key.pid, client->cancel_key.secret, CANCEL_KEY) == client);
	CHECK(cancel_find(whole.world, other->cancel_key.pid, other->cancel_key.secret, CANCEL_KEY) == other);
	CHECK(!cancel_find(whole.world, client->cancel_key.pid, other->cancel_key.secret, CANCEL_KEY));
	CHECK(!cancel_find(whole.world, client->cancel_key.pid, client->cancel_key.secret, CANCEL_KEY - 1));
	CHECK(!cancel_find(whole.world, client->cancel_key.pid + 1, client->cancel_key.secret, CANCEL_KEY));
	worlds_close();
}

/* With session_link = login, servers of several machines may have the same process ID. */
TEST(clients_with_the_same_process_id)
{
	struct client *others[3];
	struct house_end *e;

	REQUIRE(worlds_begin(INI));
	for (int i = 0; i < 3; i++) {
		others[i] = whole_login(&e);
		REQUIRE(others[i]);
		cancel_forget_client(others[i]);
		CHECK(cancel_make_key(others[i], 4711));
		CHECK_INT(others[i]->cancel_key.pid, 4711);
	}
	for (int i = 0; i < 3; i++)
		CHECK(cancel_find(whole.world, 4711, others[i]->cancel_key.secret, others[i]->cancel_key.size) == others[i]);
	worlds_close();
}

TEST(key_is_removed_with_its_client)
{
	REQUIRE(worlds_begin(INI));
	cancel_forget_client(client);
	CHECK(!client->cancel_key.is_valid);
	CHECK(!cancel_find(whole.world, client->cancel_key.pid, client->cancel_key.secret, client->cancel_key.size));
	worlds_close();
}

/* ---- the handover ---- */

TEST(duplicate_cancel_key_is_refused)
{
	struct client *took;

	REQUIRE(worlds_begin(INI));
	pack_client();
	took = take_client();
	REQUIRE(took);
	CHECK(!take_client());
	worlds_close();
}

TEST(short_cancel_key_is_refused)
{
	REQUIRE(worlds_begin(INI));
	client->cancel_key.size = 3;
	pack_client();
	client->cancel_key.size = CANCEL_KEY;
	CHECK(!take_client());
	worlds_close();
}

UNIT_MAIN
