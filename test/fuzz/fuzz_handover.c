/*
 * The handover of an online restart (src/handover, net/records.c, pg/ledger.c and others): the records that one process writes and another reads.
 *
 * Input: 'S', a byte of options, a stop position, and a client's messages, for a world that hands over in the middle; or 'M', the same with changes
 * before the messages: the records of such a world are changed, and a new world takes them over. No input contains a record, so the records always
 * have the current layout. Properties: no record causes harm: a refused record is undone completely, and a complete set can be served and ended;
 * records without a change are accepted; a client that was handed over gets the same bytes as without handover.
 */
#include "fuzz.h"
#include "backend.h"
#include "house.h"
#include "messages.h"
#include "net/records.h"
#include "pg/frame.h"
#include "sandbox.h"
#include "handover/handover_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define RECORDS_MOST 40
#define PATIENCE 1000
#define CHANGE 3			/* bytes of a change: see change_records() */
#define CHANGES_MOST 8

static const char ini[] =
	"[databases]\nd = " HOUSE_SERVER "pool_size=1 user=u" HOUSE_SETTINGS "auth_type=any\npool_mode=transaction\n"
	"max_prepared_statements=2\nadmin_users=admin\n";

/* ---- taking records over ---- */

/* A descriptor where such a record has one; its other end is an end of the house. */
static int descriptor_for(struct house *h, uint8_t type)
{
	int fds[2];

	if (type != HANDOVER_LISTEN_SOCKET && type != HANDOVER_PREDECESSOR && type != HANDOVER_SERVER && type != HANDOVER_CLIENT)
		return -1;
	if (h->end_count == HOUSE_ENDS)
		return -1;
	FUZZ_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
	h->ends[h->end_count++] = (struct house_end){ .fd = fds[0], .is_server = type == HANDOVER_SERVER, .got = BYTES_EMPTY };
	return fds[1];
}

static void finish(struct house *h, struct handover **handover)
{
	struct records *predecessor;
	int fds[2];

	FUZZ_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
	predecessor = records_new(fds[1]);
	FUZZ_CHECK(predecessor);
	handover_finish(handover, &predecessor);
	house_settle(h);
	house_tick(h, USEC);
	house_tick(h, 1000 * USEC);
	close(fds[0]);
	house_settle(h);
}

/* Returns whether all records were accepted. */
static bool take_records(struct fuzz_input in)
{
	struct conf_problems problems = { .count = 0 };
	struct handover *handover;
	struct house h;
	struct pg_frame f;
	bool goes_on = true, is_whole;

	house_open(&h, ini);
	handover = handover_begin(h.world);
	FUZZ_CHECK(handover);
	for (int i = 0; i < RECORDS_MOST && goes_on; i++) {
		uint8_t *body;
		struct record record;

		if (pg_frame_look(in.at, fuzz_left(&in), PG_LENGTH_LIMIT, &f) != PG_OK)
			break;
		body = fuzz_copy(f.body, f.here);
		record = (struct record){ .type = f.type, .body = body, .size = f.here, .fd = descriptor_for(&h, f.type) };
		goes_on = handover_take(handover, &record, &problems);
		FUZZ_CHECK(goes_on || problems.errors > 0);
		free(body);
		in.at += PG_HEADER + f.here;
	}
	is_whole = goes_on && handover->is_whole;
	if (is_whole)
		finish(&h, &handover);
	handover_undo(&handover);
	conf_problems_free(&problems);
	house_close(&h);
	return is_whole;
}

/* ---- records of a world ---- */

/* Writes the records that `from` would hand over: type, length as in a message, body. */
static void write_records(struct house *from, struct bytes *to)
{
	struct handover_counts counts;
	struct records *out, *in;
	struct record record = { .type = 0 };
	int fds[2];

	FUZZ_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
	out = records_new(fds[0]);
	in = records_new(fds[1]);
	FUZZ_CHECK(out && in && handover_send(from->world, out, PATIENCE, &counts));
	while (record.type != HANDOVER_END) {
		FUZZ_CHECK(records_next(in, &record, PATIENCE) == RECORDS_OK);
		bytes_append_u8(to, record.type);
		bytes_append_u32(to, (uint32_t)record.size + PG_LENGTH_WORD);
		bytes_append(to, record.body, record.size);
		if (record.fd >= 0)
			close(record.fd);
	}
	FUZZ_CHECK(!to->failed);
	records_free(&out);
	records_free(&in);
}

