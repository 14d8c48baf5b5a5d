/*
 * Mistakes in a `reject` line of an HBA file.
 *
 * Input: a line. If the line is usable and rejects, all lines that differ from it by one slip are tried in its place, before lines that admit every
 * client: each byte removed, replaced, duplicated or swapped with the next; bytes inserted; the line truncated; words removed, duplicated or swapped.
 * Property: a slip that makes the line unusable admits no client that the original line rejects. A slip that changes the meaning of the line cannot
 * be distinguished from intention; nor can a blank swapped with a letter, which changes two fields at once ("bo blocalhost"); nor a quote lost before
 * a '#', which makes the rest a comment. Therefore lines with a '#' are not tried, but slips that insert one are.
 */
#include "fuzz.h"
#include "hba_read.h"
#include "rules.h"
#include "sandbox.h"

#include <stdio.h>

#define LINE_MOST 80

static const char open_to_all[] = "\nhost all,replication all all trust\nlocal all,replication all trust\n";
static const char slips[] = "\t\n\r\v\f \"#\\,=/@+*.:%-()[]!019azAZ\x80";	/* including the NUL at the end */

struct slip {
	const uint8_t *line;
	size_t size;
	bool rejected[RULES_CLIENTS];
};

static struct hba *load(const uint8_t *line, size_t size, bool *is_usable)
{
	struct conf_problems problems = { .count = 0 };
	struct bytes text = BYTES_EMPTY;
	struct hba *hba;

	bytes_append(&text, line, size);
	bytes_append_text(&text, open_to_all);
	sandbox_file(SANDBOX_MAIN, bytes_front(&text), bytes_size(&text));
	hba = hba_read(SANDBOX_MAIN, NULL, HBA_TLS_CERTIFICATES, NULL, &problems);
	FUZZ_CHECK(hba);
	*is_usable = problems.errors == 0;
	conf_problems_free(&problems);
	bytes_free(&text);
	return hba;
}

static void try_line(const struct slip *slip, const uint8_t *line, size_t size)
{
	bool is_usable;
	struct hba *hba = load(line, size, &is_usable);

	for (int i = 0; !is_usable && i < RULES_CLIENTS; i++) {
		struct hba_client client = rules_client(i);
		const struct hba_rule *rule = slip->rejected[i] ? hba_find(hba, &client) : NULL;

		if (rule && rule->method != AUTH_REJECT)
			fprintf(stderr, "client %d is admitted by this slip: \"%.*s\"\n", i, (int)size, (const char *)line);
		FUZZ_CHECK(!rule || rule->method == AUTH_REJECT);
	}
	hba_drop(&hba);
}

/* In place of `gone` bytes at `at` come `size` others. */
static void splice(const struct slip *slip, size_t at, size_t gone, const void *in, size_t size)
{
	uint8_t line[3 * LINE_MOST];

	memcpy(line, slip->line, at);
	memcpy(line + at, in, size);
	memcpy(line + at + size, slip->line + at + gone, slip->size - at - gone);
	try_line(slip, line, slip->size - gone + size);
}

static bool is_blank(uint8_t byte)
{
	return byte && strchr(" \t\r\v\f", byte);
}

static void slip_bytes(const struct slip *slip, size_t at)
{
	for (size_t i = 0; i < sizeof(slips); i++) {
		splice(slip, at, 0, &slips[i], 1);
		if (at < slip->size)
			splice(slip, at, 1, &slips[i], 1);
	}
	try_line(slip, slip->line, at);
	if (at == slip->size)
		return;
	splice(slip, at, 1, "", 0);
	splice(slip, at, 0, slip->line + at, 1);
	if (at + 1 < slip->size && !is_blank(slip->line[at]) && !is_blank(slip->line[at + 1]))
		splice(slip, at, 2, (uint8_t[]){ slip->line[at + 1], slip->line[at] }, 2);
}

static bool begins_word(const struct slip *slip, size_t at)
{
	return !is_blank(slip->line[at]) && (at == 0 || is_blank(slip->line[at - 1]));
}

/* Returns the end of the word at `at`, including the following blanks. */
static size_t end_of(const struct slip *slip, size_t at)
{
	while (at < slip->size && !is_blank(slip->line[at]))
		at++;
	while (at < slip->size && is_blank(slip->line[at]))
		at++;
	return at;
}

static void slip_words(const struct slip *slip, size_t at)
{
	size_t end = end_of(slip, at), next = end_of(slip, end);
	uint8_t swapped[LINE_MOST];

	splice(slip, at, end - at, "", 0);
	splice(slip, at, 0, slip->line + at, end - at);
	memcpy(swapped, slip->line + end, next - end);
	memcpy(swapped + next - end, slip->line + at, end - at);
	splice(slip, at, next - at, swapped, next - at);
}

/* Determines which clients the line rejects. Returns false if the line is not to be tried. */
static bool begin(struct slip *slip)
{
	bool is_usable, rejects = false;
	struct hba *hba = load(slip->line, slip->size, &is_usable);

	for (int i = 0; is_usable && i < RULES_CLIENTS; i++) {
		struct hba_client client = rules_client(i);
		const struct hba_rule *rule = hba_find(hba, &client);

		slip->rejected[i] = rule && rule->line == 1 && rule->method == AUTH_REJECT;
		rejects |= slip->rejected[i];
	}
	hba_drop(&hba);
	return rejects;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct slip slip = { .line = data, .size = size };

	if (size > LINE_MOST || memchr(data, '\n', size) || memchr(data, '#', size))
		return 0;
	sandbox_begin();
	if (begin(&slip))
		for (size_t at = 0; at <= size; at++) {
			slip_bytes(&slip, at);
			if (at < size && begins_word(&slip, at))
				slip_words(&slip, at);
		}
	sandbox_end();
	return 0;
}
