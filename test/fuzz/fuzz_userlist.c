/*
 * The user list (conf/userlist.c), and its secrets (pg/password.c).
 *
 * Input: the file. Properties: a list written again from its entries is read as the same; each user is found; a parsed and written SCRAM secret is
 * parsed as the same; a password other than the secret does not match.
 */
#include "conf/userlist.h"
#include "fuzz.h"
#include "pg/scram.h"
#include "sandbox.h"

#include <stdlib.h>
#include <string.h>

#define DERIVED_MOST 64		/* iterations; more would only be slow */

struct walk {
	const struct userlist *list, *other;
	struct bytes out;
};

static void write_quoted(struct bytes *out, const char *text, size_t size)
{
	bytes_append_u8(out, '"');
	for (size_t i = 0; i < size; i++) {
		if (text[i] == '"')
			bytes_append_u8(out, '"');
		bytes_append_u8(out, (uint8_t)text[i]);
	}
	bytes_append_u8(out, '"');
}

static void try_scram(const char *text)
{
	struct scram_secret secret, again;
	char written[SCRAM_SECRET_TEXT];
	uint8_t salted[SCRAM_KEY];

	FUZZ_CHECK(scram_secret_read(text, &secret));
	FUZZ_CHECK(secret.salt_size > 0 && secret.salt_size <= SCRAM_SALT_MAX && secret.iterations > 0);
	FUZZ_CHECK(scram_secret_write(&secret, written, sizeof(written)));
	FUZZ_CHECK(scram_secret_read(written, &again));
	FUZZ_CHECK(again.iterations == secret.iterations && again.salt_size == secret.salt_size &&
		   memcmp(again.salt, secret.salt, secret.salt_size) == 0 && memcmp(again.stored_key, secret.stored_key, SCRAM_KEY) == 0 &&
		   memcmp(again.server_key, secret.server_key, SCRAM_KEY) == 0);
	FUZZ_CHECK(!password_matches("a password that nobody has", "u", text));
	if (secret.iterations <= DERIVED_MOST)
		FUZZ_CHECK(scram_salted_derive("a password", secret.salt, secret.salt_size, secret.iterations, salted));
}

static void try_secret(const char *user, const char *text)
{
	char md5[MD5_SECRET + 1];

	switch (secret_kind_of(text)) {
	case SECRET_NONE:
		FUZZ_CHECK(!password_matches("", user, text) && !password_matches("x", user, text));
		return;
	case SECRET_PLAIN:
		FUZZ_CHECK(password_matches(text, user, text) && !password_matches("", user, text));
		if (md5_secret(text, user, md5))
			FUZZ_CHECK(password_matches(text, user, md5) && secret_kind_of(md5) == SECRET_MD5);
		return;
	case SECRET_MD5:
		FUZZ_CHECK(strlen(text) == MD5_SECRET && !password_matches(text, user, text));
		return;
	case SECRET_SCRAM:
		try_scram(text);
		return;
	}
}

static void visit(struct walk *walk, const char *user, const struct secret *secret)
{

	FUZZ_CHECK(*user && userlist_find(walk->list, user) == secret && strlen(secret->bytes) == secret->length);
	try_secret(user, secret->bytes);
	write_quoted(&walk->out, user, strlen(user));
	bytes_append_u8(&walk->out, ' ');
	write_quoted(&walk->out, secret->bytes, secret->length);
	bytes_append_text(&walk->out, "\n");
}

static void compare(const struct walk *walk, const char *user, const struct secret *secret)
{
	const struct secret *other = userlist_find(walk->other, user);

	FUZZ_CHECK(other && other->length == secret->length && memcmp(other->bytes, secret->bytes, secret->length) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct conf_problems problems = { .count = 0 };
	struct userlist *list, *again;
	struct walk walk = { .out = BYTES_EMPTY };

	sandbox_begin();
	sandbox_file(SANDBOX_MAIN, data, size);
	list = userlist_load(SANDBOX_MAIN, &problems);
	FUZZ_CHECK(list && problems.errors == 0 && !userlist_is_stale(list));
	conf_problems_free(&problems);
	walk.list = list;
	for (size_t i = 0; i < list->count; i++)
		visit(&walk, list->entries[i]->user, list->entries[i]->secret);
	sandbox_file(SANDBOX_MAIN, walk.out.data, bytes_size(&walk.out));
	again = userlist_load(SANDBOX_MAIN, &problems);
	FUZZ_CHECK(again && problems.count == 0 && again->count == list->count);
	walk.other = again;
	for (size_t i = 0; i < list->count; i++)
		compare(&walk, list->entries[i]->user, list->entries[i]->secret);
	userlist_free(&again);
	userlist_free(&list);
	bytes_free(&walk.out);
	sandbox_end();
	return 0;
}
