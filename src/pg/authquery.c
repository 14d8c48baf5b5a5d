/*
 * The messages of auth_query: one batch of the extended protocol with three statements and a Sync
 * ("Message Flow", "Extended Query").
 *
 * The server is a normal server of a pool. Its session has the settings of earlier clients, and
 * initial settings of the owner of the database (ALTER DATABASE ... SET). Neither may change the
 * meaning of the query: an operator "evil.=" that search_path finds would run a function of the
 * owner with the rights of auth_user. Therefore:
 *
 *  - the first statement resets role and session user, sets the parameters that affect the reading
 *    of the query (client_encoding becomes the encoding of the database, so that a name is taken
 *    byte by byte, as in a start-up packet), and gives changed tracked parameters their initial
 *    values;
 *  - the second sets search_path to pg_catalog and pg_temp. Between them are the path of
 *    auth_user's role for all databases (ALTER ROLE ... SET search_path), because only the role
 *    itself and higher roles can set that path, and the path of the configuration; the setting of
 *    the role for one database is ignored. The same holds for the parameter `role`, unless
 *    connect_query has set a role, because the operator wants that role. pg_temp is named because
 *    PostgreSQL otherwise searches there first;
 *  - the third is the query, with the name as a parameter and never as text.
 *
 * A batch without BEGIN is one transaction, which ends with the Sync, as does the effect of
 * set_config(..., true). An error skips the rest of the batch, the query never runs without the
 * statements before it, and the session is unchanged afterwards. Every function, operator and table
 * in the first two statements is qualified, because they run under the path of the session.
 *
 * Execute requests at most two rows: more than one is an error, and their number does not matter.
 */
#include "pg/authquery.h"

#include "base/text.h"
#include "pg/build.h"
#include "pg/message.h"
#include "pg/frame.h"
#include "pg/password.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define PREPARATIONS 2			/* statements before the query itself */
#define COLUMNS 2
#define NULL_LENGTH 0xffffffffu

static const char login_role[] =
	"pg_catalog.set_config('session_authorization', NULL, true), "
	"pg_catalog.set_config('role', 'none', true)";

static const char fixed[] =
	"pg_catalog.set_config('standard_conforming_strings', 'on', true), "
	"pg_catalog.set_config('transform_null_equals', 'off', true), "
	"pg_catalog.set_config('client_encoding', pg_catalog.current_setting('server_encoding'), "
	"true)";

/* The role's own value of a parameter for all databases, of auth_user's role; NULL: none. `prefix`
   is the name with "=", `length` its length, and `begin` the index of the first character of the
   value, counted from 1. */
#define OF_ROLE(prefix, length, begin) \
	"(SELECT pg_catalog.substr(setting, " #begin \
	") FROM pg_catalog.pg_roles, pg_catalog.unnest(rolconfig) AS setting " \
	"WHERE rolname OPERATOR(pg_catalog.=) SESSION_USER " \
	"AND pg_catalog.left(setting, " #length ") OPERATOR(pg_catalog.=) '" prefix "')"

/* Between these two is the path of the configuration, as a parameter. */
static const char set_path[] =
	"SELECT pg_catalog.set_config('search_path', "
	"pg_catalog.concat_ws(', ', 'pg_catalog', " OF_ROLE("search_path=", 12, 13) ", ";
static const char path_end[] = "'pg_temp'), true)";

static const char set_role[] =
	", pg_catalog.set_config('role', COALESCE(" OF_ROLE("role=", 5, 6) ", 'none'), true)";

/* ---- messages ---- */

/* Bind of the unnamed portal to the unnamed statement; `parameter` NULL: no parameter. */
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

/* Parse, Bind and Execute of the statement before the query, which prepares the session;
   `parameter` as in build_bind(). Frees `sql`. */
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

