/*
 * A walk over every row of every table: defaults are accepted and in range, written values read back equal, values outside the range are refused, and
 * every row has a description.
 */
#include "conf/settings.h"

#include "base/text.h"
#include "conf/conf.h"
#include "conf/value.h"
#include "tempfile.h"
#include "unit.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>

static const struct value_table *const tables[] = { &setting_table, &database_table, &user_table, &peer_table };
enum { TABLES = 4 };

/* Large enough for any of the structures. */
union any {
	struct settings settings;
	struct conf_database database;
	struct conf_user user;
	struct conf_peer peer;
};

static bool is_number(const struct value_row *row)
{
	return row->type == VALUE_COUNT || row->type == VALUE_OCTAL || row->type == VALUE_SECONDS ||
	       row->type == VALUE_MILLIS || row->type == VALUE_FRACTION || row->type == VALUE_POLLING || row->type == VALUE_PORT;
}

static bool is_text(const struct value_row *row)
{
	return row->type == VALUE_TEXT || row->type == VALUE_SQL || row->type == VALUE_PATH || row->type == VALUE_NAMES ||
	       row->type == VALUE_PORTS || row->type == VALUE_NETWORKS;
}

TEST(every_default_is_accepted_and_reads_back)
{
	struct arena *arena = arena_new(false);
	char buf[256];

	for (int t = 0; t < TABLES; t++) {
		union any object, again;

		memset(&object, 0, sizeof(object));
		memset(&again, 0, sizeof(again));
		REQUIRE(value_read_defaults(tables[t], &object, arena));
		for (size_t i = 0; i < tables[t]->count; i++) {
			const struct value_row *row = &tables[t]->rows[i];
			const char *text = value_text(row, &object, buf, sizeof(buf));

			if (strcmp(text, row->row.default_text) != 0)
				UNIT_FAIL("%s: default \"%s\" is shown as \"%s\"", row->row.name, row->row.default_text, text);
			/* An unset number has no textual form. */
			if (*text == '\0' && !is_text(row) && row->type != VALUE_SECRET && row->type != VALUE_METHODS) {
				CHECK_INT(value_read(row, &again, text, arena), VALUE_READ_WRONG);
				continue;
			}
			CHECK_INT(value_read(row, &again, text, arena), VALUE_READ_OK);
			CHECK(value_is_equal(row, &object, &again));
		}
	}
	arena_free(&arena);
}

static void check_bound(const struct value_row *row, int64_t number, enum value_verdict want, struct arena *arena)
{
	union any object, again;
	char text[64], buf[64];

	memset(&object, 0, sizeof(object));
	snprintf(text, sizeof(text), row->type == VALUE_OCTAL ? "%" PRIo64 : "%" PRId64, number);
	if (value_read(row, &object, text, arena) != want) {
		UNIT_FAIL("%s = %s: accepted is %d", row->row.name, text, want == VALUE_READ_OK);
		return;
	}
	if (want != VALUE_READ_OK)
		return;
	memset(&again, 0, sizeof(again));
	CHECK_INT(value_read(row, &again, value_text(row, &object, buf, sizeof(buf)), arena), VALUE_READ_OK);
	CHECK(value_is_equal(row, &object, &again));
}

TEST(numbers_outside_their_bounds_are_refused)
{
	static const char *const wrong[] = { "", "x", "1x", " 1", "0x10", "-1", "1 ", "99999999999999999999", "." };
	struct arena *arena = arena_new(false);
	union any object;

	for (int t = 0; t < TABLES; t++) {
		for (size_t i = 0; i < tables[t]->count; i++) {
			const struct value_row *row = &tables[t]->rows[i];

			if (!is_number(row))
				continue;
			CHECK(row->row.least < row->row.most);
			check_bound(row, row->row.least, VALUE_READ_OK, arena);
			check_bound(row, row->row.most, VALUE_READ_OK, arena);
			check_bound(row, row->row.most + 1, VALUE_READ_WRONG, arena);
			if (row->row.least > 0)
				check_bound(row, row->row.least - 1, VALUE_READ_WRONG, arena);
			for (size_t k = 0; k < sizeof(wrong) / sizeof(wrong[0]); k++) {
				/* -1 is unset for a number that may be unset, and a value of others */
				bool is_unset = strcmp(wrong[k], "-1") == 0 &&
						(row->row.least < 0 || (!*row->row.default_text &&
									(row->type == VALUE_COUNT || row->type == VALUE_SECONDS)));

				if (value_read(row, &object, wrong[k], arena) != (is_unset ? VALUE_READ_OK : VALUE_READ_WRONG))
					UNIT_FAIL("%s takes \"%s\"", row->row.name, wrong[k]);
			}
		}
	}
	arena_free(&arena);
}

