/*
 * The state of sessions in a handover record: the known state of a server's session, and the channels of a client and of its pool's listener.
 */
#include "state/notify.h"
#include "state/session_record.h"
#include "state/session_state.h"
#include "two_worlds.h"
#include "unit.h"
#include "whole.h"

static struct notify_server *listener;

TEST(listener_and_channels_are_handed_over)
{
	const struct notify_client *took;

	listener = worlds_begin_listening();
	REQUIRE(listener);
	pack_server();
	REQUIRE(take_server());
	CHECK_INT(last_server()->pooled.state, SERVER_LISTENING);
	/* a pool has one listener */
	CHECK(!take_server());
	taken_undo();
	take_pool();
	bytes_append(&client->session->notify_client->pending, "A", 1);
	pack_client();
	bytes_free(&client->session->notify_client->pending);
	REQUIRE(take_client());
	took = last_client()->session->notify_client;
	CHECK(last_client()->pooled.listens && took->step == NOTIFY_RESTS);
	CHECK_INT(bytes_size(&took->pending), 1);
	CHECK_TEXT(LIST_OBJECT(list_first(&took->subscriptions), struct subscription, of_client)->channel->name, "c");
	for (size_t n = 0; n < bytes_size(&record); n++) {
		taken_undo();
		take_pool();
		if (take_n(client_record_unpack, n))
			UNIT_FAIL("%zu bytes are taken", n);
	}
	worlds_close();
}

/* STALE_SOURCES is not handed over: the new process reads the functions of the database. */
TEST(session_of_a_server)
{
	struct server *took;

	worlds_open(WHOLE_INI("pool_size=1", ""));
	client = whole_in_transaction(&near, &far);
	server = whole_last_server();
	take_pool();
	REQUIRE(client && server);
	whole_query(near, "C");
	server->session.stale = STALE_SEQUENCES | STALE_SOURCES;
	server->session.dirty = FACT_ROLE;
	server->session.was_reset = true;
	server->session.changes = CHANGES_MEANING;
	server->session.roles_prepared = true;
	server->session.tainted_by = 16;
	server->session.values_of = 17;
	pack_server();
	took = take_server();
	REQUIRE(took);
	CHECK_INT(took->session.stale, STALE_SEQUENCES);
	CHECK_INT(took->session.tainted_by, 16);
	CHECK_INT(took->session.values_of, 17);
	CHECK_INT(took->session.dirty, FACT_ROLE);
	CHECK(took->session.was_reset && took->session.changes == CHANGES_MEANING && took->session.roles_prepared);
	CHECK(!took->session.text_was_cut && !took->session.plain_set && took->session.has_failed);
	CHECK(took->session.reported == server->session.reported && took->session.reported != 0);
	server->session.dirty = 0;
	server->session.stale = 0;
	server->session.tainted_by = 0;
	worlds_close();
}

UNIT_MAIN
