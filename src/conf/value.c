/*
 * Conversion of values between text and fields, as described by their rows. value_read parses the
 * text of value_text to the same value: SET, SHOW CONFIG, the sample file and --print-config depend
 * on that.
 */
#include "conf/value.h"

#include "base/assert.h"
#include "base/bytes.h"
#include "base/text.h"
#include "conf/conf.h"
#include "conf/host_list.h"
#include "conf/ini.h"
#include "conf/networks.h"
#include "conf/settings.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const struct value_row *value_find(const struct value_table *table, const char *name)
{
	for (const char *const (*alias)[2] = table->aliases; alias && (*alias)[0]; alias++) {
		if (strcmp((*alias)[0], name) == 0)
			name = (*alias)[1];
	}
	for (size_t i = 0; i < table->count; i++) {
		if (strcmp(table->rows[i].row.name, name) == 0)
			return &table->rows[i];
	}
	return NULL;
}

/* With a misspelt name the value may belong to any setting, also to one with a secret. */
bool setting_may_be_secret(const char *name, const char *value)
{
	const char *dot = strrchr(name, '.');
	const struct value_row *row = dot ? value_find(&database_table, dot + 1)
					  : value_find(&setting_table, name);

	return !row || row->type == VALUE_SECRET || strcasestr(name, "ldap") ||
	       strcasestr(value, "passw") || strcasestr(value, "secret");
}

static bool is_text(enum value_type type)
{
	return type == VALUE_TEXT || type == VALUE_SQL || type == VALUE_PATH ||
	       type == VALUE_NAMES || type == VALUE_PORTS || type == VALUE_NETWORKS;
}

static void *field_of(const struct value_row *row, void *object)
{
	return (char *)object + row->offset;
}

static const void *field_in(const struct value_row *row, const void *object)
{
	return (const char *)object + row->offset;
}

/* Returns the value of a numeric field of any width. */
static int64_t number_get(const struct value_row *row, const void *object)
{
	const void *field = field_in(row, object);

	switch (row->type) {
	case VALUE_BOOL:
		return *(const bool *)field;
	case VALUE_ENUM:
	case VALUE_METHODS:
	case VALUE_PORT:
		return *(const int *)field;
	default:
		return *(const int64_t *)field;
	}
}

static void number_set(const struct value_row *row, void *object, int64_t value)
{
	void *field = field_of(row, object);

	switch (row->type) {
	case VALUE_BOOL:
		*(bool *)field = value != 0;
		break;
	case VALUE_ENUM:
	case VALUE_METHODS:
	case VALUE_PORT:
		*(int *)field = (int)value;
		break;
	default:
		*(int64_t *)field = value;
	}
}

/* Any number except 0 means yes: some settings were numbers in the past (tcp_defer_accept = 45). */
static bool read_bool(const char *text, int64_t *value)
{
	static const char *const words[] = { "no", "yes", "off", "on", "false", "true" };

	if (text_to_int64(text, value)) {
		*value = *value != 0;
		return true;
	}
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (text_equal_fold(text, words[i])) {
			*value = (int64_t)(i % 2);
			return true;
		}
	}
	return false;
}

static bool read_octal(const char *text, int64_t *value)
{
	int64_t sum = 0;

	if (*text == '\0')
		return false;
	for (; *text; text++) {
		if (*text < '0' || *text > '7' || sum > INT32_MAX)
			return false;
		sum = sum * 8 + (*text - '0');
	}
	*value = sum;
	return true;
}

/* Parses digits with at most one point to microseconds; further digits are dropped. */
static bool read_seconds(const char *text, int64_t *value)
{
	int64_t sum = 0, unit = USEC;
	bool point = false, digits = false;

	for (; *text; text++) {
		if (*text == '.' && !point) {
			point = true;
			continue;
		}
		if (*text < '0' || *text > '9' || sum > INT64_MAX / 100)
			return false;
		digits = true;
		if (!point)
			sum = sum * 10 + (*text - '0') * USEC;
		else
			sum += (*text - '0') * (unit /= 10);
	}
	*value = sum;
	return digits;
}

/* Iterates over the words of an enum: moves *words after the next word and returns its length, 0 at
   the end. */