TEST(enums_accept_only_their_words)
{
	struct arena *arena = arena_new(false);

	for (int t = 0; t < TABLES; t++) {
		for (size_t i = 0; i < tables[t]->count; i++) {
			const struct value_row *row = &tables[t]->rows[i];
			char words[256], buf[64], *word, *rest = words;
			union any object;

			if (row->type != VALUE_ENUM)
				continue;
			text_copy(words, sizeof(words), row->row.words);
			while ((word = strtok_r(rest, " ", &rest))) {
				CHECK_INT(value_read(row, &object, word, arena), VALUE_READ_OK);
				CHECK_TEXT(value_text(row, &object, buf, sizeof(buf)), word);
				word[strlen(word) - 1] = '\0';
				CHECK_INT(value_read(row, &object, word, arena), VALUE_READ_WRONG);
			}
			CHECK_INT(value_read(row, &object, "", arena), VALUE_READ_WRONG);
			CHECK_INT(value_read(row, &object, row->row.words, arena), VALUE_READ_WRONG);
		}
	}
	arena_free(&arena);
}

TEST(every_row_has_a_description)
{
	for (int t = 0; t < TABLES; t++) {
		for (size_t i = 0; i < tables[t]->count; i++) {
			const struct setting_row *row = &tables[t]->rows[i].row;
			size_t size = strlen(row->paragraph);

			CHECK(size > 30);
			if (size == 0 || !isupper((unsigned char)row->paragraph[0]) ||
			    row->paragraph[size - 1] != '.' || strstr(row->paragraph, "  "))
				UNIT_FAIL("%s: the paragraph does not read well", row->name);
		}
	}
}

TEST(rows_can_be_found_and_are_sorted)
{
	for (int t = 0; t < TABLES; t++) {
		for (size_t i = 0; i < tables[t]->count; i++)
			CHECK(value_find(tables[t], tables[t]->rows[i].row.name) == &tables[t]->rows[i]);
		CHECK(!value_find(tables[t], "nonsense"));
	}
	for (size_t i = 1; i < setting_table.count; i++)
		CHECK(strcmp(setting_table.rows[i - 1].row.name, setting_table.rows[i].row.name) < 0);
	CHECK_TEXT(value_find(&setting_table, "service_name")->row.name, "job_name");
	CHECK_TEXT(value_find(&database_table, "reserve_pool")->row.name, "reserve_pool_size");
	CHECK(!value_find(&user_table, "reserve_pool"));
}

TEST(rows_differ_only_in_the_compared_settings)
{
	struct arena *arena = arena_new(false);
	struct settings a, b;
	struct bytes packed_a = BYTES_EMPTY, packed_b = BYTES_EMPTY;

	CHECK(value_read_defaults(&setting_table, &a, arena) && value_read_defaults(&setting_table, &b, arena));
	b.pool_mode = MODE_STATEMENT;
	CHECK(!value_rows_differ(&setting_table, APPLIES_SERVERS, &a, &b));
	b.server_tls_sslmode = SSLMODE_REQUIRE;
	CHECK(!value_rows_differ(&setting_table, APPLIES_SERVERS, &a, &b));
	CHECK(value_rows_differ(&setting_table, APPLIES_TCP_SERVERS, &a, &b));
	value_rows_pack(&packed_a, &setting_table, APPLIES_SERVERS, &a);
	value_rows_pack(&packed_b, &setting_table, APPLIES_SERVERS, &b);
	CHECK(bytes_size(&packed_a) == bytes_size(&packed_b) && memcmp(bytes_front(&packed_a), bytes_front(&packed_b), bytes_size(&packed_a)) == 0);
	value_rows_pack(&packed_b, &setting_table, APPLIES_TCP_SERVERS, &b);
	CHECK(bytes_size(&packed_a) < bytes_size(&packed_b));
	bytes_free(&packed_a);
	bytes_free(&packed_b);
	arena_free(&arena);
}

