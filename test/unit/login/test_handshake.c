/*
 * Turns of TLS handshakes: one handshake makes a step per turn, the others wait in a queue and are not read, and the time of handshakes is shared
 * with other work.
 */
#include "login/handshake.h"

#include "conn/world.h"
#include "login/login.h"
#include "net/tls.h"
#include "pg/build.h"
#include "pg/startup.h"
#include "../../fuzz/secure.h"
#include "unit.h"
#include "whole.h"

#define INI "[databases]\nd = " HOUSE_SERVER HOUSE_SETTINGS_TLS "auth_type=any\n"

static struct house_end *ends[3];
static struct client *clients[3];
static struct handshakes *h;

/* Clients that were offered TLS and have not sent a ClientHello. */
static void begin(int count)
{
	struct bytes out = BYTES_EMPTY;

	sandbox_begin();
	secure_prepare();
	house_open(&whole, INI);
	h = whole.world->logins.handshakes;
	pg_build(&out, 0, PG_SSL_REQUEST, sizeof(PG_SSL_REQUEST) - 1);
	for (int i = 0; i < count; i++) {
		ends[i] = house_connect(&whole);
		house_send(&whole, ends[i], bytes_front(&out), bytes_size(&out));
		house_settle(&whole);
		clients[i] = whole_last_client();
	}
	bytes_free(&out);
}

/* Starts a turn in which handshakes have spent no time and made no step. */
static void fresh_turn(void)
{
	h->spent = tls_accepting_spent;
	h->next = 0;
	h->is_busy = false;
}

TEST(tls_is_accepted)
{
	begin(1);
	CHECK_INT(bytes_size(&ends[0]->got), 1);
	CHECK_INT(*bytes_front(&ends[0]->got), 'S');
	CHECK_INT(clients[0]->login->step, LOGIN_TLS_HELLO);
	CHECK(clients[0]->login->tls);
	whole_close();
}

TEST(one_handshake_step_per_turn)
{
	begin(3);
	fresh_turn();
	handshake_want(clients[0], NULL, 0);
	CHECK_INT(clients[0]->login->step, LOGIN_TLS);
	CHECK(h->is_busy);
	for (int i = 1; i < 3; i++) {
		handshake_want(clients[i], NULL, 0);
		CHECK_INT(clients[i]->login->step, LOGIN_TLS_TURN);
		CHECK(!clients[i]->peer.stream.reading);
		CHECK_INT(h->waiting.waiting, i);
	}
	for (int i = 1; i < 3; i++) {
		handshakes_turn(whole.world, true);
		CHECK_INT(clients[i]->login->step, LOGIN_TLS);
		CHECK(clients[i]->peer.stream.reading);
		CHECK_INT(h->waiting.waiting, 2 - i);
		CHECK(h->is_busy);
	}
	/* no handshake is queued: the loop may sleep again */
	handshakes_turn(whole.world, true);
	CHECK(!h->is_busy);
	whole_close();
}

/* A later step of a handshake also needs a turn. */
TEST(later_handshake_step)
{
	begin(2);
	fresh_turn();
	handshake_want(clients[0], NULL, 0);
	handshake_want(clients[1], NULL, 0);
	handshakes_turn(whole.world, true);
	CHECK(!handshake_request_step(clients[0]));
	CHECK_INT(h->waiting.waiting, 1);
	client_end(clients[0], REASON_CLIENT_EOF, NULL);
	world_reap(whole.world);
	CHECK_INT(h->waiting.waiting, 0);
	fresh_turn();
	CHECK(handshake_request_step(clients[1]));
	CHECK(!handshake_request_step(clients[1]));
	whole_close();
}

TEST(handshakes_leave_time_for_other_work)
{
	begin(1);
	fresh_turn();
	h->next = clock_monotonic() + USEC;
	handshake_want(clients[0], NULL, 0);
	CHECK_INT(clients[0]->login->step, LOGIN_TLS_TURN);
	handshakes_turn(whole.world, false);
	CHECK_INT(clients[0]->login->step, LOGIN_TLS_TURN);
	CHECK(h->is_busy);
	/* there are no other clients */
	handshakes_turn(whole.world, true);
	CHECK_INT(clients[0]->login->step, LOGIN_TLS);
	whole_close();
	begin(1);
	fresh_turn();
	h->spent -= USEC;	/* handshakes have spent this time since */
	handshake_want(clients[0], NULL, 0);
	CHECK_INT(clients[0]->login->step, LOGIN_TLS_TURN);
	CHECK_INT(h->next, clock_monotonic() + USEC);
	whole_close();
}

TEST(queued_client_disconnects)
{
	begin(2);
	fresh_turn();
	handshake_want(clients[0], NULL, 0);
	handshake_want(clients[1], NULL, 0);
	CHECK_INT(h->waiting.waiting, 1);
	client_end(clients[1], REASON_CLIENT_CLOSE, NULL);
	house_settle(&whole);
	CHECK_INT(h->waiting.waiting, 0);
	CHECK(ends[1]->is_gone && !ends[0]->is_gone);
	whole_close();
}

/* A partially read ClientHello is kept while its client waits, and freed afterwards. */
TEST(client_hello_of_a_queued_client)
{
	begin(2);
	fresh_turn();
	handshake_want(clients[0], NULL, 0);
	handshake_want(clients[1], "\x16\3\1", 3);
	CHECK_INT(bytes_size(&clients[1]->login->hello), 3);
	handshakes_turn(whole.world, true);
	CHECK_INT(bytes_size(&clients[1]->login->hello), 0);
	CHECK_INT(clients[1]->login->step, LOGIN_TLS);
	whole_close();
}

TEST(out_of_memory_for_a_client_hello)
{
	begin(1);
	whole_memory_ends(0);
	handshake_want(clients[0], "\x16\3\1", 3);
	CHECK(whole_memory_is_back() > 0);
	CHECK(peer_is_stopped(&clients[0]->peer));
	house_settle(&whole);
	CHECK(ends[0]->is_gone);
	whole_close();
}

UNIT_MAIN