static size_t next_word(const char **words, const char **word)
{
	*words += strspn(*words, " ");
	*word = *words;
	*words += strcspn(*words, " ");
	return (size_t)(*words - *word);
}

#define WORD_MOST 32		/* more than any word of an enum has */

static void copy_word(char to[WORD_MOST], const char *word, size_t size)
{
	ASSERT(size < WORD_MOST);
	memcpy(to, word, size);
	to[size] = '\0';
}

static bool methods_read(const char *text, int64_t *list);

static bool read_number(const struct value_row *row, const char *text, int64_t *value)
{
	int64_t unit = row->type == VALUE_SECONDS || row->type == VALUE_FRACTION ? USEC : 1;
	const char *words = row->row.words, *word;
	char copy[WORD_MOST];
	size_t size;

	/* the key may be unset: in PgBouncer's files -1 is the same as no key */
	if (row->row.default_text[0] == '\0' &&
	    (row->type == VALUE_COUNT || row->type == VALUE_SECONDS) && strcmp(text, "-1") == 0) {
		*value = CONF_UNSET;
		return true;
	}
	switch (row->type) {
	case VALUE_BOOL:
		return read_bool(text, value);
	case VALUE_ENUM:
		/* the index of the word, in any case */
		for (*value = 0; (size = next_word(&words, &word)) > 0; ++*value) {
			copy_word(copy, word, size);
			if (text_equal_fold(text, copy))
				return true;
		}
		return false;
	case VALUE_METHODS:
		return methods_read(text, value);
	case VALUE_POLLING:
		if (text_to_int64(text, value))
			return *value >= 0 && *value <= row->row.most;
		if (read_bool(text, value))
			return *value == 0;
		*value = SETTING_AUTO;
		return text_equal_fold(text, "auto");
	case VALUE_OCTAL:
		if (!read_octal(text, value))
			return false;
		break;
	case VALUE_SECONDS:
	case VALUE_FRACTION:
		if (!read_seconds(text, value))
			return false;
		break;
	default:
		if (!text_to_int64(text, value))
			return false;
	}
	return *value >= row->row.least * unit && *value <= row->row.most * unit;
}

static struct secret *value_copy_secret(struct arena *arena, const char *bytes, size_t length)
{
	struct secret *secret = arena_take(arena, sizeof(*secret) + length + 1);

	if (secret) {
		secret->length = length;
		memcpy(secret->bytes, bytes, length);
	}
	return secret;
}

enum value_verdict value_read(const struct value_row *row, void *object, const char *text,
			      struct arena *arena)
{
	size_t length = strlen(text);
	int64_t number;

	if (row->type == VALUE_SECRET) {
		struct secret *secret = length ? value_copy_secret(arena, text, length) : NULL;

		if (length && !secret)
			return VALUE_READ_NO_MEMORY;
		*(struct secret **)field_of(row, object) = secret;
	} else if (row->type == VALUE_PORTS && !ports_read(text, NULL, 0)) {
		return VALUE_READ_WRONG;
	} else if (row->type == VALUE_NETWORKS && !networks_are_valid(text)) {
		return VALUE_READ_WRONG;
	} else if (is_text(row->type)) {
		bool is_unset = length == 0 && row->type != VALUE_SQL;
		const char *copy = is_unset ? NULL : arena_copy(arena, text, length);

		if (!is_unset && !copy)
			return VALUE_READ_NO_MEMORY;
		*(const char **)field_of(row, object) = copy;
	} else {
		if (!read_number(row, text, &number))
			return VALUE_READ_WRONG;
		number_set(row, object, number);
	}
	return VALUE_READ_OK;
}

bool value_read_defaults(const struct value_table *table, void *object, struct arena *arena)
{
	for (size_t i = 0; i < table->count; i++) {
		const struct value_row *row = &table->rows[i];
		enum value_verdict verdict;

		if (!is_text(row->type) && row->type != VALUE_SECRET &&
		    row->row.default_text[0] == '\0') {
			number_set(row, object, CONF_UNSET);
			continue;
		}
		verdict = value_read(row, object, row->row.default_text, arena);
		ASSERT(verdict != VALUE_READ_WRONG);
		if (verdict == VALUE_READ_NO_MEMORY)
			return false;
	}
	return true;
}

