/*
 * Scheduling of TLS handshakes with clients.
 *
 * A handshake uses the key of the certificate, which is the most expensive operation that an
 * unauthenticated client can request: 1 to 2 ms with RSA of 2048 bits. A flood of handshakes must
 * delay neither established clients nor new clients of other addresses. Therefore at most one
 * handshake makes a step per turn, so that an answer waits for at most one step. After a step, the
 * same amount of time is reserved for other work, unless the loop is idle. A client with a complete
 * hello waits in the queue of its address (verify/queue.c), so an address with few waiting clients
 * waits for at most one step of each other address.
 *
 * A step handles all input that has arrived. The client decides which step is the expensive one: it
 * can send the hello in pieces, provoke a second hello (HelloRetryRequest), or choose a key
 * exchange that has its cost later (TLS 1.2). Therefore every step is scheduled until pgweir has
 * sent its Finished; with TLS 1.3 this is in the first step. After the Finished, only a client
 * certificate is expensive: if certificates are requested, all steps are scheduled.
 *
 * Invariant: a client in step LOGIN_TLS_TURN is in the queue; in LOGIN_TLS, it is in the queue
 * while its stream waits for stream_secure_go_on. After the promise of TLS nothing is read in
 * clear: bytes from before the handshake must not be taken for encrypted bytes (CVE-2021-3935).
 */
#include "login/handshake.h"

#include "auth/auth.h"
#include "base/assert.h"
#include "login/login.h"
#include "net/tls.h"

static void handshake_begin(struct client *c)
{
	struct login *l = c->login;
	size_t size = bytes_size(&l->hello);
	bool begun;

	login_step_to(c, LOGIN_TLS);
	begun = stream_secure_accept(&c->peer.stream, l->tls,
				     size > 0 ? bytes_front(&l->hello) : NULL, size);
	bytes_free(&l->hello);
	if (!begun) {
		client_end(c, REASON_NO_MEMORY, NULL);
		return;
	}
	flow_unblock(&c->peer, FLOW_TLS_TURN);
}

/* Whether time is reserved for other work, equal to the time of the handshakes since the last
   call. */
static bool update_reserved_time(struct world *w)
{
	struct handshakes *h = w->logins.handshakes;
	usec_t spent = tls_accepting_spent, now = clock_monotonic();

	if (spent != h->spent)
		h->next = now + spent - h->spent;
	h->spent = spent;
	return now < h->next;
}

/* Whether a step may be made at once: no other handshake has made a step in this turn, and no time
   is reserved for other work. */
static bool claim_step(struct world *w)
{
	bool may = !w->logins.handshakes->is_busy && !update_reserved_time(w);

	w->logins.handshakes->is_busy = true;
	return may;
}

static void wait(struct client *c)
{
	const struct verify_source source = client_address_source(c);

	if (!verify_queue_add(&c->peer.world->logins.handshakes->waiting, &c->login->handshake,
			      &source))
		client_end(c, REASON_NO_MEMORY, NULL);
}

void handshake_want(struct client *c, const void *hello, size_t size)
{
	struct world *w = c->peer.world;
	struct login *l = c->login;

	if (!l->tls)
		l->tls = tls_context_hold(w->tls.clients);
	if (size > 0)
		bytes_append(&l->hello, hello, size);
	if (l->hello.failed) {
		client_end(c, REASON_NO_MEMORY, NULL);
		return;
	}
	if (claim_step(w)) {
		handshake_begin(c);
		return;
	}
	login_step_to(c, LOGIN_TLS_TURN);
	flow_block(&c->peer, FLOW_TLS_TURN);
	wait(c);
}

bool handshake_request_step(struct client *c)
{
	bool may = claim_step(c->peer.world);

	if (!may)
		wait(c);
	return may;
}

void handshakes_turn(struct world *w, bool idle)
{
	struct handshakes *h = w->logins.handshakes;
	struct client *c;
	bool stays;

	h->is_busy = h->waiting.waiting > 0;
	if (!h->is_busy || (update_reserved_time(w) && !idle))
		return;
	c = LIST_OBJECT(verify_queue_next(&h->waiting, NULL), struct login, handshake)->client;
	/* the step counts for the next turn, and is the only one in it */
	h->is_busy = true;
	stays = peer_wake(&c->peer);
	if (stays && c->login->step == LOGIN_TLS)
		stream_secure_go_on(&c->peer.stream);
	else if (stays)
		handshake_begin(c);
	world_set_current(w, NULL);
}
