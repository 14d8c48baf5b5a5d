/*
 * A small PostgreSQL for fuzz targets: see backend.h. It follows "Message Flow" in PostgreSQL's documentation: after an error in the extended
 * protocol, everything up to Sync is skipped; in a COPY from the client, Sync and Flush are ignored, and other messages end the COPY; CopyData and
 * similar messages outside of a COPY are ignored.
 */
#include "backend.h"

#include "data_row.h"
#include "fuzz.h"
#include "pg/build.h"
#include "pg/frame.h"
#include "pg/startup.h"
#include "pool/pool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PACKET_MOST 100000
#define TAG_MOST 60
#define QUESTION "SELECT pg_catalog.set_config('pgweir.timeout',"	/* the beginning of queries of session_state = full */
#define FUNCTIONS "SELECT pg_catalog.set_config('statement_timeout',"

void backend_init(struct backend *b)
{
	memset(b, 0, sizeof(*b));
	b->status = 'I';
}

/* ---- names ---- */

static void name_forget(struct backend_name *n)
{
	free(n->name);
	free(n->text);
	n->name = n->text = NULL;
}

static void names_forget(struct backend_name *names)
{
	for (int i = 0; i < BACKEND_NAMES; i++)
		name_forget(&names[i]);
}

static struct backend_name *name_find(struct backend_name *names, const char *name)
{
	for (int i = 0; i < BACKEND_NAMES; i++)
		if (names[i].name && strcmp(names[i].name, name) == 0)
			return &names[i];
	return NULL;
}

/* False: no room for more. */
static bool name_set(struct backend_name *names, const char *name, const char *text)
{
	struct backend_name *n = name_find(names, name);

	for (int i = 0; !n && i < BACKEND_NAMES; i++)
		if (!names[i].name)
			n = &names[i];
	if (!n)
		return false;
	name_forget(n);
	n->name = strdup(name);
	n->text = strdup(text);
	return true;
}

void backend_free(struct backend *b)
{
	bytes_free(&b->in);
	bytes_free(&b->notified);
	names_forget(b->statements);
	names_forget(b->portals);
}

/* ---- answers ---- */

static void fail(struct backend *b, const char *sqlstate, const char *text, struct bytes *out)
{
	pg_build_report(out, 'E', "ERROR", sqlstate, text, NULL, NULL);
	if (b->status == 'T')
		b->status = 'E';
}

static void put_short(struct bytes *out, uint8_t type)
{
	pg_end(out, pg_begin(out, type));
}

static void put_copy(struct bytes *out, uint8_t type)
{
	size_t mark = pg_begin(out, type);

	bytes_append_u8(out, 0);
	bytes_append_u16(out, 0);
	pg_end(out, mark);
}

static void report_params(const char *text, struct bytes *out)
{
	static const char call[] = "set_config('";

	while ((text = strstr(text, call))) {
		const char *name = text + sizeof(call) - 1, *name_end = strchr(name, '\''), *value = name_end ? name_end + 4 : NULL;
		const char *end;
		char reported[64], given[64];

		text = name;
		if (!name_end || strncmp(name_end, "',E'", 4) != 0 || !(end = strchr(value, '\'')))
			continue;
		if (name_end - name > 60 || end - value > 60)
			continue;
		memcpy(reported, name, (size_t)(name_end - name));
		reported[name_end - name] = '\0';
		memcpy(given, value, (size_t)(end - value));
		given[end - value] = '\0';
		pg_build_parameter_status(out, reported, given);
	}
}

/* ---- session state ---- */

static void begin(struct backend *b)
{
	b->status = 'T';
	b->had = b->has;
	strcpy(b->work_mem_before, b->work_mem);
}

static void roll_back(struct backend *b)
{
	b->has = b->had;
	strcpy(b->work_mem, b->work_mem_before);
}

