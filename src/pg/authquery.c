/*
 * The exchange of auth_query: one batch of the extended protocol ("Message Flow", "Extended Query"), three
 * statements and a Sync.
 *
 * The server is an ordinary one of a pool. Its session has what earlier clients have set, and begins with what the
 * owner of the database has set (ALTER DATABASE ... SET). Neither may change what the query means: an operator
 * "evil.=" found by search_path would run a function of the owner's with the rights of auth_user. So
 *
 *  - the first statement takes back a changed role and session user, sets what decides how the text of the query is
 *    read (client_encoding becomes that of the database, so that a name is taken byte by byte, as in a start-up packet),
 *    and gives tracked parameters that differ the values that a session begins with;
 *  - the second sets search_path to pg_catalog and pg_temp. Between them comes the path that auth_user's role has been
 *    given for all databases (ALTER ROLE ... SET search_path), because only the role itself and those above it can set
 *    that, and the path of the configuration; the setting of the role for one database is not used. The same holds for the parameter `role`, unless
 *    connect_query has set a role: the operator wants that one. pg_temp is named because PostgreSQL looks there first
 *    otherwise;
 *  - the third asks, with the name as a parameter and never as text.
 *
 * A batch without BEGIN is one transaction that ends with the Sync; set_config(..., true) holds as long as
 * it does. So an error anywhere skips what follows it, the query never runs without the statements before
 * it, and afterwards the session is as it was, whatever happened. Every function, operator and table in the first two
 * statements is qualified, because they run under the path of the session.
 *
 * Execute asks for two rows at most: more than one is wrong, and how many more need not be known.
 */
#include "pg/authquery.h"

#include "base/text.h"
#include "pg/build.h"
#include "pg/error.h"
#include "pg/frame.h"
#include "pg/password.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define PREPARATIONS 2			/* statements before the query itself */
#define COLUMNS 2
#define NULL_LENGTH 0xffffffffu

static const char login_role[] =
	"pg_catalog.set_config('session_authorization', NULL, true), pg_catalog.set_config('role', 'none', true)";

static const char fixed[] =
	"pg_catalog.set_config('standard_conforming_strings', 'on', true), "
	"pg_catalog.set_config('transform_null_equals', 'off', true), "
	"pg_catalog.set_config('client_encoding', pg_catalog.current_setting('server_encoding'), true)";

/* The value of the parameter that auth_user's role has been given for all databases; NULL: none. `prefix` is the name with
   its "=", `length` the length of that, and `begin` the place of the first character behind it, counted from 1. */
#define OF_ROLE(prefix, length, begin) \
	"(SELECT pg_catalog.substr(setting, " #begin ") FROM pg_catalog.pg_roles, pg_catalog.unnest(rolconfig) AS setting " \
	"WHERE rolname OPERATOR(pg_catalog.=) SESSION_USER " \
	"AND pg_catalog.left(setting, " #length ") OPERATOR(pg_catalog.=) '" prefix "')"

/* The path of the configuration comes between these two, as a parameter. */
static const char set_path[] =
	"SELECT pg_catalog.set_config('search_path', "
	"pg_catalog.concat_ws(', ', 'pg_catalog', " OF_ROLE("search_path=", 12, 13) ", ";
static const char path_end[] = "'pg_temp'), true)";

static const char set_role[] =
	", pg_catalog.set_config('role', COALESCE(" OF_ROLE("role=", 5, 6) ", 'none'), true)";

void authquery_begin(struct authquery *q, const char *user, const char *path)
{
	*q = (struct authquery){ .user = user, .path = path };
}

/* ---- what is asked ---- */

/* Bind of the unnamed portal to the unnamed statement; `parameter` NULL: it has none. */
static void build_bind(struct bytes *out, const char *parameter)
{
	size_t mark = pg_begin(out, 'B');

	bytes_append_string(out, "");
	bytes_append_string(out, "");
	bytes_append_u16(out, 0);
	bytes_append_u16(out, parameter ? 1 : 0);
	if (parameter) {
		bytes_append_u32(out, (uint32_t)strlen(parameter));
		bytes_append_text(out, parameter);
	}
	/* every column as text */
	bytes_append_u16(out, 0);
	pg_end(out, mark);
}