/* Hands all that `from` has to `to`, by a socket. From then on the ends belong to `to`. */
static void hand_over(struct house *from, struct house *to)
{
	struct conf_problems problems = { .count = 0 };
	struct handover_counts counts;
	struct handover *handover = handover_begin(to->world);
	struct records *out, *in;
	struct record record;
	int fds[2];

	FUZZ_CHECK(handover && socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
	out = records_new(fds[0]);
	in = records_new(fds[1]);
	FUZZ_CHECK(out && in && handover_send(from->world, out, PATIENCE, &counts));
	while (!handover->is_whole) {
		FUZZ_CHECK(records_next(in, &record, PATIENCE) == RECORDS_OK);
		FUZZ_CHECK(handover_take(handover, &record, &problems));
	}
	conf_problems_free(&problems);
	handover_done(from->world, &out);
	handover_finish(&handover, &in);
	memcpy(to->ends, from->ends, sizeof(to->ends));
	to->end_count = from->end_count;
	from->end_count = 0;
}

static struct bytes play(uint8_t how, const uint8_t *data, size_t size, size_t split)
{
	struct bytes got = BYTES_EMPTY, news;
	struct house old, fresh, *now = &old;
	struct house_end *client;
	int place;

	sandbox_begin();
	house_open(&old, ini);
	FUZZ_CHECK(house_login(&old, "admin", "pgbouncer", 0));
	client = house_login(&old, "neighbour", "d", how & 1 ? 2 : 0);
	FUZZ_CHECK(client);
	place = (int)(client - old.ends);
	old.holds_answers = how & 2;
	house_send(&old, client, data, split < size ? split : size);
	house_settle(&old);
	if (split < size && !handover_refusal(old.world) && handover_is_calm(old.world) && !client->is_gone) {
		house_open(&fresh, ini);
		hand_over(&old, &fresh);
		house_settle(&old);
		house_close(&old);
		now = &fresh;
	}
	client = &now->ends[place];
	now->holds_answers = how & 2;
	if (split < size)
		house_send(now, client, data + split, size - split);
	house_settle(now);
	now->holds_answers = false;
	house_settle(now);
	news = house_news(client);
	bytes_append(&got, news.data, bytes_size(&news));
	house_trim_pooler_answers(&got);
	bytes_append_u8(&got, client->is_gone ? '!' : '.');
	house_hang_up(client);
	house_settle(now);
	house_close(now);
	sandbox_end();
	return got;
}

static void compare(struct fuzz_input in)
{
	uint8_t how = fuzz_u8(&in);
	size_t split = fuzz_u8(&in), size = fuzz_left(&in);
	struct bytes with, without;

	without = play(how, in.at, size, size);
	with = play(how, in.at, size, split < size ? split : size / 2);
	/* a client that is closed in the middle has got as many answers as there was time for */
	if (bytes_front(&with)[bytes_size(&with) - 1] == '.' && bytes_front(&without)[bytes_size(&without) - 1] == '.') {
		with.end--, without.end--;
		house_trim_after_copy(&without, &with);
		FUZZ_SAME(&without, &with);
	}
	bytes_free(&with);
	bytes_free(&without);
}

/* Finds the record with this number, modulo the count of readable records. Returns false without any. */
static bool record_at(const struct bytes *records, size_t number, struct pg_frame *found)
{
	struct pg_frame all[RECORDS_MOST];
	struct pg_frames in = pg_frames_of(records);
	size_t count = 0;

	while (count < RECORDS_MOST && pg_frames_next(&in, PG_LENGTH_LIMIT, &all[count]) == PG_OK)
		count++;
	if (count > 0)
		*found = all[number % count];
	return count > 0;
}

/* `how`: 0 to 63 drop the record, 64 to 127 repeat it, 128 to 191 take as many bytes (modulo 64) from its end, 192 to 255 append as many zeros. */
static void change_one_record(struct bytes *records, uint8_t number, uint8_t how)
{
	struct bytes out = BYTES_EMPTY;
	struct pg_frame f;

	if (!record_at(records, number, &f))
		return;
	const uint8_t *all = bytes_front(records), *begin = f.body - PG_HEADER, *end = f.body + f.size;
	size_t size = how >= 192 ? f.size + (how & 63) : f.size > (how & 63) ? f.size - (how & 63) : 0;

	bytes_append(&out, all, (size_t)(begin - all));
	if (how >= 128) {
		bytes_append_u8(&out, f.type);
		bytes_append_u32(&out, (uint32_t)size + PG_LENGTH_WORD);
		bytes_append(&out, f.body, size < f.size ? size : f.size);
		for (size_t i = f.size; i < size; i++)
			bytes_append_u8(&out, 0);
	}
	for (int i = 0; how >= 64 && how < 128 && i < 2; i++)
		bytes_append(&out, begin, (size_t)(end - begin));
	bytes_append(&out, end, bytes_size(records) - (size_t)(end - all));
	FUZZ_CHECK(!out.failed);
	bytes_free(records);
	*records = out;
}

/* A change is a position of two bytes and the bits that change there; without bits the position is the number of a record and what happens to it. */
static void change_records(struct bytes *records, const uint8_t *changes, size_t count)
{
	for (const uint8_t *one = changes; one < changes + CHANGE * count && bytes_size(records) > 0; one += CHANGE) {
		if (one[2])
			bytes_front(records)[(size_t)(one[0] << 8 | one[1]) % bytes_size(records)] ^= one[2];
		else
			change_one_record(records, one[0], one[1]);
	}
}

/* A world hands over in the middle of its client's messages, the records are changed, and a new world takes them over. */
static void change(struct fuzz_input in)
{
	uint8_t how = fuzz_u8(&in);
	size_t split = fuzz_u8(&in), changes = fuzz_u8(&in) % (CHANGES_MOST + 1);
	const uint8_t *places = in.at;
	struct bytes records = BYTES_EMPTY;
	struct house_end *client;
	struct house h;

	if (fuzz_left(&in) < CHANGE * changes)
		return;
	in.at += CHANGE * changes;
	sandbox_begin();
	house_open(&h, ini);
	FUZZ_CHECK(house_login(&h, "admin", "pgbouncer", 0));
	client = house_login(&h, "neighbour", "d", how & 1 ? 2 : 0);
	FUZZ_CHECK(client);
	h.holds_answers = how & 2;
	house_send(&h, client, in.at, split < fuzz_left(&in) ? split : fuzz_left(&in));
	house_settle(&h);
	if (!handover_refusal(h.world) && handover_is_calm(h.world))
		write_records(&h, &records);
	house_close(&h);
	change_records(&records, places, changes);
	if (bytes_size(&records) > 0) {
		bool is_accepted = take_records(fuzz_input_of(bytes_front(&records), bytes_size(&records)));

		FUZZ_CHECK(is_accepted || changes > 0);
	}
	bytes_free(&records);
	sandbox_end();
}

static const struct messages_kit client_kit = { .skip = 3, .parts = messages_of_client };
static const struct messages_kit change_kit = { .skip = 4 + CHANGE * 2, .parts = messages_of_client };

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed)
{
	const struct messages_kit *kit = size > 0 && data[0] == 'M' ? &change_kit : &client_kit;

	return messages_mutate(kit, data, size, most, seed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = fuzz_input_of(data, size);

	if (size < 3 || size > 16384)
		return 0;
	if (data[0] == 'S') {
		in.at++;
		compare(in);
	} else if (data[0] == 'M') {
		in.at++;
		change(in);
	}
	return 0;
}