const char *value_accepted(const struct value_row *row, char *buf, size_t size)
{
	const int64_t least = row->row.least, most = row->row.most;
	const char *word, *words = row->row.words;
	size_t used, length;

	switch (row->type) {
	case VALUE_BOOL:
		snprintf(buf, size, "1 or 0 (or yes, no, on, off, true, false)");
		break;
	case VALUE_COUNT:
	case VALUE_PORT:
		snprintf(buf, size, "a whole number from %" PRId64 " to %" PRId64, least, most);
		break;
	case VALUE_PORTS:
		snprintf(buf, size,
			 "a whole number from %" PRId64 " to %" PRId64
			 ", or a list of such numbers with commas",
			 least, most);
		break;
	case VALUE_NETWORKS:
		text_copy(buf, size, "a list of networks with commas, such as 10.0.0.0/8, "
				     "192.0.2.7, 2001:db8::/32, unix");
		break;
	case VALUE_MILLIS:
		snprintf(buf, size, "whole milliseconds from %" PRId64 " to %" PRId64, least, most);
		break;
	case VALUE_FRACTION:
		snprintf(buf, size, "a number from %" PRId64 " to %" PRId64 ", with a fraction",
			 least, most);
		break;
	case VALUE_POLLING:
		snprintf(buf, size, "auto, off or microseconds from %" PRId64 " to %" PRId64, least,
			 most);
		break;
	case VALUE_SECONDS:
		snprintf(buf, size,
			 "seconds from %" PRId64 " to %" PRId64 ", with a fraction if need be",
			 least, most);
		break;
	case VALUE_OCTAL:
		snprintf(buf, size, "an octal number from %04" PRIo64 " to %04" PRIo64,
			 (uint64_t)least, (uint64_t)most);
		break;
	case VALUE_ENUM:
		text_copy(buf, size, "one of");
		while ((length = next_word(&words, &word)) > 0) {
			used = strlen(buf);
			snprintf(buf + used, size - used, "%s %.*s", used > 6 ? "," : "",
				 (int)length, word);
		}
		break;
	case VALUE_METHODS:
		text_copy(buf, size, METHODS_ACCEPTED);
		break;
	default:
		text_copy(buf, size, "any text");
	}
	return buf;
}

const char *value_text(const struct value_row *row, const void *object, char *buf, size_t size)
{
	const char *text, *words = row->row.words;
	size_t length = 0;
	int64_t number;

	if (row->type == VALUE_SECRET)
		return "";
	if (is_text(row->type)) {
		text = *(const char *const *)field_in(row, object);
		return text ? text : "";
	}
	number = number_get(row, object);
	/* settings with -1 as a value have no unset state */
	if (number == CONF_UNSET && row->row.least >= 0)
		return "";
	switch (row->type) {
	case VALUE_SECONDS:
	case VALUE_FRACTION:
		/* without the zeros at the end of a fraction */
		snprintf(buf, size, "%" PRId64 ".%06" PRId64, number / USEC, number % USEC);
		length = strlen(buf);
		while (length > 0 && buf[length - 1] == '0')
			buf[--length] = '\0';
		if (length > 0 && buf[length - 1] == '.')
			buf[--length] = '\0';
		break;
	case VALUE_ENUM:
		text = "";
		for (int64_t i = 0; i <= number; i++)
			length = next_word(&words, &text);
		snprintf(buf, size, "%.*s", (int)length, text);
		break;
	case VALUE_POLLING:
		if (number == SETTING_AUTO)
			return "auto";
		snprintf(buf, size, "%" PRId64, number);
		break;
	case VALUE_METHODS:
		methods_text(number, buf, size);
		break;
	case VALUE_OCTAL:
		snprintf(buf, size, "%04" PRIo64, (uint64_t)number);
		break;
	default:
		snprintf(buf, size, "%" PRId64, number);
	}
	return buf;
}