static void build_parse(struct bytes *out, const char *sql)
{
	size_t mark = pg_begin(out, 'P');

	bytes_append_string(out, "");
	bytes_append_string(out, sql);
	bytes_append_u16(out, 0);
	pg_end(out, mark);
}

static void build_execute(struct bytes *out, uint32_t rows_most)
{
	size_t mark = pg_begin(out, 'E');

	bytes_append_string(out, "");
	bytes_append_u32(out, rows_most);
	pg_end(out, mark);
}

/* Parse, Bind and Execute of a statement that gets the session ready; `parameter` as in build_bind. Frees `sql`. */
static void build_preparation(struct bytes *out, struct bytes *sql, const char *parameter)
{
	bytes_append_u8(sql, 0);
	out->failed |= sql->failed;
	if (!sql->failed)
		build_parse(out, (const char *)bytes_front(sql));
	bytes_free(sql);
	build_bind(out, parameter);
	build_execute(out, 0);
}

void authquery_build(const struct authquery *q, struct bytes *out, const char *sql, const char *const *resets,
		     size_t count, const char *role)
{
	struct bytes first = BYTES_EMPTY, second = BYTES_EMPTY;
	size_t mark;

	bytes_append_text(&first, "SELECT ");
	for (size_t i = 0; i < count; i++)
		bytes_append_format(&first, "pg_catalog.set_config('%s', NULL, true), ", resets[i]);
	/* behind them, because these may be among the names */
	bytes_append_format(&first, "%s, %s", role ? role : login_role, fixed);
	build_preparation(out, &first, NULL);
	bytes_append_format(&second, "%s%s%s%s", set_path, *q->path ? "$1::pg_catalog.text, " : "", path_end, role ? "" : set_role);
	build_preparation(out, &second, *q->path ? q->path : NULL);
	build_parse(out, sql);
	build_bind(out, q->user);
	mark = pg_begin(out, 'D');
	bytes_append_u8(out, 'P');
	bytes_append_string(out, "");
	pg_end(out, mark);
	build_execute(out, 2);
	mark = pg_begin(out, 'S');
	pg_end(out, mark);
}

/* ---- what is answered ---- */

void authquery_fail(struct authquery *q, const char *format, ...)
{
	va_list args;

	/* what comes first is the reason */
	if (q->failed)
		return;
	q->failed = true;
	va_start(args, format);
	vsnprintf(q->why, sizeof(q->why), format, args);
	va_end(args);
}

/* undefined_function, undefined_table, invalid_schema_name: what a query finds where search_path has more */
static bool is_about_a_name(const char *sqlstate)
{
	return strcmp(sqlstate, "42883") == 0 || strcmp(sqlstate, "42P01") == 0 || strcmp(sqlstate, "3F000") == 0;
}

/* character_not_in_repertoire, untranslatable_character: no user of this database has such a name */
static bool is_about_text(const char *sqlstate)
{
	return strcmp(sqlstate, "22021") == 0 || strcmp(sqlstate, "22P05") == 0;
}

/* A session's own end (class 57, operator intervention) is no answer to what it was asked. */
static void take_error(struct authquery *q, const uint8_t *body, size_t size)
{
	struct pg_error e;
	bool can_be_read = pg_error_read(body, size, &e) == PG_OK, is_path = can_be_read && is_about_a_name(e.sqlstate);

	q->begun |= !can_be_read || !text_starts(e.sqlstate, "57P");
	if (!can_be_read)
		authquery_fail(q, "malformed ErrorResponse");
	else if (q->ended == PREPARATIONS && is_about_text(e.sqlstate))
		q->cannot_exist = true;
	else
		authquery_fail(q, "%.32s: %.256s (%.11s)%s%s%.64s%s", *e.severity ? e.severity : "ERROR",
			       *e.message ? e.message : "no message", *e.sqlstate ? e.sqlstate : "no SQLSTATE",
			       is_path ? "; the search_path of auth_query is pg_catalog" : "", is_path && *q->path ? ", " : "",
			       is_path ? q->path : "", is_path ? " and pg_temp (auth_search_path)" : "");
}