/* Applies the effect of a command with this tag: creates or ends an object. */
static void take_tag(struct backend *b, const char *tag)
{
	static const struct { const char *begins; unsigned makes, ends; } tags[] = {
		{ "LISTEN", PIN_LISTENING, 0 }, { "UNLISTEN", 0, PIN_LISTENING }, { "PREPARE", PIN_STATEMENT, 0 }, { "DEALLOCATE", 0, PIN_STATEMENT },
		{ "CREATE", PIN_TEMPORARY, 0 }, { "DROP", 0, PIN_TEMPORARY }, { "DISCARD ALL", 0, ~0u },
	};

	for (size_t i = 0; i < sizeof(tags) / sizeof(tags[0]); i++)
		if (strncmp(tag, tags[i].begins, strlen(tags[i].begins)) == 0)
			b->has = (b->has | tags[i].makes) & ~tags[i].ends;
	if (strcmp(tag, "DISCARD ALL") == 0)
		b->work_mem[0] = '\0';
}

static void set_work_mem(struct backend *b, const char *value, size_t size)
{
	snprintf(b->work_mem, sizeof(b->work_mem), "%.*s", (int)size, value);
}

/* As the pooler sets it: to a value without a quote, or back. */
static void restore_work_mem(struct backend *b, const char *text)
{
	static const char call[] = "set_config('work_mem',";
	const char *value = strstr(text, call);

	if (strstr(text, "RESET ALL;"))
		b->work_mem[0] = '\0';
	if (!value)
		return;
	value += sizeof(call) - 1;
	if (strncmp(value, "E'", 2) == 0)
		set_work_mem(b, value + 2, strcspn(value + 2, "'"));
	else
		b->work_mem[0] = '\0';
}

static void put_rows(struct bytes *out, const char *const *values, uint16_t columns, int rows)
{
	static const char *const names[] = { "a:text", "b:text", "c:text", "d:text", "e:text" };

	pg_build_row_description(out, names, columns);
	for (int i = 0; i < rows; i++)
		pg_build_data_row(out, values, columns);
	pg_build_string(out, 'C', "SELECT");
}

static void answer_question(const struct backend *b, const char *text, struct bytes *out)
{
	const char *const first[] = { "0", "0", "1" }, *const parameter[] = { "work_mem", b->work_mem }, *const note = "75:6e6f6e65";
	const char *const channel[] = { "c", "0", "0", "0" };

	put_rows(out, first, 3, 1);
	if (strstr(text, ";SELECT name,"))
		put_rows(out, parameter, 2, *b->work_mem != '\0');
	for (unsigned i = 0; i < PINS; i++) {
		char asks[40], number[2] = { (char)('0' + i), 0 };
		const char *const row[] = { number };

		snprintf(asks, sizeof(asks), ";SELECT %u WHERE ", i);
		if (strstr(text, asks))
			put_rows(out, row, 1, b->has >> i & 1);
	}
	if (strstr(text, "pg_listening_channels"))
		put_rows(out, channel, 4, b->has & PIN_LISTENING ? 1 : 0);
	if (strstr(text, ";SELECT pg_catalog.concat("))
		put_rows(out, &note, 1, 2);
}

/* The pooler's marker: a channel and a payload. */
static void notify(struct backend *b, const char *text, struct bytes *out)
{
	char channel[64], payload[24];
	const char *at = strstr(text, ";NOTIFY \"");
	size_t mark;

	if (!at || sscanf(at, ";NOTIFY \"%63[^\"]\",'%23[0-9]'", channel, payload) != 2)
		return;
	mark = pg_begin(&b->notified, 'A');
	bytes_append_u32(&b->notified, BACKEND_PID);
	bytes_append_string(&b->notified, channel);
	bytes_append_string(&b->notified, payload);
	pg_end(&b->notified, mark);
	bytes_append(out, bytes_front(&b->notified), bytes_size(&b->notified));
}

