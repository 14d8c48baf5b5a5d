/*
 * Cancel keys: the pair of process number and secret by which a CancelRequest names a client.
 *
 * A client gets its key when it has logged in, before its BackendKeyData (cancel_make_key()), and
 * keeps it to its end, also in another process after a handover. The table of keys is searched for
 * each CancelRequest, and for process numbers in notifications.
 *
 * Invariant: no two clients have the same pair. A process number that pgweir has made is above
 * SERVER_PID_MOST and belongs to one client; with session_link = login it is the number of a
 * server, which servers on different machines may share.
 */
#include "cancel/cancel_inside.h"

#include "base/hash.h"
#include "base/mem.h"

#include <string.h>

/* attempts to find a secret, different from the secrets of clients with the same process number */
#define DRAWS_MOST 16

/* With session_link = login a server chooses the process number; a keyed hash prevents that it
   chooses the bucket. */
static bool cancel_enlist(struct client *c)
{
	HASH_ADD(cancel_key.hh, c->peer.world->cancels->by_pid, cancel_key.pid,
		 sizeof(c->cancel_key.pid), c);
	c->cancel_key.is_valid = HASH_HAS(cancel_key.hh, c);
	return c->cancel_key.is_valid;
}

void cancel_key_forget(struct client *c)
{
	if (!c->cancel_key.is_valid)
		return;
	HASH_DELETE(cancel_key.hh, c->peer.world->cancels->by_pid, c);
	c->cancel_key.is_valid = false;
}

/* Returns the first client with this process number; the others follow in its bucket. NULL: no such
   client. */
static struct client *cancel_first_of(const struct cancels *all, uint32_t pid)
{
	struct client *found;

	HASH_FIND(cancel_key.hh, all->by_pid, &pid, sizeof(pid), found);
	return found;
}

struct client *cancel_find(const struct world *w, uint32_t pid, const uint8_t *key, size_t size)
{
	uint8_t own[CANCEL_KEY_LONG], asked[CANCEL_KEY_LONG];

	for (struct client *c = cancel_first_of(w->cancels, pid); c;
	     c = HASH_NEXT_IN_BUCKET(cancel_key.hh, c)) {
		if (c->cancel_key.pid != pid || c->cancel_key.size != size)
			continue;
		memcpy(own, c->cancel_key.secret, size);
		memcpy(asked, key, size);
		/* the number of hops is not a part of the secret */
		if (w->conf->settings.peer_id != 0) {
			own[1] |= PEER_KEY_HOPS;
			asked[1] |= PEER_KEY_HOPS;
		}
		if (mem_equal_constant_time(own, asked, size))
			return c;
	}
	return NULL;
}

struct client *cancel_find_pid(const struct world *w, uint32_t pid)
{
	return cancel_first_of(w->cancels, pid);
}

/* Draws a process number that no other client has. Other clients are not told this number
   (state/server_session.c). */
static bool draw_pid(struct client *c)
{
	struct world *w = c->peer.world;

	do {
		uint32_t random;

		if (!randomness_draw(&w->randomness, &random, sizeof(random)))
			return false;
		c->cancel_key.pid = random & INT32_MAX;
	} while (c->cancel_key.pid <= SERVER_PID_MOST ||
		 cancel_first_of(w->cancels, c->cancel_key.pid));
	return true;
}

/* `pid` may be a server's process number; servers on different machines may have the same. Such a
   number is not secret, and with peer_id the rest of a short key has 16 random bits, which can be
   guessed in seconds. */
bool cancel_make_key(struct client *c, uint32_t pid)
{
	struct world *w = c->peer.world;
	int64_t peer_id = w->conf->settings.peer_id;
	bool is_long = c->login_facts.minor >= PG_MINOR_LONG_KEYS;
	int draws = 0;

	if (peer_id != 0 && !is_long)
		pid = 0;
	c->cancel_key.size = is_long ? CANCEL_KEY_LONG : CANCEL_KEY;
	do {
		if (++draws > DRAWS_MOST)
			pid = 0;
		c->cancel_key.pid = pid;
		if ((pid == 0 && !draw_pid(c)) ||
		    !randomness_draw(&w->randomness, c->cancel_key.secret, c->cancel_key.size))
			return false;
		if (peer_id != 0) {
			c->cancel_key.secret[0] = (uint8_t)(peer_id >> 6);
			c->cancel_key.secret[1] = (uint8_t)((peer_id & 0x3f) << 2 | PEER_KEY_HOPS);
		}
	} while (pid != 0 && cancel_find(w, pid, c->cancel_key.secret, c->cancel_key.size));
	return cancel_enlist(c);
}

void cancel_key_pack(struct bytes *out, const struct client *c)
{
	pack_bool(out, c->cancel_key.is_valid);
	bytes_append_u32(out, c->cancel_key.pid);
	pack_blob(out, c->cancel_key.secret, c->cancel_key.size);
}

void cancel_key_unpack(struct unpack *in, struct client *c)
{
	bool has_key = unpack_bool(in);
	const uint8_t *key;
	size_t size;

	c->cancel_key.pid = unpack_u32(in);
	key = unpack_blob(in, &size);
	in->bad |= size > sizeof(c->cancel_key.secret) || (has_key && size < CANCEL_KEY);
	if (in->bad || !has_key)
		return;
	memcpy(c->cancel_key.secret, key, size);
	c->cancel_key.size = (uint8_t)size;
	in->bad |= cancel_find(c->peer.world, c->cancel_key.pid, key, size) || !cancel_enlist(c);
}