static void take_description(struct authquery *q, const uint8_t *body, size_t size)
{
	struct pg_cursor c = pg_cursor_of(body, size);
	unsigned columns = pg_read_u16(&c);

	for (unsigned i = 0; i < columns && !c.bad; i++) {
		pg_read_string(&c);
		pg_read_bytes(&c, 4 + 2 + 4 + 2 + 4);
		if (pg_read_u16(&c) != 0)
			authquery_fail(q, "a column is not text, as was asked for");
	}
	if (c.bad || c.at != c.end)
		authquery_fail(q, "malformed RowDescription");
	else if (columns != COLUMNS)
		authquery_fail(q, "%u columns, want %d: the name of the user and the secret", columns, COLUMNS);
	q->described = !q->failed;
}

static void take_secret(struct authquery *q, const uint8_t *secret, uint32_t length)
{
	if (length == NULL_LENGTH)
		length = 0;
	if (length > AUTHQUERY_SECRET_MOST || (length > 0 && memchr(secret, 0, length))) {
		authquery_fail(q, "the secret is too long, or no text");
		return;
	}
	q->secret = secret_new(secret, length);
	if (!q->secret) {
		authquery_fail(q, "out of memory");
	} else {
		q->is_unusable = scram_secret_is_unusable(q->secret->bytes);
	}
}

/* The row of the query itself. A row for another name is none for this user: PostgreSQL cuts a long name
   off, and it then is the name of another user. A row of NULLs is what a function with OUT parameters returns for a user that it
   does not find. */
static void take_row(struct authquery *q, const uint8_t *body, size_t size)
{
	struct pg_cursor c = pg_cursor_of(body, size);
	unsigned columns = pg_read_u16(&c);
	uint32_t name_length = pg_read_u32(&c), secret_length;
	const uint8_t *name = name_length == NULL_LENGTH ? NULL : pg_read_bytes(&c, name_length), *secret;

	secret_length = pg_read_u32(&c);
	secret = secret_length == NULL_LENGTH ? NULL : pg_read_bytes(&c, secret_length);
	if (!q->described || columns != COLUMNS || c.bad || c.at != c.end)
		authquery_fail(q, "malformed DataRow");
	else if (q->rows > 1)
		authquery_fail(q, "more than one row");
	else if (!name && secret)
		authquery_fail(q, "the name of the user is NULL");
	else if (!name)
		return;
	else if (name_length != strlen(q->user) || memcmp(name, q->user, name_length) != 0)
		q->other_name = true;
	else
		take_secret(q, secret, secret_length);
}

static void end_statement(struct authquery *q, uint8_t type)
{
	if (q->ended < PREPARATIONS && (type != 'C' || q->rows != 1))
		authquery_fail(q, "the session could not be prepared for it");
	else if (q->ended == PREPARATIONS && type == 's')
		authquery_fail(q, "more than one row");
	q->ended++;
	q->rows = 0;
}

bool authquery_take(struct authquery *q, uint8_t type, const uint8_t *body, size_t size)
{
	q->begun |= type != 'E';
	switch (type) {
	case 'T':
		take_description(q, body, size);
		return true;
	case 'n':
		authquery_fail(q, "it returns no rows");
		return true;
	case 'D':
		q->rows++;
		if (q->ended == PREPARATIONS)
			take_row(q, body, size);
		return true;
	case 'C':
	case 'I':
	case 's':
		end_statement(q, type);
		return true;
	case 'E':
		take_error(q, body, size);
		return true;
	case 'G':
	case 'H':
	case 'W':
		/* a COPY has no end that could be waited for */
		authquery_fail(q, "it is a COPY");
		return false;
	case 'Z':
		if (size == 1 && *body == 'I')
			return true;
		authquery_fail(q, "it left a transaction open");
		return false;
	default:
		return true;
	}
}

enum authquery_verdict authquery_end(struct authquery *q)
{
	if (q->ended <= PREPARATIONS && !q->cannot_exist)
		authquery_fail(q, "it was not answered");
	if (q->failed)
		return AUTHQUERY_FAILED;
	return q->secret ? AUTHQUERY_USER : AUTHQUERY_NO_USER;
}

void authquery_clear(struct authquery *q)
{
	secret_free(&q->secret);
	mem_wipe(q, sizeof(*q));
}