/* The statement that a text of one word and a quoted name is about: DEALLOCATE "a". NULL: there is none; *is_one says whether the text is such. */
static struct backend_name *named_by(struct backend *b, const char *text, const char *word, bool *is_one)
{
	const char *at = text + strlen(word), *end = strlen(text) > strlen(word) ? strchr(at + 1, '"') : NULL;
	char name[64];

	*is_one = end && strncmp(text, word, strlen(word)) == 0 && *at == '"' && end - at <= (ptrdiff_t)sizeof(name);
	if (!*is_one)
		return NULL;
	snprintf(name, sizeof(name), "%.*s", (int)(end - at - 1), at + 1);
	return name_find(b->statements, name);
}

/* DEALLOCATE and EXECUTE of one statement. False: the text is something else. */
static bool run_named(struct backend *b, const char **text, struct bytes *out)
{
	bool drops, executes;
	struct backend_name *dropped = named_by(b, *text, "DEALLOCATE ", &drops), *executed = named_by(b, *text, "EXECUTE ", &executes);

	if ((drops && !dropped) || (executes && !executed)) {
		fail(b, "26000", *text, out);
		b->skips = true;
		return true;
	}
	if (executed)
		*text = executed->text;
	if (!dropped)
		return false;
	name_forget(dropped);
	pg_build_string(out, 'C', "DEALLOCATE");
	return true;
}

/* Answers a text, after its RowDescription if it has one. Returns true if a COPY from the client follows. */
static bool run(struct backend *b, const char *text, bool describes, struct bytes *out)
{
	static const char *const columns[] = { "text:text" };
	char tag[TAG_MOST];

	if (b->status == 'E' && *text != 'C') {
		fail(b, "25P02", "current transaction is aborted, commands ignored until end of transaction block", out);
		b->skips = true;
		return false;
	}
	if (strncmp(text, QUESTION, sizeof(QUESTION) - 1) == 0) {
		answer_question(b, text, out);
		return false;
	}
	if (strncmp(text, FUNCTIONS, sizeof(FUNCTIONS) - 1) == 0) {
		pg_build_string(out, 'C', "SELECT");
		return false;
	}
	if (run_named(b, &text, out))
		return false;
	notify(b, text, out);
	if (strcmp(text, "UNLISTEN *") == 0) {
		take_tag(b, "UNLISTEN");
		pg_build_string(out, 'C', "UNLISTEN");
		return false;
	}
	report_params(text, out);
	restore_work_mem(b, text);
	switch (*text) {
	case '\0':
		put_short(out, 'I');
		return false;
	case 'B':
		if (b->status == 'I')
			begin(b);
		pg_build_string(out, 'C', "BEGIN");
		return false;
	case 'C':
		pg_build_string(out, 'C', b->status == 'E' ? "ROLLBACK" : "COMMIT");
		if (b->status == 'E')
			roll_back(b);
		b->status = 'I';
		return false;
	case 'A':
		snprintf(tag, sizeof(tag), "%s", text + 1);
		/* tags whose words must be in the text follow after D */
		if (strcmp(tag, "DISCARD ALL") == 0 || strcmp(tag, "DEALLOCATE ALL") == 0)
			break;
		take_tag(b, tag);
		pg_build_string(out, 'C', tag);
		return false;
	case 'W':
		set_work_mem(b, text + 1, strcspn(text + 1, "'\\"));
		pg_build_string(out, 'C', "SET");
		return false;
	case 'w':
		text = b->work_mem;
		break;
	case 'D':
		if (!strcasestr(text, "DISCARD") && !strcasestr(text, "DEALLOCATE"))
			break;
		names_forget(b->statements);
		take_tag(b, strncmp(text, "DEALLOCATE", 10) == 0 ? "" : "DISCARD ALL");
		pg_build_string(out, 'C', strncmp(text, "DEALLOCATE", 10) == 0 ? "DEALLOCATE ALL" : "DISCARD ALL");
		return false;
	case 'E':
		fail(b, "42601", text, out);
		b->skips = true;
		return false;
	case 'G':
		put_copy(out, 'G');
		b->copies = true;
		return true;
	case 'H':
		put_copy(out, 'H');
		put_short(out, 'd');
		put_short(out, 'c');
		pg_build_string(out, 'C', "COPY 1");
		return false;
	}
	if (describes)
		pg_build_row_description(out, columns, 1);
	pg_build_data_row(out, &text, 1);
	pg_build_string(out, 'C', "SELECT 1");
	return false;
}

