/*
 * Building messages ("Message Formats").
 *
 * The length of a message is written at its end. A mark counts from the first unread byte, because
 * an append may move the memory. A failed append sets `failed`, and later appends do nothing, so
 * that the caller checks once (base/bytes.h).
 *
 * Invariant: unless `failed`, the bytes between begin and end are one valid message of protocol 3,
 * of at most 2^31-1 bytes.
 */
#include "pg/build.h"

#include "pg/frame.h"

#include <string.h>

#define VERSION_CANCEL 0x04d2162eu	/* 1234.5678 */
#define OID_BYTEA 17
#define OID_INT8 20
#define OID_INT4 23
#define OID_TEXT 25
#define OID_NUMERIC 1700

size_t pg_begin(struct bytes *out, uint8_t type)
{
	size_t mark;

	if (type)
		bytes_append_u8(out, type);
	mark = bytes_size(out);
	bytes_append_u32(out, 0);
	return mark;
}

void pg_end(struct bytes *out, size_t mark)
{
	size_t length;

	if (out->failed)
		return;
	length = bytes_size(out) - mark;
	if (length > INT32_MAX)
		out->failed = true;
	else
		pg_u32_put(bytes_front(out) + mark, (uint32_t)length);
}

void pg_build_auth(struct bytes *out, uint32_t code, const void *data, size_t size)
{
	size_t mark = pg_begin(out, 'R');

	bytes_append_u32(out, code);
	if (size)
		bytes_append(out, data, size);
	pg_end(out, mark);
}

void pg_build_key(struct bytes *out, uint8_t type, uint32_t pid, const uint8_t *key,
		  size_t key_size)
{
	size_t mark = pg_begin(out, type);

	if (!type)
		bytes_append_u32(out, VERSION_CANCEL);
	bytes_append_u32(out, pid);
	bytes_append(out, key, key_size);
	pg_end(out, mark);
}

static void append_field(struct bytes *out, char code, const char *text)
{
	if (!text)
		return;
	bytes_append_u8(out, (uint8_t)code);
	bytes_append_string(out, text);
}

void pg_build_report(struct bytes *out, uint8_t type, const char *severity, const char *sqlstate,
		     const char *message, const char *detail, const char *hint)
{
	size_t mark = pg_begin(out, type);

	append_field(out, 'S', severity);
	append_field(out, 'V', severity);
	append_field(out, 'C', sqlstate);
	append_field(out, 'M', message);
	append_field(out, 'D', detail);
	append_field(out, 'H', hint);
	bytes_append_u8(out, 0);
	pg_end(out, mark);
}

void pg_build_negotiate(struct bytes *out, uint32_t newest_minor_version,
			const char *const *options, size_t count)
{
	size_t mark = pg_begin(out, 'v');

	bytes_append_u32(out, newest_minor_version);
	bytes_append_u32(out, (uint32_t)count);
	for (size_t i = 0; i < count; i++)
		bytes_append_string(out, options[i]);
	pg_end(out, mark);
}

void pg_build_sasl_initial(struct bytes *out, const char *mechanism, const void *data, size_t size)
{
	size_t mark = pg_begin(out, 'p');

	bytes_append_string(out, mechanism);
	bytes_append_u32(out, (uint32_t)size);
	if (size)
		bytes_append(out, data, size);
	pg_end(out, mark);
}

void pg_build_startup(struct bytes *out, uint32_t version, const char *const *pairs, size_t count)
{
	size_t mark = pg_begin(out, 0);

	bytes_append_u32(out, version);
	for (size_t i = 0; i < count; i++)
		bytes_append_string(out, pairs[i]);
	bytes_append_u8(out, 0);
	pg_end(out, mark);
}

struct column_type {
	const char *name;
	uint32_t oid;
	uint16_t size;		/* 0xffff: variable */
};

static const struct column_type column_types[] = {
	{ "text", OID_TEXT, 0xffff },		/* the first: also for a name without a type */
	{ "int4", OID_INT4, 4 },
	{ "int8", OID_INT8, 8 },
	{ "numeric", OID_NUMERIC, 0xffff },
	{ "17", OID_BYTEA, 0xffff },
};

void pg_build_row_description(struct bytes *out, const char *const *columns, size_t count)
{
	size_t mark = pg_begin(out, 'T');

	bytes_append_u16(out, (uint16_t)count);
	for (size_t i = 0; i < count; i++) {
		const char *colon = strrchr(columns[i], ':');
		const struct column_type *type = &column_types[0];

		for (size_t t = 0; colon && t < sizeof(column_types) / sizeof(column_types[0]); t++)
			if (strcmp(column_types[t].name, colon + 1) == 0)
				type = &column_types[t];
		bytes_append(out, columns[i],
			     colon ? (size_t)(colon - columns[i]) : strlen(columns[i]));
		bytes_append_u8(out, 0);
		bytes_append_u32(out, 0);		/* of no table */
		bytes_append_u16(out, 0);		/* no column */
		bytes_append_u32(out, type->oid);
		bytes_append_u16(out, type->size);
		bytes_append_u32(out, UINT32_MAX);	/* no type modifier */
		bytes_append_u16(out, 0);		/* text format */
	}
	pg_end(out, mark);
}