/* A setting that also exists for databases or users has the same type and bounds there. */
TEST(scopes_match_database_and_user_keys)
{
	for (size_t i = 0; i < setting_table.count; i++) {
		const struct value_row *row = &setting_table.rows[i];
		const struct value_row *in_database = value_find(&database_table, row->row.name);
		const struct value_row *in_user = value_find(&user_table, row->row.name);

		if (row->row.scope & SCOPE_DATABASE)
			CHECK(in_database);
		if (row->row.scope & SCOPE_USER)
			CHECK(in_user);
		if (in_database && row->row.scope & SCOPE_DATABASE)
			CHECK(in_database->row.least == row->row.least && in_database->row.most == row->row.most);
		if (in_user && row->row.scope & SCOPE_USER)
			CHECK(in_user->row.least == row->row.least && in_user->row.most == row->row.most);
	}
}

/* The words of an enum must have the same order in the table and in the header. */
TEST(enums_are_in_the_order_of_the_header)
{
	static const struct {
		const char *name, *word;
		int value;
	} all[] = {
		{ "pool_mode", "session", MODE_SESSION }, { "pool_mode", "transaction", MODE_TRANSACTION },
		{ "pool_mode", "statement", MODE_STATEMENT },
		{ "auth_type", "trust", AUTH_TRUST }, { "auth_type", "any", AUTH_ANY }, { "auth_type", "plain", AUTH_PLAIN },
		{ "auth_type", "md5", AUTH_MD5 }, { "auth_type", "scram-sha-256", AUTH_SCRAM },
		{ "auth_type", "cert", AUTH_CERT }, { "auth_type", "hba", AUTH_HBA }, { "auth_type", "pam", AUTH_PAM },
		{ "auth_type", "ldap", AUTH_LDAP },
		{ "client_tls_sslmode", "disable", SSLMODE_DISABLE }, { "client_tls_sslmode", "allow", SSLMODE_ALLOW },
		{ "server_tls_sslmode", "prefer", SSLMODE_PREFER }, { "server_tls_sslmode", "require", SSLMODE_REQUIRE },
		{ "client_tls_sslmode", "verify-ca", SSLMODE_VERIFY_CA },
		{ "server_tls_sslmode", "verify-full", SSLMODE_VERIFY_FULL },
	};
	struct arena *arena = arena_new(false);

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		const struct value_row *row = value_find(&setting_table, all[i].name);
		struct settings s;

		REQUIRE(row);
		CHECK_INT(value_read(row, &s, all[i].word, arena), VALUE_READ_OK);
		CHECK_INT(*(int *)((char *)&s + row->offset), all[i].value);
	}
	CHECK_TEXT(setting_word(WORDS_POOL_MODE, MODE_TRANSACTION), "transaction");
	CHECK_TEXT(setting_word(WORDS_POOL_MODE, MODE_STATEMENT), "statement");
	CHECK(!setting_word(WORDS_POOL_MODE, CONF_UNSET));
	CHECK(!setting_word(WORDS_POOL_MODE, 3));
	CHECK_TEXT(setting_word(WORDS_LOAD_BALANCE, BALANCE_DISABLE), "disable");
	CHECK(!setting_word(WORDS_LOAD_BALANCE, CONF_UNSET));
	arena_free(&arena);
}

