/*
 * The tables as arrays. include/tbl/ has one row for each setting and key; the parser, SHOW CONFIG, SET, the sample file and
 * the manual iterate over these arrays. A row with a type that does not fit its field does not compile.
 */
#include "conf/settings.h"

#include "conf/conf.h"
#include "conf/value.h"

#include <string.h>

#define FIELD_SIZE(structure, field) sizeof(((struct structure *)NULL)->field)

#define SETTING(name, type, text, least, most, words, applies, scope, paragraph) \
	{ { #name, #type, text, words, paragraph, least, most, APPLIES_##applies, scope }, \
	  VALUE_##type, offsetof(struct settings, name) },
static const struct value_row settings_rows[] = {
#include "tbl/settings.tbl"
};
#undef SETTING

#define KEY(structure, name, type, text, least, most, words, applies, scope, paragraph) \
	{ { #name, #type, text, words, paragraph, least, most, applies, scope }, \
	  VALUE_##type, offsetof(struct structure, name) },
#define DATABASE_KEY(name, type, text, least, most, words, applies, paragraph) \
	KEY(conf_database, name, type, text, least, most, words, APPLIES_##applies, SCOPE_DATABASE, paragraph)
#define USER_KEY(name, type, text, least, most, words, paragraph) \
	KEY(conf_user, name, type, text, least, most, words, APPLIES_NOW, SCOPE_USER, paragraph)
#define PEER_KEY(name, type, text, least, most, words, paragraph) \
	KEY(conf_peer, name, type, text, least, most, words, APPLIES_NOW, SCOPE_PEER, paragraph)
static const struct value_row database_rows[] = {
#include "tbl/database_keys.tbl"
};
static const struct value_row user_rows[] = {
#include "tbl/user_keys.tbl"
};
static const struct value_row peer_rows[] = {
#include "tbl/peer_keys.tbl"
};
#undef DATABASE_KEY
#undef USER_KEY
#undef PEER_KEY

/* The members of these structures are declared in conf.h: their sizes must match the types of the rows. */
#define DATABASE_KEY(name, type, ...) \
	_Static_assert(FIELD_SIZE(conf_database, name) == sizeof(setting_##type), "shape of " #name);
#define USER_KEY(name, type, ...) \
	_Static_assert(FIELD_SIZE(conf_user, name) == sizeof(setting_##type), "shape of " #name);
#define PEER_KEY(name, type, ...) \
	_Static_assert(FIELD_SIZE(conf_peer, name) == sizeof(setting_##type), "shape of " #name);
#include "tbl/database_keys.tbl"
#include "tbl/user_keys.tbl"
#include "tbl/peer_keys.tbl"
#undef DATABASE_KEY
#undef USER_KEY
#undef PEER_KEY

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

static const char *const setting_aliases[][2] = { { "service_name", "job_name" }, { NULL, NULL } };
static const char *const database_aliases[][2] = { { "reserve_pool", "reserve_pool_size" }, { NULL, NULL } };

const struct value_table setting_table = {
	"pgbouncer", "setting", settings_rows, COUNT_OF(settings_rows), setting_aliases,
};
const struct value_table database_table = {
	"databases", "database", database_rows, COUNT_OF(database_rows), database_aliases,
};
const struct value_table user_table = { "users", "user", user_rows, COUNT_OF(user_rows), NULL };
const struct value_table peer_table = { "peers", "peer", peer_rows, COUNT_OF(peer_rows), NULL };

size_t setting_rows(void)
{
	return COUNT_OF(settings_rows);
}

const struct setting_row *setting_row(size_t index)
{
	return &settings_rows[index].row;
}

const char *setting_value_text(const struct settings *s, size_t index, char *buf, size_t size)
{
	return value_text(&settings_rows[index], s, buf, size);
}

const char *setting_value_shown(const struct settings *s, size_t index, char *buf, size_t size)
{
	const char *text = setting_value_text(s, index, buf, size);

	if (settings_rows[index].offset != offsetof(struct settings, auth_ldap_options))
		return text;
	return ldap_options_masked(text, buf, size);
}

const char *pool_mode_name(int mode)
{
	static const char *const names[] = { "session", "transaction", "statement" };

	return mode < 0 || (size_t)mode >= COUNT_OF(names) ? NULL : names[mode];
}

const char *load_balance_name(int balance)
{
	static const char *const names[] = { "round-robin", "disable" };

	return balance < 0 || (size_t)balance >= COUNT_OF(names) ? NULL : names[balance];
}

const char *session_state_name(int state)
{
	static const char *const names[] = { "off", "full" };

	return state < 0 || (size_t)state >= COUNT_OF(names) ? NULL : names[state];
}

const char *session_link_name(int link)
{
	static const char *const names[] = { "first_query", "login" };

	return link < 0 || (size_t)link >= COUNT_OF(names) ? NULL : names[link];
}