bool value_copy(const struct value_row *row, void *to, const void *from, struct arena *arena)
{
	if (row->type == VALUE_SECRET) {
		const struct secret *old = *(struct secret *const *)field_in(row, from);
		struct secret *copy = old ? value_copy_secret(arena, old->bytes, old->length)
					  : NULL;

		*(struct secret **)field_of(row, to) = copy;
		return !old || copy;
	}
	if (is_text(row->type)) {
		const char *old = *(const char *const *)field_in(row, from);
		const char *copy = old ? arena_copy(arena, old, strlen(old)) : NULL;

		*(const char **)field_of(row, to) = copy;
		return !old || copy;
	}
	number_set(row, to, number_get(row, from));
	return true;
}

bool value_is_equal(const struct value_row *row, const void *a, const void *b)
{
	const void *x = field_in(row, a), *y = field_in(row, b);

	if (row->type == VALUE_SECRET)
		return secret_is_same(*(struct secret *const *)x, *(struct secret *const *)y);
	if (is_text(row->type)) {
		const char *one = *(const char *const *)x, *other = *(const char *const *)y;

		return one == other || (one && other && strcmp(one, other) == 0);
	}
	return number_get(row, a) == number_get(row, b);
}

bool value_rows_differ(const struct value_table *table, enum setting_applies which, const void *a,
		       const void *b)
{
	for (size_t i = 0; i < table->count; i++) {
		if (table->rows[i].row.applies == which && !value_is_equal(&table->rows[i], a, b))
			return true;
	}
	return false;
}

void value_rows_pack(struct bytes *out, const struct value_table *table, enum setting_applies which,
		     const void *object)
{
	char number[64];

	for (size_t i = 0; i < table->count; i++) {
		if (table->rows[i].row.applies == which)
			pack_text(out, value_text(&table->rows[i], object, number, sizeof(number)));
	}
}

/* ---- lists of authentication methods ---- */

/*
 * Lists of authentication methods that a server may ask for: require_auth of libpq.
 *
 * Invariant: a list names each method at most once, and all of its words have a `!` in front, or
 * none has.
 */

static const char blanks[] = " \t";

static const char *const words[SERVER_METHODS] = {
	[METHOD_PASSWORD] = "password",
	[METHOD_MD5] = "md5",
	[METHOD_GSS] = "gss",
	[METHOD_SSPI] = "sspi",
	[METHOD_SCRAM] = "scram-sha-256",
	[METHOD_NONE] = "none",
};

/* Adds the word at *text to *list, and moves *text after the word and the following blanks. False:
   the word cannot be added. */
static bool value_add_word(const char **text, int64_t *list)
{
	bool forbidden = **text == '!';
	const char *word = *text + forbidden;
	size_t size = strcspn(word, ", \t");
	char copy[WORD_MOST];
	int method = 0;

	if (size >= sizeof(copy))
		return false;
	copy_word(copy, word, size);
	while (method < SERVER_METHODS && !text_equal_fold(words[method], copy))
		method++;
	if (method == SERVER_METHODS || *list >> method & 1)
		return false;
	if (*list != 0 && forbidden != ((*list & METHODS_FORBIDDEN) != 0))
		return false;
	*list |= (int64_t)1 << method | (forbidden ? METHODS_FORBIDDEN : 0);
	*text = word + size;
	*text += strspn(*text, blanks);
	return true;
}

/* Parses words separated by commas and blanks, in any case; "" is the empty list. Returns false,
   and leaves *list unchanged, for an unknown word, a duplicate, an empty word, or a mixture of
   words with and without `!`. */
static bool methods_read(const char *text, int64_t *list)
{
	int64_t found = 0;

	text += strspn(text, blanks);
	if (!*text) {
		*list = CONF_UNSET;
		return true;
	}
	if (!value_add_word(&text, &found))
		return false;
	while (*text == ',') {
		text++;
		text += strspn(text, blanks);
		if (!value_add_word(&text, &found))
			return false;
	}
	if (*text)
		return false;
	*list = found;
	return true;
}

const char *methods_text(int64_t list, char *buf, size_t size)
{
	const char *mark = list & METHODS_FORBIDDEN ? "!" : "";
	size_t used = 0;

	buf[0] = '\0';
	for (int i = 0; list != CONF_UNSET && i < SERVER_METHODS; i++) {
		if (!(list >> i & 1))
			continue;
		snprintf(buf + used, size - used, "%s%s%s", used ? "," : "", mark, words[i]);
		used = strlen(buf);
	}
	return buf;
}

