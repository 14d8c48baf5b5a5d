/*
 * A mutator that knows messages: see messages.h.
 */
#include "messages.h"

#include "pg/frame.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define FRAMES_MOST 256

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most) __attribute__((weak));

const struct messages_part messages_of_client[] = {
	MESSAGES_PART('Q', "one\0"), MESSAGES_PART('Q', "B\0"), MESSAGES_PART('Q', "C\0"), MESSAGES_PART('Q', "E\0"),
	MESSAGES_PART('Q', "G\0"), MESSAGES_PART('Q', "H\0"), MESSAGES_PART('Q', "\0"), MESSAGES_PART('Q', "DISCARD ALL\0"),
	MESSAGES_PART('P', "a\0one\0\0\0"), MESSAGES_PART('P', "\0two\0\0\0"), MESSAGES_PART('P', "b\0E\0\0\0"),
	MESSAGES_PART('P', "c\0G\0\0\1\0\0\0\27"), MESSAGES_PART('P', "\0B\0\0\0"), MESSAGES_PART('B', "\0a\0\0\0\0\0\0\0"),
	MESSAGES_PART('B', "p\0b\0\0\0\0\0\0\0"), MESSAGES_PART('B', "\0\0\0\0\0\0\0\0"), MESSAGES_PART('D', "Sa\0"),
	MESSAGES_PART('D', "S\0"), MESSAGES_PART('D', "P\0"), MESSAGES_PART('E', "\0\0\0\0\0"),
	MESSAGES_PART('E', "p\0\0\0\0\1"),
	MESSAGES_PART('C', "Sa\0"), MESSAGES_PART('C', "Pp\0"), MESSAGES_PART('C', "S\0"), MESSAGES_PART('S', ""),
	MESSAGES_PART('H', ""),
	MESSAGES_PART('F', "\0\0\0\1\0\0\0\0\0\0"), MESSAGES_PART('d', "row\n"), MESSAGES_PART('c', ""),
	MESSAGES_PART('f', "no\0"),
	MESSAGES_PART('Q', "W1\0"), MESSAGES_PART('Q', "W2\0"), MESSAGES_PART('Q', "w\0"), MESSAGES_PART('Q', "ALISTEN\0"), MESSAGES_PART('Q', "AUNLISTEN\0"),
	MESSAGES_PART('Q', "ACREATE TABLE\0"), MESSAGES_PART('Q', "ADROP TABLE\0"), MESSAGES_PART('Q', "ADO\0"), MESSAGES_PART('Q', "set_config('a.b\0"),
	MESSAGES_PART('P', "w\0w\0\0\0"), MESSAGES_PART('P', "w\0W3\0\0\0"), MESSAGES_PART('B', "\0w\0\0\0\0\0\0\0"),
	MESSAGES_PART('X', ""), MESSAGES_PART(0, ""),
};

const struct messages_part messages_of_server[] = {
	MESSAGES_PART('1', ""), MESSAGES_PART('2', ""), MESSAGES_PART('3', ""), MESSAGES_PART('n', ""),
	MESSAGES_PART('s', ""),
	MESSAGES_PART('I', ""), MESSAGES_PART('c', ""), MESSAGES_PART('d', "row\n"), MESSAGES_PART('t', "\0\0"),
	MESSAGES_PART('T', "\0\1text\0\0\0\0\0\0\0\0\0\0\31\377\377\377\377\377\377\0\0"),
	MESSAGES_PART('D', "\0\1\0\0\0\3one"),
	MESSAGES_PART('D', "\0\2\0\0\0\5alice\0\0\0\6pencil"), MESSAGES_PART('D', "\0\1\377\377\377\377"),
	MESSAGES_PART('C', "SET\0"), MESSAGES_PART('C', "LISTEN\0"), MESSAGES_PART('C', "DROP TABLE\0"), MESSAGES_PART('D', "\0\1\0\0\0\0015"),
	MESSAGES_PART('D', "\0\1\0\0\0\00575:62"), MESSAGES_PART('D', "\0\2\0\0\0\10work_mem\0\0\0\0011"),
	MESSAGES_PART('C', "SELECT 1\0"), MESSAGES_PART('C', "DISCARD ALL\0"), MESSAGES_PART('Z', "I"),
	MESSAGES_PART('Z', "T"),
	MESSAGES_PART('Z', "E"), MESSAGES_PART('E', "SERROR\0C42601\0Mwrong\0\0"),
	MESSAGES_PART('E', "SFATAL\0VFATAL\0C57P01\0Mend\0\0"),
	MESSAGES_PART('E', "\0"), MESSAGES_PART('N', "SNOTICE\0C00000\0Mnews\0\0"), MESSAGES_PART('A', "\0\0\0\1chan\0\0"),
	MESSAGES_PART('S', "DateStyle\0ISO, MDY\0"), MESSAGES_PART('S', "TimeZone\0UTC\0"),
	MESSAGES_PART('S', "server_version\00016.3\0"),
	MESSAGES_PART('S', "client_encoding\0UTF8\0"), MESSAGES_PART('S', "standard_conforming_strings\0on\0"),
	MESSAGES_PART('G', "\0\0\0"), MESSAGES_PART('H', "\0\0\0"), MESSAGES_PART('W', "\0\0\0"),
	MESSAGES_PART('V', "\377\377\377\377"),
	MESSAGES_PART('K', "\0\0\22\147key!"), MESSAGES_PART('R', "\0\0\0\0"), MESSAGES_PART('R', "\0\0\0\3"),
	MESSAGES_PART('R', "\0\0\0\5salt"), MESSAGES_PART('R', "\0\0\0\12SCRAM-SHA-256\0\0"),
	MESSAGES_PART('v', "\0\3\0\0\0\0\0\0"),
	MESSAGES_PART(0, ""),
};

