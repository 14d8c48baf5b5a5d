/*
 * Turns of TLS handshakes with clients.
 *
 * A handshake takes the key of the certificate, which is the most expensive thing that a client can ask for without being
 * authenticated: 1 to 2 ms with RSA of 2048 bits. A flood of them must neither keep clients that are logged in waiting, nor new
 * ones of other addresses. So one handshake begins in a turn of the loop: an answer on its way waits for one at most. After it, as
 * much time as it took belongs to others; in a turn without any event there are no others. And a client whose hello is here waits in the
 * queue of its address (verify/queue.c): an address where few wait is served after one handshake of each other address.
 *
 * Invariant: a client is in the queue exactly while its step is LOGIN_TLS_TURN. From the promise of TLS to its end nothing is read in
 * clear: bytes between the two must not pass for bytes in TLS (CVE-2021-3935).
 */
#include "session/handshake.h"

#include "base/assert.h"
#include "net/tls.h"
#include "session/auth.h"
#include "session/login.h"

void handshakes_init(struct handshakes *h)
{
	*h = (struct handshakes){ .is_busy = false };
	verify_queue_init(&h->waiting);
}

static void begin(struct client *c)
{
	struct login *l = c->login;
	bool begun;

	c->peer.world->handshakes.is_busy = true;
	login_step_to(c, LOGIN_TLS);
	if (bytes_size(&l->hello) > 0)
		begun = stream_secure_accept_begun(&c->peer.stream, l->tls, bytes_front(&l->hello), bytes_size(&l->hello));
	else
		begun = stream_secure_accept(&c->peer.stream, l->tls);
	bytes_free(&l->hello);
	if (!begun) {
		client_end(c, GOODBYE_NO_MEMORY, NULL);
		return;
	}
	peer_read_on(&c->peer);
}

/* What the handshakes since the last call have taken is time that others get. */
static bool is_others_time(struct world *w)
{
	struct handshakes *h = &w->handshakes;
	usec_t spent = w->client_tls ? tls_context_spent(w->client_tls) : 0, now = clock_monotonic();

	/* of a context that a RELOAD has made, it begins anew */
	if (spent != h->spent)
		h->next = now + (spent > h->spent ? spent - h->spent : spent);
	h->spent = spent;
	return now < h->next;
}

void handshake_expect(struct client *c)
{
	login_step_to(c, LOGIN_TLS_HELLO);
	c->login->tls = tls_context_hold(c->peer.world->client_tls);
}

void handshake_want(struct client *c, const void *hello, size_t size)
{
	struct world *w = c->peer.world;
	struct login *l = c->login;
	const struct verify_source source = auth_verify_source(c);

	if (!l->tls)
		l->tls = tls_context_hold(w->client_tls);
	if (size > 0)
		bytes_append(&l->hello, hello, size);
	if (l->hello.failed) {
		client_end(c, GOODBYE_NO_MEMORY, NULL);
		return;
	}
	if (!w->handshakes.is_busy && !is_others_time(w)) {
		begin(c);
		return;
	}
	login_step_to(c, LOGIN_TLS_TURN);
	w->handshakes.is_busy = true;
	stream_set_reading(&c->peer.stream, false);
	if (!verify_queue_add(&w->handshakes.waiting, &l->handshake, &source))
		client_end(c, GOODBYE_NO_MEMORY, NULL);
}

void handshake_forget(struct client *c)
{
	struct login *l = c->login;

	verify_queue_remove(&c->peer.world->handshakes.waiting, &l->handshake);
	bytes_free(&l->hello);
	if (l->tls)
		tls_context_drop(&l->tls);
}

void handshakes_turn(struct world *w, bool idle)
{
	struct handshakes *h = &w->handshakes;
	struct client *c;

	h->is_busy = h->waiting.waiting > 0;
	if (!h->is_busy || (is_others_time(w) && !idle))
		return;
	c = LIST_OBJECT(verify_queue_next(&h->waiting), struct login, handshake)->client;
	if (!c->peer.stopped)
		begin(c);
}