bool methods_allow(int list, enum server_method method)
{
	/* a server that may ask for the password in clear text gains nothing by accepting the login
	   without it */
	if (method == METHOD_NONE && methods_name(list, METHOD_PASSWORD))
		return true;
	return list == CONF_UNSET || (list >> method & 1) != ((list & METHODS_FORBIDDEN) != 0);
}

/* ---- methods for clients ---- */

#ifdef HAVE_PAM
#define LACKS_PAM NULL
#else
#define LACKS_PAM "PAM"
#endif
#ifdef HAVE_LDAP
#define LACKS_LDAP NULL
#else
#define LACKS_LDAP "LDAP"
#endif
#define LACKS_NOTHING NULL

#define N(need) AUTH_NEEDS_##need
const struct auth_method auth_methods[AUTH_METHODS] = {
#define AUTH_METHOD(id, word, keyword, needs, library, ...) \
	[AUTH_##id] = { word, keyword, needs, LACKS_##library },
#include "tbl/auth_method.tbl"
#undef AUTH_METHOD
};
#undef N

/* The words of the setting auth_type, separated by blanks. */
static const char auth_type_words[] =
#define AUTH_METHOD(id, word, ...) word " "
#include "tbl/auth_method.tbl"
#undef AUTH_METHOD
;

/* ---- the tables ---- */

/*
 * The tables as arrays. include/tbl/ has one row for each setting and key; the parser, SHOW CONFIG,
 * SET, the sample file and the manual iterate over these arrays. A row does not compile if its type
 * does not fit the field.
 */

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
	KEY(conf_database, name, type, text, least, most, words, APPLIES_##applies, \
	    SCOPE_DATABASE, paragraph)
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

/* The members of these structures are declared in conf.h: their sizes must match the types of the
   rows. */
#define DATABASE_KEY(name, type, ...) \
	_Static_assert(FIELD_SIZE(conf_database, name) == sizeof(setting_##type), \
		       "shape of " #name);
#define USER_KEY(name, type, ...) \
	_Static_assert(FIELD_SIZE(conf_user, name) == sizeof(setting_##type), "shape of " #name);
#define PEER_KEY(name, type, ...) \
	_Static_assert(FIELD_SIZE(conf_peer, name) == sizeof(setting_##type), "shape of " #name);
#include "tbl/database_keys.tbl"
#include "tbl/peer_keys.tbl"
#include "tbl/user_keys.tbl"
#undef DATABASE_KEY
#undef USER_KEY
#undef PEER_KEY

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

static const char *const setting_aliases[][2] = { { "service_name", "job_name" }, { NULL, NULL } };
static const char *const database_aliases[][2] = { { "reserve_pool", "reserve_pool_size" },
						   { NULL, NULL } };

const struct value_table setting_table = {
	"pgbouncer", "setting", settings_rows, COUNT_OF(settings_rows), setting_aliases,
};
const struct value_table database_table = {
	"databases", "database", database_rows, COUNT_OF(database_rows), database_aliases,
};
const struct value_table user_table = { "users", "user", user_rows, COUNT_OF(user_rows), NULL };
const struct value_table peer_table = { "peers", "peer", peer_rows, COUNT_OF(peer_rows), NULL };

const char *setting_value_shown(const struct settings *s, size_t index, char *buf, size_t size)
{
	const char *text = value_text(&settings_rows[index], s, buf, size);

	if (settings_rows[index].offset != offsetof(struct settings, auth_ldap_options))
		return text;
	return ldap_options_masked(text, buf, size);
}

const char *setting_word(enum setting_words which, int value)
{
	static const char *const all[][6] = {
		[WORDS_POOL_MODE] = { "session", "transaction", "statement" },
		[WORDS_SESSION_LINK] = { "first_query", "login" },
		[WORDS_SESSION_STATE] = { "off", "full" },
		[WORDS_LOAD_BALANCE] = { "round-robin", "disable", "least" },
		[WORDS_SSLMODE] = { "disable", "allow", "prefer", "require", "verify-ca",
				    "verify-full" },
		[WORDS_TARGET] = { "any", "read-write", "read-only", "primary", "standby",
				   "prefer-standby" },
	};

	return value < 0 || value >= 6 ? NULL : all[which][value];
}