static int64_t read_as(const char *name, const char *text)
{
	struct arena *arena = arena_new(false);
	struct settings s;
	const struct value_row *row = value_find(&setting_table, name);
	int64_t value = -1000;

	if (row && value_read(row, &s, text, arena) == VALUE_READ_OK)
		value = row->type == VALUE_BOOL ? *(bool *)((char *)&s + row->offset) : *(int64_t *)((char *)&s + row->offset);
	arena_free(&arena);
	return value;
}

TEST(seconds_may_have_a_fraction)
{
	CHECK_INT(read_as("query_timeout", "120"), 120 * USEC);
	CHECK_INT(read_as("query_timeout", "0.5"), USEC / 2);
	CHECK_INT(read_as("query_timeout", ".25"), USEC / 4);
	CHECK_INT(read_as("query_timeout", "3."), 3 * USEC);
	CHECK_INT(read_as("query_timeout", "0.0000019"), 1);
	CHECK_INT(read_as("query_timeout", "1.2.3"), -1000);
	CHECK_INT(read_as("query_timeout", "2147483647.000001"), -1000);
	CHECK_INT(read_as("query_timeout", "1e3"), -1000);
	CHECK_INT(read_as("query_timeout", "5s"), -1000);
	CHECK_INT(read_as("stats_period", "0.5"), -1000);
}

TEST(seconds_are_written_in_the_shortest_exact_form)
{
	struct settings s = { .query_timeout = 100 * USEC, .query_wait_timeout = USEC / 2, .server_lifetime = 1 };
	char buf[64];

	CHECK_TEXT(value_text(value_find(&setting_table, "query_timeout"), &s, buf, sizeof(buf)), "100");
	CHECK_TEXT(value_text(value_find(&setting_table, "query_wait_timeout"), &s, buf, sizeof(buf)), "0.5");
	CHECK_TEXT(value_text(value_find(&setting_table, "server_lifetime"), &s, buf, sizeof(buf)), "0.000001");
}

TEST(booleans_and_octals)
{
	CHECK_INT(read_as("syslog", "1"), 1);
	CHECK_INT(read_as("syslog", "Yes"), 1);
	CHECK_INT(read_as("syslog", "ON"), 1);
	CHECK_INT(read_as("syslog", "true"), 1);
	CHECK_INT(read_as("syslog", "0"), 0);
	CHECK_INT(read_as("syslog", "no"), 0);
	CHECK_INT(read_as("syslog", "off"), 0);
	CHECK_INT(read_as("syslog", "False"), 0);
	CHECK_INT(read_as("tcp_defer_accept", "45"), 1);
	CHECK_INT(read_as("syslog", "-1"), 1);
	CHECK_INT(read_as("syslog", "00"), 0);
	CHECK_INT(read_as("syslog", "2x"), -1000);
	CHECK_INT(read_as("syslog", ""), -1000);
	CHECK_INT(read_as("syslog", "yess"), -1000);
	CHECK_INT(read_as("unix_socket_mode", "0770"), 0770);
	CHECK_INT(read_as("unix_socket_mode", "700"), 0700);
	CHECK_INT(read_as("unix_socket_mode", "0888"), -1000);
	CHECK_INT(read_as("unix_socket_mode", "01000"), -1000);
}

TEST(words_in_any_case)
{
	static const char *const good[] = { "session", "transaction", "statement", "Session", "TRANSACTION", "stateMent" };
	static const char *const bad[] = { "", "sessio", "sessions", "session ", "session,", "s\xc5\xbf" };
	const struct value_row *row = value_find(&database_table, "pool_mode");
	struct conf_database d = { 0 };
	struct arena *arena = arena_new(false);

	for (int i = 0; i < 6; i++) {
		CHECK_INT(value_read(row, &d, good[i], arena), VALUE_READ_OK);
		CHECK_INT(d.pool_mode, i % 3);
		CHECK_INT(value_read(row, &d, bad[i], arena), VALUE_READ_WRONG);
	}
	arena_free(&arena);
}

