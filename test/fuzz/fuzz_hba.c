/*
 * The HBA file, with what it includes, and the verdict for a client.
 *
 * Input: files, as sandbox_files reads them; one named "ident" is the ident file. Properties: the same file
 * gives the same verdicts, may always replace itself, and gives them with remarks and empty lines around it
 * too; a rule that is found has a method and a place.
 */
#include "fuzz.h"
#include "rules.h"
#include "sandbox.h"

#include <stdlib.h>

static struct hba *load(enum hba_tls tls)
{
	struct conf_problems problems = { .count = 0 };
	struct hba *hba = hba_load(SANDBOX_MAIN, "ident", tls, &problems);

	for (size_t i = 0; i < problems.count; i++)
		FUZZ_CHECK(problems.items[i].text && *problems.items[i].text);
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
		FUZZ_CHECK(x->method == y->method && x->certificate == y->certificate && !x->map == !y->map && !x->ldap == !y->ldap);
		FUZZ_CHECK(x->line > 0 && x->method != AUTH_ANY && x->method != AUTH_HBA && *hba_method_name(x->method));
		FUZZ_CHECK(strcmp(x->file, y->file) == 0);
		FUZZ_CHECK(y->line == x->line + (strcmp(x->file, SANDBOX_MAIN) == 0 ? lines_before : 0));
	}
}

static bool text_starts_with_mark(const uint8_t *data, size_t size)
{
	return size >= 3 && memcmp(data, "\xef\xbb\xbf", 3) == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char remark[] = "# a remark\n\n";
	struct bytes longer = BYTES_EMPTY;
	struct hba *hba, *again;

	if (rules_are_too_much(data, size))
		return 0;
	sandbox_begin();
	sandbox_file("ident", "m alice bob\n", 12);
	sandbox_files((const char *)data, size);
	hba = load(HBA_TLS_CERTIFICATES);
	again = load(HBA_TLS_OFF);
	FUZZ_CHECK(!hba == !again);
	if (hba) {
		compare(hba, again, 0);
		FUZZ_CHECK(hba_may_replace(again, hba) && hba_may_replace(hba, again));
		hba_drop(&again);
		bytes_append_text(&longer, remark);
		bytes_append(&longer, data, size);
		/* a byte order mark is one only at the beginning; and a file that includes itself is longer each time */
		if (!text_starts_with_mark(data, size) && !memmem(data, size, SANDBOX_MAIN, strlen(SANDBOX_MAIN)) && !memchr(data, '@', size)) {
			sandbox_files((const char *)bytes_front(&longer), bytes_size(&longer));
			again = load(HBA_TLS_ON);
			FUZZ_CHECK(again);
			compare(hba, again, 2);
			FUZZ_CHECK(hba_may_replace(again, hba));
		}
	}
	hba_drop(&again);
	hba_drop(&hba);
	bytes_free(&longer);
	sandbox_end();
	return 0;
}
