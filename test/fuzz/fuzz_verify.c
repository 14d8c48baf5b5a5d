/*
 * Messages between pgweir and the processes that run PAM and LDAP, or derive keys (verify/datagram.c): a verifier runs foreign code, so none of its
 * answers may do harm.
 *
 * Input: 'q' or 'a', and the datagram. Property: a valid message, written again, is read as the same.
 */
#include "fuzz.h"
#include "verify/datagram.h"

#include <stdlib.h>
#include <string.h>

static bool same_text(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

static void try_question(const uint8_t *data, size_t size)
{
	struct ldap_options ldap = { .port = 0 }, ldap_back = { .port = 0 };
	struct verify_question q, back;
	struct bytes out = BYTES_EMPTY;
	uint64_t ticket, ticket_back;

	if (!verify_question_read(data, size, &ticket, &q, &ldap))
		return;
	FUZZ_CHECK(q.user && *q.user && q.password && *q.password && (int)q.method <= VERIFY_SCRAM);
	FUZZ_CHECK(q.method != VERIFY_SCRAM || (q.salt_size > 0 && q.salt_size <= SCRAM_SALT_MAX && q.iterations > 0));
	if (!verify_question_write(&out, ticket, &q))
		return;
	FUZZ_CHECK(!out.failed && verify_question_read(bytes_front(&out), bytes_size(&out), &ticket_back, &back, &ldap_back));
	FUZZ_CHECK(ticket_back == ticket && back.method == q.method && strcmp(back.user, q.user) == 0);
	FUZZ_CHECK(strcmp(back.password, q.password) == 0 && same_text(back.service, q.service) && same_text(back.remote, q.remote));
	FUZZ_CHECK(back.iterations == q.iterations && back.salt_size == q.salt_size &&
		   (q.salt_size == 0 || memcmp(back.salt, q.salt, q.salt_size) == 0));
	FUZZ_CHECK(!back.ldap == !q.ldap && (!q.ldap || same_text(back.ldap->servers, q.ldap->servers)));
	bytes_wipe(&out);
}

static void try_answer(const uint8_t *data, size_t size)
{
	struct verify_answer a, back;
	struct bytes out = BYTES_EMPTY;
	uint64_t ticket, ticket_back;

	if (!verify_answer_read(data, size, &ticket, &a))
		return;
	FUZZ_CHECK(memchr(a.why, 0, sizeof(a.why)));
	verify_answer_write(&out, ticket, &a);
	FUZZ_CHECK(!out.failed && bytes_size(&out) <= VERIFY_ANSWER_MOST);
	FUZZ_CHECK(verify_answer_read(bytes_front(&out), bytes_size(&out), &ticket_back, &back));
	FUZZ_CHECK(ticket_back == ticket && back.verdict == a.verdict && strcmp(back.why, a.why) == 0);
	FUZZ_CHECK(back.has_key == a.has_key && memcmp(back.salted, a.salted, sizeof(a.salted)) == 0 && (!a.has_key || a.verdict == VERIFIED_YES));
	bytes_free(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = fuzz_input_of(data, size);
	uint8_t kind = fuzz_u8(&in);
	size_t left = fuzz_left(&in);
	uint8_t *copy = fuzz_copy(in.at, left);

	if (kind == 'q')
		try_question(copy, left);
	else if (kind == 'a')
		try_answer(copy, left);
	free(copy);
	return 0;
}
