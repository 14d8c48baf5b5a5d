/* Turns of TLS handshakes: one steps in a turn, the others wait in a queue and are not read, and time that they have taken is others'. */
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

/* Clients that have been promised TLS, and have not said hello. */
static void begin(int count)
{
	struct bytes out = BYTES_EMPTY;

	sandbox_begin();
	secure_prepare();
	house_open(&whole, INI);
	h = whole.world->handshakes;
	pg_build_ssl_request(&out);
	for (int i = 0; i < count; i++) {
		ends[i] = house_connect(&whole);
		house_send(&whole, ends[i], bytes_front(&out), bytes_size(&out));
		house_settle(&whole);
		clients[i] = whole_last_client();
	}
	bytes_free(&out);
}

/* What handshakes take from now on is not known to have taken time, and none has made a step. */
static void fresh_turn(void)
{
	h->spent = tls_accepting_spent();
	h->next = 0;
	h->is_busy = false;
}

TEST(tls_is_promised)
{
	begin(1);
	CHECK_INT(bytes_size(&ends[0]->got), 1);
	CHECK_INT(*bytes_front(&ends[0]->got), 'S');
	CHECK_INT(clients[0]->login->step, LOGIN_TLS_HELLO);
	CHECK(clients[0]->login->tls);
	whole_close();
}

TEST(one_in_a_turn)
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
	/* none is left: the loop may wait again */
	handshakes_turn(whole.world, true);
	CHECK(!h->is_busy);
	whole_close();
}

/* A later step of a handshake takes a turn, too. */
TEST(a_later_step)
{
	begin(2);
	fresh_turn();
	handshake_want(clients[0], NULL, 0);
	handshake_want(clients[1], NULL, 0);
	handshakes_turn(whole.world, true);
	CHECK(!handshake_may_step(clients[0]));
	CHECK_INT(h->waiting.waiting, 1);
	handshake_forget(clients[0]);
	CHECK_INT(h->waiting.waiting, 0);
	fresh_turn();
	CHECK(handshake_may_step(clients[1]));
	CHECK(!handshake_may_step(clients[1]));
	handshake_forget(clients[1]);
	whole_close();
}

TEST(time_that_is_others)
{
	begin(1);
	fresh_turn();
	h->next = clock_monotonic() + USEC;
	handshake_want(clients[0], NULL, 0);
	CHECK_INT(clients[0]->login->step, LOGIN_TLS_TURN);
	handshakes_turn(whole.world, false);
	CHECK_INT(clients[0]->login->step, LOGIN_TLS_TURN);
	CHECK(h->is_busy);
	/* there are no others */
	handshakes_turn(whole.world, true);
	CHECK_INT(clients[0]->login->step, LOGIN_TLS);
	whole_close();
	begin(1);
	fresh_turn();
	h->spent -= USEC;	/* so much has been taken since */
	handshake_want(clients[0], NULL, 0);
	CHECK_INT(clients[0]->login->step, LOGIN_TLS_TURN);
	CHECK_INT(h->next, clock_monotonic() + USEC);
	whole_close();
}

TEST(a_client_that_leaves_the_queue)
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

/* What has been read of a hello already is kept while it waits, and is freed then. */
TEST(the_hello_of_a_client_that_waits)
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

TEST(no_memory_for_a_hello)
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