static void query(struct backend *b, const char *text, struct bytes *out)
{
	/* a simple query ends the unnamed statement and every portal */
	struct backend_name *unnamed = name_find(b->statements, "");

	if (unnamed)
		name_forget(unnamed);
	names_forget(b->portals);
	b->in_query = true;
	if (run(b, text, true, out))
		return;
	b->in_query = b->skips = false;
	pg_build(out, 'Z', &b->status, 1);
}

/* ---- the extended protocol ---- */

static void refuse(struct backend *b, const char *sqlstate, const char *text, struct bytes *out)
{
	fail(b, sqlstate, text, out);
	b->skips = true;
}

static void parse(struct backend *b, struct pg_cursor *c, struct bytes *out)
{
	const char *name = pg_read_string(c), *text = pg_read_string(c);
	uint16_t types = pg_read_u16(c);

	if (c->bad || (size_t)(c->end - c->at) != 4 * (size_t)types)
		refuse(b, "08P01", "invalid message format", out);
	else if (*text == 'E' && strncmp(text, "EXECUTE \"", 9) != 0)
		refuse(b, "42601", text, out);
	else if (*name && name_find(b->statements, name))
		refuse(b, "42P05", "prepared statement already exists", out);
	else if (!name_set(b->statements, name, text))
		refuse(b, "53000", "too many statements", out);
	else
		put_short(out, '1');
	if (!c->bad && !*name && (size_t)(c->end - c->at) == 4 * (size_t)types) {
		b->type_count = types < BACKEND_TYPES ? types : BACKEND_TYPES;
		memcpy(b->types, c->at, 4 * b->type_count);
	}
}

static void bind(struct backend *b, struct pg_cursor *c, struct bytes *out)
{
	const char *portal = pg_read_string(c), *name = pg_read_string(c);
	const struct backend_name *statement = c->bad ? NULL : name_find(b->statements, name);

	if (!statement)
		refuse(b, "26000", "prepared statement does not exist", out);
	else if (!name_set(b->portals, portal, statement->text))
		refuse(b, "53000", "too many portals", out);
	else
		put_short(out, '2');
}

static void describe(struct backend *b, struct pg_cursor *c, struct bytes *out)
{
	uint8_t what = pg_read_u8(c);
	const char *name = pg_read_string(c);
	size_t mark;

	if (c->bad || !name_find(what == 'S' ? b->statements : b->portals, name)) {
		refuse(b, what == 'S' ? "26000" : "34000", "it does not exist", out);
		return;
	}
	if (what == 'S') {
		mark = pg_begin(out, 't');
		bytes_append_u16(out, *name ? 0 : (uint16_t)b->type_count);
		bytes_append(out, b->types, *name ? 0 : 4 * b->type_count);
		pg_end(out, mark);
	}
	put_short(out, 'n');
}

static void execute(struct backend *b, struct pg_cursor *c, struct bytes *out)
{
	const char *name = pg_read_string(c);
	const struct backend_name *portal = c->bad ? NULL : name_find(b->portals, name);
	char *text;

	if (!portal) {
		refuse(b, "34000", "portal does not exist", out);
		return;
	}
	text = strdup(portal->text);
	run(b, text, false, out);
	free(text);
}

static void close_name(struct backend *b, struct pg_cursor *c, struct bytes *out)
{
	uint8_t what = pg_read_u8(c);
	struct backend_name *n = name_find(what == 'S' ? b->statements : b->portals, pg_read_string(c));

	if (n)
		name_forget(n);
	put_short(out, '3');
}