/* The meaning of an empty value depends on the setting, and sessions rely on it. */
TEST(empty_texts)
{
	struct arena *arena = arena_new(false);
	struct settings s;

	memset(&s, 0x55, sizeof(s));
	CHECK_INT(value_read(value_find(&setting_table, "unix_socket_dir"), &s, "", arena), VALUE_READ_OK);
	CHECK(!s.unix_socket_dir);
	CHECK_INT(value_read(value_find(&setting_table, "server_reset_query"), &s, "", arena), VALUE_READ_OK);
	CHECK_TEXT(s.server_reset_query, "");
	CHECK_INT(value_read(value_find(&setting_table, "server_check_query"), &s, "<empty>", arena), VALUE_READ_OK);
	CHECK_TEXT(s.server_check_query, "<empty>");
	arena_free(&arena);
}

TEST(secrets_are_never_shown)
{
	struct arena *arena = arena_new(false);
	struct conf_database d = { 0 }, e = { 0 };
	const struct value_row *row = value_find(&database_table, "password");
	char buf[64] = "";

	CHECK_INT(value_read(row, &d, "geheim", arena), VALUE_READ_OK);
	REQUIRE(d.password);
	CHECK_INT(d.password->length, 6);
	CHECK_TEXT(value_text(row, &d, buf, sizeof(buf)), "");
	CHECK_TEXT(buf, "");
	CHECK(!value_is_equal(row, &d, &e));
	CHECK(value_copy(row, &e, &d, arena));
	CHECK(value_is_equal(row, &d, &e));
	CHECK(d.password != e.password);
	CHECK_INT(value_read(row, &e, "geheiM", arena), VALUE_READ_OK);
	CHECK(!value_is_equal(row, &d, &e));
	CHECK_INT(value_read(row, &e, "", arena), VALUE_READ_OK);
	CHECK(!e.password);
	arena_free(&arena);
}

TEST(a_password_within_a_setting_is_not_shown)
{
	struct settings s = { .auth_ldap_options = "ldapserver=x ldapbindpasswd=sesame", .auth_query = "ldapbindpasswd=sesame" };
	char buf[128];
	int masked = 0;

	for (size_t i = 0; i < setting_table.count; i++) {
		const char *shown = setting_value_shown(&s, i, buf, sizeof(buf));

		if (strcmp(setting_table.rows[i].row.name, "auth_ldap_options") == 0)
			CHECK_TEXT(shown, "ldapserver=x ldapbindpasswd=***");
		else if (strcmp(setting_table.rows[i].row.name, "auth_query") == 0)
			CHECK_TEXT(shown, "ldapbindpasswd=sesame");
		masked += strstr(shown, "***") != NULL;
	}
	CHECK_INT(masked, 1);
}

TEST(invalid_value_does_not_change_the_field)
{
	struct arena *arena = arena_new(false);
	struct settings s = { .listen_port = 6432, .pool_mode = MODE_STATEMENT };

	CHECK_INT(value_read(value_find(&setting_table, "listen_port"), &s, "70000", arena), VALUE_READ_WRONG);
	CHECK_INT(s.listen_port, 6432);
	CHECK_INT(value_read(value_find(&setting_table, "pool_mode"), &s, "all", arena), VALUE_READ_WRONG);
	CHECK_INT(s.pool_mode, MODE_STATEMENT);
	arena_free(&arena);
}

/* Returns the problem of a setting with this value. */
static const char *problem_of(const char *name, const char *value)
{
	static char text[400];
	struct conf_problems problems = { .count = 0 };
	struct conf *conf;

	snprintf(text, sizeof(text), "[pgweir]\nauth_type = trust\n%s = %s\n", name, value);
	conf = conf_load(temp_write("a.ini", text), &problems);
	CHECK(!conf);
	snprintf(text, sizeof(text), "%s", problems.count == 1 && problems.items[0].line == 3 ? problems.items[0].text : "");
	conf_problems_free(&problems);
	return text;
}

