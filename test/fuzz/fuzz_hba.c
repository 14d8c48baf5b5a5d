/*
 * The HBA file, with its included files, and the result for a client.
 *
 * Input: files, as sandbox_files reads them; a file named "ident" is the ident file. Properties: the same file gives the same results, may always
 * replace itself, and gives the same results with comments and empty lines around it; a found rule has a method and a place; an unusable line admits
 * no client, neither by itself nor by its effect on others, so every client is refused after a line that could match any client.
 */
#include "fuzz.h"
#include "hba_read.h"
#include "rules.h"
#include "sandbox.h"

#include <stdlib.h>

/* Running rules that are the same may always be replaced. */
static struct hba *load(enum hba_tls tls, struct hba *running)
{
	struct conf_problems problems = { .count = 0 };
	struct hba *hba = hba_read(SANDBOX_MAIN, "ident", tls, running, &problems);

	for (size_t i = 0; i < problems.count; i++)
		FUZZ_CHECK(problems.items[i].text && *problems.items[i].text);
	FUZZ_CHECK(!running || problems.errors == 0);
	conf_problems_free(&problems);
	return hba;
}

static void compare(const struct hba *a, const struct hba *b, int lines_before)
{
	for (int i = 0; i < RULES_CLIENTS; i++) {
		struct hba_client client = rules_client(i);
		const struct hba_rule *x = hba_find(a, &client), *y = hba_find(b, &client);

		FUZZ_CHECK(!x == !y);
		if (!x)
			continue;
		FUZZ_CHECK(x->is_faulty == y->is_faulty && (!x->is_faulty || x->method == AUTH_REJECT));
		FUZZ_CHECK(x->method == y->method && x->certificate == y->certificate && !x->map == !y->map && !x->ldap == !y->ldap);
		FUZZ_CHECK(x->line > 0 && x->method != AUTH_ANY && x->method != AUTH_HBA && auth_methods[x->method].keyword);
		FUZZ_CHECK(strcmp(x->file, y->file) == 0);
		FUZZ_CHECK(y->line == x->line + (strcmp(x->file, SANDBOX_MAIN) == 0 ? lines_before : 0));
	}
}

/* Every client is refused by the first line, which cannot be used. */
static void check_refused(const struct hba *hba)
{
	for (int i = 0; i < RULES_CLIENTS; i++) {
		struct hba_client client = rules_client(i);
		const struct hba_rule *rule = hba_find(hba, &client);

		FUZZ_CHECK(rule && rule->is_faulty && rule->line == 1);
	}
}

/* The same files with a text in front. */
static struct hba *load_behind(const char *text, const uint8_t *data, size_t size, struct hba *running)
{
	struct bytes longer = BYTES_EMPTY;
	struct hba *hba;

	bytes_append_text(&longer, text);
	bytes_append(&longer, data, size);
	sandbox_files((const char *)bytes_front(&longer), bytes_size(&longer));
	hba = load(HBA_TLS_ON, running);
	FUZZ_CHECK(hba);
	bytes_free(&longer);
	return hba;
}

static bool text_starts_with_mark(const uint8_t *data, size_t size)
{
	return size >= 3 && memcmp(data, "\xef\xbb\xbf", 3) == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct hba *hba, *again;
	bool names_itself;

	if (size > RULES_MOST)
		return 0;
	sandbox_begin();
	sandbox_file("ident", "m alice bob\n", 12);
	sandbox_files((const char *)data, size);
	hba = load(HBA_TLS_CERTIFICATES, NULL);
	again = load(HBA_TLS_OFF, hba);
	FUZZ_CHECK(!hba == !again);
	if (hba) {
		compare(hba, again, 0);
		hba_drop(&again);
		/* a file that includes itself is longer each time, and a repeated file replaces the earlier one */
		names_itself = memmem(data, size, SANDBOX_MAIN, strlen(SANDBOX_MAIN));
		/* a byte order mark is one only at the beginning */
		if (!text_starts_with_mark(data, size) && !names_itself && !memchr(data, '@', size)) {
			again = load_behind("# a remark\n\n", data, size, hba);
			compare(hba, again, 2);
			hba_drop(&again);
		}
		if (!names_itself) {
			again = load_behind("hots all all all reject\n", data, size, NULL);
			check_refused(again);
		}
	}
	hba_drop(&again);
	hba_drop(&hba);
	sandbox_end();
	return 0;
}
