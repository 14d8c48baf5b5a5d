/*
 * Cancel requests (cancel/cancel.c): keys of both lengths, made here or at a peer, with bits for the peer and the remaining hops.
 *
 * Input: a byte that selects protocol, peer_id and whether a query runs; then requests, each of a byte and a few more: bits to be inverted in the
 * client's own key, or a key of any length. Properties: the server is told to cancel exactly if a query runs and the key equals the client's except
 * for the hops; a peer gets its own requests, with one hop less, and no others; the query is answered in any case.
 */
#include "fuzz.h"
#include "backend.h"
#include "house.h"
#include "pg/build.h"
#include "pg/frame.h"
#include "pg/startup.h"
#include "sandbox.h"

#include <stdlib.h>
#include <string.h>

enum { HOW_LONG = 1, HOW_PEERS = 2, HOW_RUNS = 4 };
#define PEER_THERE 5
#define REQUESTS_MOST 6

#define INI(more) \
	"[databases]\nd = " HOUSE_SERVER "pool_size=1 user=u" HOUSE_SETTINGS "auth_type=any\n" more

static const char alone[] = INI(""), grouped[] = INI("peer_id=1\n[peers]\n5 = host=127.0.0.1 port=5432\n");

struct key {
	uint32_t pid;
	size_t size;
	uint8_t bytes[PG_KEY_MOST];
};

/* The BackendKeyData of the welcome. */
static struct key key_of(const struct house_end *client)
{
	const uint8_t *at = bytes_front(&client->got);
	size_t left = bytes_size(&client->got);
	struct key key = { .size = 0 };
	struct pg_frame f = { 0, 0, NULL, 0 };

	while (pg_frame_look(at, left, PG_LENGTH_LIMIT, &f) == PG_OK && f.type != 'K') {
		at += PG_HEADER + f.size;
		left -= PG_HEADER + f.size;
	}
	FUZZ_CHECK(left > 0 && f.type == 'K' && f.size >= 8 && f.size - 4 <= sizeof(key.bytes));
	key.pid = pg_u32_at(f.body);
	key.size = f.size - 4;
	memcpy(key.bytes, f.body + 4, key.size);
	return key;
}

/* Returns the key of the next request. */
static struct key next_key(struct fuzz_input *in, const struct key *own)
{
	struct key key = *own;
	uint8_t what = fuzz_u8(in);

	switch (what % 4) {
	case 0:
		return key;
	case 1:
		key.bytes[fuzz_u8(in) % key.size] ^= fuzz_u8(in);
		return key;
	case 2:
		/* of the other one, with hops */
		key.bytes[0] = PEER_THERE >> 6;
		key.bytes[1] = (uint8_t)((PEER_THERE & 0x3f) << 2 | (what >> 6));
		key.pid ^= fuzz_u8(in);
		return key;
	default:
		key.size = PG_KEY_LEAST + fuzz_u16(in) % (PG_KEY_MOST - PG_KEY_LEAST + 1);
		key.bytes[3] ^= what >> 2;
		return key;
	}
}

static bool is_own(const struct key *own, const struct key *asked, bool peers)
{
	struct key a = *own, b = *asked;

	if (peers) {
		a.bytes[1] |= 3;
		b.bytes[1] |= 3;
	}
	return a.pid == b.pid && a.size == b.size && memcmp(a.bytes, b.bytes, a.size) == 0;
}

static bool is_for_peer(const struct key *asked)
{
	int id = asked->bytes[0] << 6 | asked->bytes[1] >> 2;

	return (asked->size == CANCEL_KEY || asked->size == CANCEL_KEY_LONG) && id == PEER_THERE && (asked->bytes[1] & 3) > 0;
}

/* Checks the packet on a connection that pgweir has opened since: the expected packet, or none with size 0. */
static void expect(struct house *h, int ends_before, const struct bytes *want)
{
	struct house_end *carrier = h->end_count > ends_before ? house_server(h) : NULL;
	static const struct bytes nothing = BYTES_EMPTY;

	if (carrier && carrier < &h->ends[ends_before])
		carrier = NULL;
	FUZZ_SAME(want, carrier ? &carrier->got : &nothing);
}

static void request(struct house *h, const struct key *own, const struct key *asked, uint8_t how)
{
	struct house_end *canceller = house_connect(h);
	struct bytes out = BYTES_EMPTY, want = BYTES_EMPTY;
	int before = h->end_count;

	FUZZ_CHECK(canceller != NULL);
	pg_build_key(&out, 0, asked->pid, asked->bytes, asked->size);
	house_send(h, canceller, bytes_front(&out), bytes_size(&out));
	house_settle(h);
	if (is_own(own, asked, how & HOW_PEERS)) {
		if (how & HOW_RUNS)
			pg_build_key(&want, 0, BACKEND_PID, (const uint8_t *)BACKEND_KEY, sizeof(BACKEND_KEY) - 1);
	} else if ((how & HOW_PEERS) && is_for_peer(asked)) {
		struct key passed = *asked;

		passed.bytes[1]--;
		pg_build_key(&want, 0, passed.pid, passed.bytes, passed.size);
	}
	expect(h, before, &want);
	FUZZ_CHECK(canceller->is_gone && bytes_size(&canceller->got) == 0);
	bytes_free(&out);
	bytes_free(&want);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = fuzz_input_of(data, size);
	uint8_t how = fuzz_u8(&in);
	struct house h;
	struct house_end *client;
	struct key own, asked;

	sandbox_begin();
	house_open(&h, how & HOW_PEERS ? grouped : alone);
	client = house_login(&h, "neighbour", "d", how & HOW_LONG ? 2 : 0);
	FUZZ_CHECK(client != NULL);
	own = key_of(client);
	FUZZ_CHECK(own.size == (how & HOW_LONG ? CANCEL_KEY_LONG : CANCEL_KEY));
	h.holds_answers = true;
	if (how & HOW_RUNS)
		house_send(&h, client, "Q\0\0\0\10one", 9);
	house_settle(&h);
	for (int i = 0; i < REQUESTS_MOST && fuzz_left(&in) > 0; i++) {
		asked = next_key(&in, &own);
		request(&h, &own, &asked, how);
	}
	h.holds_answers = false;
	house_settle(&h);
	FUZZ_CHECK(!client->is_gone);
	if (how & HOW_RUNS)
		FUZZ_CHECK(bytes_front(&client->got)[bytes_size(&client->got) - 6] == 'Z' && client->got.end > client->seen);
	house_hang_up(client);
	house_settle(&h);
	house_check_next_client(&h, "d");
	house_close(&h);
	sandbox_end();
	return 0;
}
