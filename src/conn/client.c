/*
 * A client connection: sending, and marking the end. Its messages are handled in the rooms login,
 * relay and cancel.
 *
 * Invariant: a client has exactly one state, is in the list of that state, and ends once
 * (client_end). The struct exists until the reap of the turn, so that callers may still read its
 * state.
 */
#include "conn/client.h"

#include "base/assert.h"
#include "base/log.h"
#include "base/printable.h"
#include "base/text.h"
#include "conn/client_request.h"
#include "conn/world.h"

#include <string.h>
#include <unistd.h>

struct client *client_adopt(struct world *w, int fd)
{
	struct client *c = mem_try(sizeof(*c));

	if (!c || !stream_open(&c->peer.stream, w->base, fd, w->ops->client_stream)) {
		mem_free(c);
		close(fd);
		return NULL;
	}
	peer_init(&c->peer, w, true);
	peer_enter(&c->peer);
	pool_client_init(w->pools, &c->pooled, w->now);
	return c;
}

void client_prepare_request(struct client *c)
{
	if (c->request || c->pooled.role == TARGET_ANY)
		return;
	c->request = mem_try(sizeof(*c->request));
	c->minds.keeps_request = c->request != NULL;
	/* without memory the client ends, because its writes would not be noted */
	if (!c->request) {
		client_end(c, REASON_NO_MEMORY, NULL);
		return;
	}
	/* during a RELOAD the bytes of the present request were not kept, so no other server can
	   get it: the client keeps its server until the answer */
	c->request->repeat = c->pooled.link ? REPEAT_BOUND : REPEAT_NOTHING;
}

const char *client_text(const struct client *c, char *buf, size_t size)
{
	char where[80], shown[2][PRINTABLE_NAME];
	const char *database = c->pooled.pool ? c->pooled.pool->database->name
			       : c->login     ? client_names(c)->database
					      : NULL;
	const char *user = c->pooled.login_user ? c->pooled.login_user->name
			   : c->login		? client_names(c)->user
						: NULL;

	snprintf(buf, size, "C-0x%llx: %s/%s@%s", (unsigned long long)c->peer.id,
		 database ? printable_name(database, shown[0], sizeof(shown[0])) : "(nodb)",
		 user ? printable_name(user, shown[1], sizeof(shown[1])) : "(nouser)",
		 brief_address_and_port(&c->peer.remote, where, sizeof(where)));
	log_subject(LOG_CLIENT,
		    &(struct log_subject){
			    .text = buf, .database = database, .user = user, .address = where });
	return buf;
}

const char *client_name_with_host(const struct client *c, const char *value, char *buf)
{
	char where[80], added[96];
	size_t size = strlen(value);

	snprintf(added, sizeof(added), " - %s",
		 brief_address_and_port(&c->peer.remote, where, sizeof(where)));
	if (size >= strlen(added) && strcmp(value + size - strlen(added), added) == 0)
		added[0] = '\0';
	snprintf(buf, NAME_WITH_HOST, "%.512s%s", *value ? value : "app", added);
	return buf;
}

bool client_send(struct client *c, const struct bytes *bytes)
{
#ifdef PGWEIR_TEST_BUILD
	const struct peer *current = c->peer.world->current;

	/* A look-up answers all logins that wait for it, and a command of the console ends the
	   waits of others. */
	ASSERT(!current || current == &c->peer || c->login || c->console.is_connected ||
	       (c->pooled.link && current == &server_of(c->pooled.link)->peer));
#endif
	if (peer_is_stopped(&c->peer))
		return false;
	if (bytes->failed) {
		client_end(c, REASON_NO_MEMORY, NULL);
		return false;
	}
	if (!stream_write_bytes(&c->peer.stream, bytes->data + bytes->start, bytes_size(bytes))) {
		client_end(c, REASON_CLIENT_EOF, NULL);
		return false;
	}
	return true;
}

static void client_mark(struct client *c, enum peer_fate fate, enum close_reason why,
			const char *detail)
{
	struct world *w = c->peer.world;

	c->peer.ended_in = c->pooled.state;
	peer_end(&c->peer, fate, why, detail);
	if (!c->pooled.link)
		pool_client_become(w->pools, &c->pooled, CLIENT_DEAD, w->now);
	else if (!peer_is_ending(&server_of(c->pooled.link)->peer))
		peer_become(&server_of(c->pooled.link)->peer, PEER_STOPPED);
}

void client_end(struct client *c, enum close_reason why, const char *detail)
{
	if (peer_is_ending(&c->peer))
		return;
	if (why == REASON_CLIENT_EOF && stream_abuse(&c->peer.stream)) {
		why = REASON_CLIENT_TLS;
		detail = stream_abuse(&c->peer.stream);
	}
	client_mark(c, PEER_ENDS, why, detail);
}

void client_hand_over(struct client *c)
{
	client_mark(c, PEER_HANDED_OVER, REASON_NONE, NULL);
}

void client_end_bad_header(struct client *c, const uint8_t *at, size_t n)
{
	char hex[2 * 8 + 1];

	text_hex(hex, at, n < 8 ? n : 8);
	client_end(c, REASON_BAD_HEADER, hex);
}