void authquery_build(const struct authquery *q, struct bytes *out, const char *sql,
		     const char *const *resets, size_t count, const char *role)
{
	struct bytes first = BYTES_EMPTY, second = BYTES_EMPTY;
	size_t mark;

	bytes_append_text(&first, "SELECT ");
	for (size_t i = 0; i < count; i++)
		bytes_append_format(&first, "pg_catalog.set_config('%s', NULL, true), ", resets[i]);
	/* afterwards, because these may be among the names */
	bytes_append_format(&first, "%s, %s", role ? role : login_role, fixed);
	build_preparation(out, &first, NULL);
	bytes_append_format(&second, "%s%s%s%s", set_path, *q->path ? "$1::pg_catalog.text, " : "",
			    path_end, role ? "" : set_role);
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

/* ---- answers ---- */

/* Records the reason of a failure, unless there is an earlier one. */
static __attribute__((format(printf, 2, 3))) void authquery_fail(struct authquery *q,
								 const char *format, ...)
{
	va_list args;

	if (q->failed)
		return;
	q->failed = true;
	va_start(args, format);
	vsnprintf(q->why, sizeof(q->why), format, args);
	va_end(args);
}

static void take_error(struct authquery *q, const uint8_t *body, size_t size)
{
	struct pg_error e;
	bool can_be_read = pg_error_read(body, size, &e) == PG_OK;
	/* undefined_function, undefined_table, invalid_schema_name: the name may exist under
	   another search_path */
	bool is_path = strcmp(e.sqlstate, "42883") == 0 || strcmp(e.sqlstate, "42P01") == 0 ||
		       strcmp(e.sqlstate, "3F000") == 0;
	/* character_not_in_repertoire, untranslatable_character: no user of this database has such
	   a name */
	bool is_invalid_name = strcmp(e.sqlstate, "22021") == 0 || strcmp(e.sqlstate, "22P05") == 0;

	/* the end of the session (class 57, operator intervention) does not answer the query */
	q->begun |= !can_be_read || !text_starts(e.sqlstate, "57P");
	if (!can_be_read)
		authquery_fail(q, "malformed ErrorResponse");
	else if (q->ended == PREPARATIONS && is_invalid_name)
		q->cannot_exist = true;
	else
		authquery_fail(q, "%.32s: %.256s (%.11s)%s%s%.64s%s",
			       *e.severity ? e.severity : "ERROR",
			       *e.message ? e.message : "no message",
			       *e.sqlstate ? e.sqlstate : "no SQLSTATE",
			       is_path ? "; the search_path of auth_query is pg_catalog" : "",
			       is_path && *q->path ? ", " : "", is_path ? q->path : "",
			       is_path ? " and pg_temp (auth_search_path)" : "");
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
		authquery_fail(q, "%u columns, want %d: the name of the user and the secret",
			       columns, COLUMNS);
	q->described = !q->failed;
}

/* Takes the row of the query. A row with another name is not for this user: PostgreSQL truncates a
   long name, which is then the name of another user. A function with OUT parameters returns a row
   of NULLs if it does not find the user. */
static void authquery_take_row(struct authquery *q, const uint8_t *body, size_t size)
{
	struct pg_cursor c = pg_cursor_of(body, size);
	unsigned columns = pg_read_u16(&c);
	uint32_t name_length = pg_read_u32(&c), secret_length;
	const uint8_t *name = name_length == NULL_LENGTH ? NULL : pg_read_bytes(&c, name_length),
		      *secret;

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
	else if (secret &&
		 (secret_length > AUTHQUERY_SECRET_MOST || memchr(secret, 0, secret_length)))
		authquery_fail(q, "the secret is too long, or no text");
	else if (!(q->secret = secret_new(secret, secret ? secret_length : 0)))
		authquery_fail(q, "out of memory");
	else
		q->is_unusable = q->secret->length > 0 &&
				 secret_kind_of(q->secret->bytes) == SECRET_NONE;
}

/* The result after the last answer. */
static enum authquery_verdict authquery_result_of(struct authquery *q)
{
	if (q->ended <= PREPARATIONS && !q->cannot_exist)
		authquery_fail(q, "it was not answered");
	if (q->failed)
		return AUTHQUERY_FAILED;
	return q->secret ? AUTHQUERY_USER : AUTHQUERY_NO_USER;
}

enum authquery_verdict authquery_take(struct authquery *q, uint8_t type, const uint8_t *body,
				      size_t size)
{
	if (!body) {
		authquery_fail(q, "a message of the answer is too long");
		return AUTHQUERY_BROKEN;
	}
	q->begun |= type != 'E';
	switch (type) {
	case 'T':
		take_description(q, body, size);
		return AUTHQUERY_MORE;
	case 'n':
		authquery_fail(q, "it returns no rows");
		return AUTHQUERY_MORE;
	case 'D':
		q->rows++;
		if (q->ended == PREPARATIONS)
			authquery_take_row(q, body, size);
		return AUTHQUERY_MORE;
	case 'C':
	case 'I':
	case 's':
		if (q->ended < PREPARATIONS && (type != 'C' || q->rows != 1))
			authquery_fail(q, "the session could not be prepared for it");
		else if (q->ended == PREPARATIONS && type == 's')
			authquery_fail(q, "more than one row");
		q->ended++;
		q->rows = 0;
		return AUTHQUERY_MORE;
	case 'E':
		take_error(q, body, size);
		return AUTHQUERY_MORE;
	case 'G':
	case 'H':
	case 'W':
		/* a COPY may never end */
		authquery_fail(q, "it is a COPY");
		return AUTHQUERY_BROKEN;
	case 'Z':
		if (size == 1 && *body == 'I')
			return authquery_result_of(q);
		authquery_fail(q, "it left a transaction open");
		return AUTHQUERY_BROKEN;
	default:
		return AUTHQUERY_MORE;
	}
}
