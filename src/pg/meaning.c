/*
 * SQL that can change the meaning of texts: names of tables, functions and types are looked up by search_path, "$user" in it is the role, and some
 * parameters change how an expression is read (transform_null_equals).
 *
 * Names with a dot, which belong to no parameter of the server itself, and the names in a table here are harmless. The text is not parsed: where
 * it is not plain, the answer is that it may change the meaning.
 *
 *	statement = "SET" [ "SESSION" / "LOCAL" ] name rest / "RESET" name rest
 *	call      = "set_config" "(" "'" name "'" rest
 */
#include "pg/meaning.h"

#include "pg/role.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#define NAME_MOST 64

/* Names that begin with one of these words. */
static const char *const harmless_families[] = {
	"enable_", "log_", "jit", "geqo", "vacuum_", "transaction_", "default_transaction_", "cpu_", "max_parallel_", "parallel_", "idle_", "tcp_", "track_",
	"debug_", "effective_", "min_parallel_", "backend_flush", "commit_",
};

static const char *const harmless_names[] = {
	"application_name", "bytea_output", "client_min_messages", "constraint_exclusion", "cursor_tuple_fraction", "extra_float_digits",
	"from_collapse_limit", "hash_mem_multiplier", "join_collapse_limit", "local_preload_libraries", "lock_timeout", "maintenance_work_mem",
	"plan_cache_mode", "random_page_cost", "recursive_worktable_factor", "row_security", "seq_page_cost", "statement_timeout", "synchronous_commit",
	"temp_buffers", "temp_file_limit", "transaction", "work_mem",
	/* reported by the server; statements are shared only if these are equal */
	"client_encoding", "datestyle", "intervalstyle", "standard_conforming_strings", "timezone",
};

static bool is_harmless(const char *name, size_t size)
{
	if (size == 0 || size >= NAME_MOST)
		return false;
	if (memchr(name, '.', size))
		return true;
	for (size_t i = 0; i < sizeof(harmless_families) / sizeof(harmless_families[0]); i++) {
		size_t begin = strlen(harmless_families[i]);

		if (size >= begin && strncasecmp(name, harmless_families[i], begin) == 0)
			return true;
	}
	for (size_t i = 0; i < sizeof(harmless_names) / sizeof(harmless_names[0]); i++)
		if (size == strlen(harmless_names[i]) && strncasecmp(name, harmless_names[i], size) == 0)
			return true;
	return false;
}

static bool is_in_name(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '$' || c == '.';
}

/* The word at *at, which moves to the first byte after the word. */
static size_t take_word(const char **at, const char *end)
{
	const char *from = *at;

	while (*at < end && is_in_name(**at))
		(*at)++;
	return (size_t)(*at - from);
}

static void skip_blanks(const char **at, const char *end)
{
	while (*at < end && isspace((unsigned char)**at))
		(*at)++;
}

static bool is(const char *word, size_t size, const char *what)
{
	return size == strlen(what) && strncasecmp(word, what, size) == 0;
}

/* After SET or RESET. */
static bool names_harmless(const char *at, const char *end)
{
	const char *word;
	size_t size;

	skip_blanks(&at, end);
	word = at;
	size = take_word(&at, end);
	if (is(word, size, "local") || is(word, size, "session")) {
		skip_blanks(&at, end);
		word = at;
		size = take_word(&at, end);
	}
	if (is(word, size, "time"))
		return true;
	/* a quote or a byte beyond ASCII goes on with the name */
	return is_harmless(word, size) && (at == end || isspace((unsigned char)*at) || *at == '=' || *at == ';');
}

static const char *end_of(const uint8_t *text, size_t size)
{
	return size > 0 ? memchr(text, 0, size) : NULL;
}

bool meaning_query_keeps(const uint8_t *text, size_t size)
{
	const char *at = (const char *)text, *end = end_of(text, size), *last;

	if (!end || size < 4 || !role_begins(text, "set") || !isspace((unsigned char)text[3]))
		return false;
	/* only one statement */
	last = memchr(text, ';', (size_t)(end - at));
	for (last = last ? last + 1 : end; last < end; last++)
		if (!isspace((unsigned char)*last))
			return false;
	return names_harmless(at + 3, end);
}

bool meaning_parse_keeps(const uint8_t *text, size_t size)
{
	const char *at = (const char *)text, *end = end_of(text, size), *word;
	size_t word_size;

	if (!end)
		return false;
	while (at < end && (isspace((unsigned char)*at) || *at == ';'))
		at++;
	/* a comment may be followed by anything */
	if (at < end && (*at == '-' || *at == '/'))
		return !memmem(at, (size_t)(end - at), "set", 3) && !memmem(at, (size_t)(end - at), "SET", 3) && !memmem(at, (size_t)(end - at), "Set", 3);
	word = at;
	word_size = take_word(&at, end);
	if (!is(word, word_size, "set") && !is(word, word_size, "reset"))
		return true;
	return names_harmless(at, end);
}

/* After the word set_config. */
static bool configures_harmless(const char *at, const char *end)
{
	const char *name;
	size_t size;

	if (at < end && *at == '"')
		at++;
	skip_blanks(&at, end);
	if (at == end || *at++ != '(')
		return false;
	skip_blanks(&at, end);
	if (at == end || *at++ != '\'')
		return false;
	name = at;
	size = take_word(&at, end);
	return is_harmless(name, size) && at < end && *at == '\'';
}

bool meaning_is_configured(const uint8_t *text, size_t size)
{
	static const char before[] = "set", after[] = "_config";
	const size_t before_size = sizeof(before) - 1, after_size = sizeof(after) - 1;
	const char *begin = (const char *)text, *end = end_of(text, size), *at;

	if (!end)
		return true;
	for (at = begin; (at = memchr(at, '_', (size_t)(end - at))) != NULL; at++) {
		if ((size_t)(at - begin) < before_size || (size_t)(end - at) < after_size || strncasecmp(at - before_size, before, before_size) != 0 ||
		    strncasecmp(at, after, after_size) != 0)
			continue;
		if (!configures_harmless(at + after_size, end))
			return true;
	}
	return false;
}