/* ---- pieces ---- */

struct piece {
	size_t at, size;
};

/* Where the messages are; the last may be cut off, or no message at all. */
static int cut(const struct messages_kit *kit, const uint8_t *data, size_t size, struct piece *pieces)
{
	size_t at = kit->skip < size ? kit->skip : size;
	int count = 0;

	while (at < size && count < FRAMES_MOST) {
		size_t type = kit->has_packet && count == 0 ? 0 : 1, length = type + 4;

		if (size - at >= length)
			length = type + pg_u32_at(data + at + type);
		if (length < type + 4 || length > size - at)
			length = size - at;
		pieces[count++] = (struct piece){ at, length };
		at += length;
	}
	return count;
}

static void put_length(uint8_t *at, size_t size)
{
	at[0] = (uint8_t)(size >> 24);
	at[1] = (uint8_t)(size >> 16);
	at[2] = (uint8_t)(size >> 8);
	at[3] = (uint8_t)size;
}

/* Makes `gap` bytes of room, or takes `-gap` away, at this place. The new size, or 0: there is no room. */
static size_t move(uint8_t *data, size_t size, size_t most, size_t at, long gap)
{
	if (gap > 0 && size + (size_t)gap > most)
		return 0;
	if (gap < 0)
		memmove(data + at, data + at + (size_t)-gap, size - at - (size_t)-gap);
	else
		memmove(data + at + (size_t)gap, data + at, size - at);
	return (size_t)((long)size + gap);
}

static unsigned part_count(const struct messages_kit *kit)
{
	unsigned count = 0;

	while (kit->parts[count].type)
		count++;
	return count;
}

/* ---- changes to messages ---- */

static size_t put_in(const struct messages_kit *kit, uint8_t *data, size_t size, size_t most, size_t at, unsigned choice)
{
	const struct messages_part *part = &kit->parts[choice % part_count(kit)];
	size_t moved = move(data, size, most, at, (long)(PG_HEADER + part->size));

	if (!moved)
		return size;
	data[at] = part->type;
	put_length(data + at + 1, part->size + 4);
	memcpy(data + at + PG_HEADER, part->body, part->size);
	return moved;
}

static size_t repeat(uint8_t *data, size_t size, size_t most, const struct piece *from, size_t at)
{
	uint8_t *copy = malloc(from->size + 1);
	size_t moved;

	if (!copy)
		return size;
	memcpy(copy, data + from->at, from->size);
	moved = move(data, size, most, at, (long)from->size);
	if (moved)
		memcpy(data + at, copy, from->size);
	free(copy);
	return moved ? moved : size;
}

/* The body changes, and the length with it. */
static size_t change(uint8_t *data, size_t size, size_t most, const struct piece *p, size_t header)
{
	size_t body = p->size - header, room = body + (most - size < 64 ? most - size : 64), fresh, moved;
	uint8_t *copy = room > 0 ? malloc(room) : NULL;

	if (!copy)
		return size;
	memcpy(copy, data + p->at + header, body);
	fresh = LLVMFuzzerMutate(copy, body, room);
	moved = move(data, size, most, p->at + header, (long)fresh - (long)body);
	if (moved) {
		memcpy(data + p->at + header, copy, fresh);
		put_length(data + p->at + header - 4, fresh + 4);
	}
	free(copy);
	return moved ? moved : size;
}

size_t messages_mutate(const struct messages_kit *kit, uint8_t *data, size_t size, size_t most, unsigned seed)
{
	struct piece pieces[FRAMES_MOST], *p;
	unsigned what = seed % 16, choice = seed / 16;
	int count = cut(kit, data, size, pieces);
	size_t header;

	if (!LLVMFuzzerMutate)
		return size;
	if (what < 2 || size < kit->skip)
		return LLVMFuzzerMutate(data, size, most);
	if (what == 2 && kit->skip > 0) {
		data[choice % kit->skip] = (uint8_t)(choice >> 8);
		return size;
	}
	if (count == 0 || what < 6)
		return put_in(kit, data, size, most, count > 0 && choice % 4 ? pieces[choice % (unsigned)count].at : size, choice / 7);
	p = &pieces[choice % (unsigned)count];
	header = kit->has_packet && p == pieces ? 4 : PG_HEADER;
	if (p->size < header)
		return LLVMFuzzerMutate(data, size, most);
	switch (what) {
	case 6: case 7:
		return count > 1 ? move(data, size, most, p->at, -(long)p->size) : size;
	case 8: case 9:
		return repeat(data, size, most, p, pieces[choice / 64 % (unsigned)count].at);
	case 10:
		/* the end is lost */
		return p->at + choice / 64 % p->size + 1;
	case 11:
		if (header == PG_HEADER)
			data[p->at] = kit->parts[choice / 64 % part_count(kit)].type;
		return size;
	default:
		return change(data, size, most, p, header);
	}
}

int messages_go_on_after_ready(const uint8_t *data, size_t size)
{
	const uint8_t *ready = size > 0 ? memmem(data, size, "Z\0\0\0\5", 5) : NULL;

	return ready && ready + 6 < data + size;
}