TEST(accepted_values_are_described)
{
	CHECK_TEXT(problem_of("listen_port", "x"), "\"listen_port\" is \"x\", but must be a whole number from 0 to 65535");
	CHECK_TEXT(problem_of("unix_socket_mode", "9"), "\"unix_socket_mode\" is \"9\", but must be an octal number from 0000 to 0777");
	CHECK_TEXT(problem_of("pool_mode", "transacton"), "\"pool_mode\" is \"transacton\", but must be one of session, transaction, statement; "
		   "did you mean \"transaction\"?");
	CHECK_TEXT(problem_of("pool_mode", "xyz"), "\"pool_mode\" is \"xyz\", but must be one of session, transaction, statement");
}

/* Lists of authentication methods: the names as in libpq, and the methods that a list allows. */

/* Returns the mask of a valid list. */
static int list_of(const char *text)
{
	struct settings s = { .server_require_auth = -2 };

	if (value_read(value_find(&setting_table, "server_require_auth"), &s, text, NULL) != VALUE_READ_OK)
		UNIT_FAIL("\"%s\" is not read", text);
	return s.server_require_auth;
}

TEST(the_empty_list)
{
	char buf[64];

	CHECK_INT(list_of(""), CONF_UNSET);
	CHECK_INT(list_of(" \t"), CONF_UNSET);
	CHECK_TEXT(methods_text(CONF_UNSET, buf, sizeof(buf)), "");
	for (int i = 0; i < SERVER_METHODS; i++) {
		CHECK(methods_allow(CONF_UNSET, (enum server_method)i));
		CHECK(!methods_name(CONF_UNSET, (enum server_method)i));
	}
}

TEST(each_method_name)
{
	static const char *const words[] = { "password", "md5", "gss", "sspi", "scram-sha-256", "none" };
	char text[32], buf[64];

	for (int i = 0; i < SERVER_METHODS; i++) {
		int list = list_of(words[i]);

		CHECK_TEXT(methods_text(list, buf, sizeof(buf)), words[i]);
		for (int k = 0; k < SERVER_METHODS; k++) {
			CHECK(methods_allow(list, (enum server_method)k) == (i == k || (i == METHOD_PASSWORD && k == METHOD_NONE)));
			CHECK(methods_name(list, (enum server_method)k) == (i == k));
		}
		snprintf(text, sizeof(text), "!%s", words[i]);
		list = list_of(text);
		CHECK_TEXT(methods_text(list, buf, sizeof(buf)), text);
		for (int k = 0; k < SERVER_METHODS; k++) {
			CHECK(methods_allow(list, (enum server_method)k) == (i != k));
			CHECK(!methods_name(list, (enum server_method)k));
		}
	}
}

TEST(lists)
{
	char buf[64];

	CHECK_TEXT(methods_text(list_of(" NONE , scram-SHA-256,\tpassword "), buf, sizeof(buf)), "password,scram-sha-256,none");
	CHECK_TEXT(methods_text(list_of("!none,!password,!md5,!gss,!sspi,!scram-sha-256"), buf, sizeof(buf)),
		   "!password,!md5,!gss,!sspi,!scram-sha-256,!none");
	CHECK(methods_allow(list_of("md5,none"), METHOD_NONE) && !methods_allow(list_of("md5,none"), METHOD_SCRAM));
	CHECK(!methods_allow(list_of("!md5,!none"), METHOD_NONE) && methods_allow(list_of("!md5,!none"), METHOD_SCRAM));
}

TEST(invalid_lists)
{
	static const char *const wrong[] = {
		",", "md5,", ",md5", "md5,,none", "md5 none", "md5;none", "scram", "scram-sha-256-plus", "md5,md5", "!md5,!md5",
		"md5,!none", "!md5,none", "!", "!!md5", "! md5", "md5!", "password1", "passwor", "any", "0", "-1",
		"a-very-long-word-that-is-none",
	};
	struct settings s = { .server_require_auth = 7 };

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		if (value_read(value_find(&setting_table, "server_require_auth"), &s, wrong[i], NULL) != VALUE_READ_WRONG ||
		    s.server_require_auth != 7)
			UNIT_FAIL("\"%s\" is read", wrong[i]);
}

UNIT_MAIN