static void sync(struct backend *b, struct bytes *out)
{
	b->skips = false;
	if (b->status == 'I')
		names_forget(b->portals);
	pg_build(out, 'Z', &b->status, 1);
}

/* ---- COPY from the client ---- */

static void end_copy(struct backend *b, bool fails, struct bytes *out)
{
	b->copies = false;
	if (fails)
		fail(b, "57014", "COPY from stdin failed", out);
	else
		pg_build_string(out, 'C', "COPY 1");
	if (b->in_query)
		pg_build(out, 'Z', &b->status, 1);
	else
		b->skips = fails;
	b->in_query = false;
}

static void take_copy(struct backend *b, uint8_t type, struct bytes *out)
{
	switch (type) {
	case 'd': case 'S': case 'H':
		return;
	case 'c':
		end_copy(b, false, out);
		return;
	default:
		end_copy(b, true, out);
	}
}

/* ---- messages ---- */

static void call(struct backend *b, struct bytes *out)
{
	size_t mark;

	if (b->status == 'E') {
		fail(b, "25P02", "current transaction is aborted", out);
	} else {
		mark = pg_begin(out, 'V');
		bytes_append_u32(out, UINT32_MAX);
		pg_end(out, mark);
	}
	pg_build(out, 'Z', &b->status, 1);
}

static void take(struct backend *b, const struct pg_frame *f, struct bytes *out)
{
	struct pg_cursor c = pg_cursor_of(f->body, f->size);

	if (b->copies) {
		take_copy(b, f->type, out);
		return;
	}
	if (f->type == 'X') {
		b->has_ended = true;
		return;
	}
	if (b->skips && f->type != 'S')
		return;
	switch (f->type) {
	case 'Q': query(b, pg_read_string(&c), out); return;
	case 'P': parse(b, &c, out); return;
	case 'B': bind(b, &c, out); return;
	case 'D': describe(b, &c, out); return;
	case 'E': execute(b, &c, out); return;
	case 'C': close_name(b, &c, out); return;
	case 'S': sync(b, out); return;
	case 'F': call(b, out); return;
	default: return;
	}
}

static void welcome(struct bytes *out)
{
	static const char *const params[][2] = {
		{ "server_version", "16.3" }, { "client_encoding", "UTF8" }, { "DateStyle", "ISO, MDY" }, { "TimeZone", "UTC" },
		{ "standard_conforming_strings", "on" }, { "application_name", "" }, { "search_path", "public" },
	};

	pg_build_auth(out, 0, NULL, 0);
	for (size_t i = 0; i < sizeof(params) / sizeof(params[0]); i++)
		pg_build_parameter_status(out, params[i][0], params[i][1]);
	pg_build_key(out, 'K', BACKEND_PID, (const uint8_t *)BACKEND_KEY, sizeof(BACKEND_KEY) - 1);
	pg_build(out, 'Z', "I", 1);
}

/* Bytes of the front that were a whole message. */
static size_t take_first(struct backend *b, struct bytes *out)
{
	const uint8_t *at = bytes_front(&b->in);
	size_t here = bytes_size(&b->in);
	struct pg_startup s;
	struct pg_frame f;

	if (!b->has_begun) {
		if (pg_startup_read(at, here, PACKET_MOST, &s) != PG_OK)
			return 0;
		b->has_begun = true;
		b->has_ended = s.kind != STARTUP_SESSION;
		if (!b->has_ended)
			welcome(out);
		return s.size;
	}
	if (pg_frame_look(at, here, PG_LENGTH_LIMIT, &f) != PG_OK || !pg_frame_is_whole(&f))
		return 0;
	take(b, &f, out);
	return PG_HEADER + f.size;
}

void backend_take(struct backend *b, const uint8_t *data, size_t size, struct bytes *out)
{
	size_t taken;

	bytes_append(&b->in, data, size);
	while (!b->has_ended && bytes_size(&b->in) > 0 && (taken = take_first(b, out)) > 0)
		bytes_consume(&b->in, taken);
}
