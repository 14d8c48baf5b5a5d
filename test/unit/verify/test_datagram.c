/* Encoded requests and answers. */
#include "verify/datagram.h"

#include "unit.h"

static const struct ldap_options options = {
	.servers = "a b", .port = 636, .ldaps = true, .prefix = NULL, .suffix = "", .base_dn = "dc=x", .bind_dn = "cn=s",
	.bind_password = "p", .search_filter = "(uid=$username)", .scope = LDAP_SEARCH_ONE,
};

static struct bytes written(const struct verify_question *q)
{
	struct bytes b = BYTES_EMPTY;

	CHECK(verify_question_write(&b, 0x123456789abcdef0, q));
	return b;
}

TEST(request_for_pam)
{
	const struct verify_question q = { .method = VERIFY_PAM, .user = "app", .password = "se cret", .service = "s", .remote = "::1" };
	struct bytes b = written(&q);
	struct ldap_options ldap;
	struct verify_question got;
	uint64_t ticket;

	REQUIRE(verify_question_read(bytes_front(&b), bytes_size(&b), &ticket, &got, &ldap));
	CHECK(ticket == 0x123456789abcdef0);
	CHECK_INT(got.method, VERIFY_PAM);
	CHECK_TEXT(got.user, "app");
	CHECK_TEXT(got.password, "se cret");
	CHECK_TEXT(got.service, "s");
	CHECK_TEXT(got.remote, "::1");
	bytes_wipe(&b);
}

TEST(request_for_ldap)
{
	const struct verify_question q = { .method = VERIFY_LDAP, .user = "app", .password = "x", .ldap = &options, .ldap_timeout = 2500000 };
	struct bytes b = written(&q);
	struct ldap_options ldap;
	struct verify_question got;
	uint64_t ticket;

	REQUIRE(verify_question_read(bytes_front(&b), bytes_size(&b), &ticket, &got, &ldap));
	CHECK(got.ldap == &ldap);
	CHECK_INT(got.ldap_timeout, 2500000);
	CHECK_TEXT(ldap.servers, "a b");
	CHECK_INT(ldap.port, 636);
	CHECK(ldap.ldaps && !ldap.starttls);
	CHECK(!ldap.prefix && !ldap.search_attribute);
	CHECK_TEXT(ldap.suffix, "");
	CHECK_TEXT(ldap.base_dn, "dc=x");
	CHECK_TEXT(ldap.bind_dn, "cn=s");
	CHECK_TEXT(ldap.bind_password, "p");
	CHECK_TEXT(ldap.search_filter, "(uid=$username)");
	CHECK_INT(ldap.scope, LDAP_SEARCH_ONE);
	bytes_wipe(&b);
}

TEST(request_for_scram)
{
	const uint8_t salt[] = { 0, 1, 0, 255 };
	struct verify_question q = { .method = VERIFY_SCRAM, .user = "app", .password = "x", .salt = salt, .salt_size = sizeof(salt),
				     .iterations = SCRAM_ITERATIONS_MAX };
	struct bytes b = written(&q);
	struct ldap_options ldap;
	struct verify_question got;
	uint64_t ticket;

	REQUIRE(verify_question_read(bytes_front(&b), bytes_size(&b), &ticket, &got, &ldap));
	CHECK_INT(got.method, VERIFY_SCRAM);
	CHECK_INT(got.iterations, SCRAM_ITERATIONS_MAX);
	REQUIRE(got.salt_size == sizeof(salt) && memcmp(got.salt, salt, sizeof(salt)) == 0);
	CHECK_TEXT(got.user, "app");
	CHECK_TEXT(got.password, "x");
	bytes_wipe(&b);
	q.iterations++;
	b = written(&q);
	CHECK(!verify_question_read(bytes_front(&b), bytes_size(&b), &ticket, &got, &ldap));
	bytes_wipe(&b);
}

/* Checks every truncated request, and extra bytes at the end, in an allocation of the exact size. */
static void check_cuts(const struct verify_question *q)
{
	struct bytes b = written(q);

	for (size_t size = 0; size <= bytes_size(&b) + 1; size++) {
		uint8_t *copy = mem_must(size);
		struct ldap_options ldap;
		struct verify_question got;
		uint64_t ticket;

		memcpy(copy, bytes_front(&b), size < bytes_size(&b) ? size : bytes_size(&b));
		CHECK(verify_question_read(copy, size, &ticket, &got, &ldap) == (size == bytes_size(&b)));
		mem_free(copy);
	}
	bytes_wipe(&b);
}

TEST(truncated_or_extended_request_is_invalid)
{
	const struct verify_question pam = { .method = VERIFY_PAM, .user = "app", .password = "x", .service = "s" };
	const struct verify_question ldap = { .method = VERIFY_LDAP, .user = "app", .password = "x", .ldap = &options, .ldap_timeout = 1 };

	const uint8_t salt[16] = { 1 };
	const struct verify_question scram = { .method = VERIFY_SCRAM, .user = "app", .password = "x", .salt = salt,
					       .salt_size = sizeof(salt), .iterations = 4096 };

	check_cuts(&scram);
	check_cuts(&pam);
	check_cuts(&ldap);
}

TEST(request_with_empty_password_is_refused)
{
	const struct verify_question faults[] = {
		{ .method = VERIFY_PAM, .user = "app", .password = "", .service = "s" },
		{ .method = VERIFY_PAM, .user = "app", .password = NULL, .service = "s" },
		{ .method = VERIFY_PAM, .user = "", .password = "x", .service = "s" },
		{ .method = VERIFY_PAM, .user = "app", .password = "x", .service = NULL },
		{ .method = VERIFY_LDAP, .user = "app", .password = "", .ldap = &options },
		{ .method = VERIFY_SCRAM, .user = "app", .password = "", .salt = (const uint8_t *)"s", .salt_size = 1, .iterations = 1 },
		{ .method = VERIFY_SCRAM, .user = "app", .password = "x", .salt = (const uint8_t *)"", .salt_size = 0, .iterations = 1 },
		{ .method = VERIFY_SCRAM, .user = "app", .password = "x", .salt = (const uint8_t *)"s", .salt_size = 1 },
		{ .method = (enum verify_method)(VERIFY_SCRAM + 1), .user = "app", .password = "x" },
	};

	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
		struct bytes b = written(&faults[i]);
		struct ldap_options ldap;
		struct verify_question got;
		uint64_t ticket;

		CHECK(!verify_question_read(bytes_front(&b), bytes_size(&b), &ticket, &got, &ldap));
		bytes_wipe(&b);
	}
}

TEST(long_request)
{
	static char text[VERIFY_QUESTION_MOST];
	const struct verify_question q = { .method = VERIFY_PAM, .user = "app", .password = text, .service = "s" };
	struct bytes b = BYTES_EMPTY;

	memset(text, 'x', 65000);
	CHECK(verify_question_write(&b, 1, &q));
	bytes_wipe(&b);
	memset(text, 'x', sizeof(text) - 1);
	CHECK(!verify_question_write(&b, 1, &q));
	bytes_wipe(&b);
}

TEST(an_answer_with_a_key)
{
	struct verify_answer answer, got;
	struct bytes b = BYTES_EMPTY;
	uint64_t ticket;

	verify_answer_set(&answer, VERIFIED_YES, "%s", "");
	answer.has_key = true;
	memset(answer.salted, 7, sizeof(answer.salted));
	verify_answer_write(&b, 7, &answer);
	for (size_t size = 0; size <= bytes_size(&b); size++)
		CHECK(verify_answer_read(bytes_front(&b), size, &ticket, &got) == (size == bytes_size(&b)));
	CHECK(got.has_key && memcmp(got.salted, answer.salted, sizeof(got.salted)) == 0);
	/* no key except with the verdict YES */
	b.data[8] = VERIFIED_NO;
	CHECK(!verify_answer_read(bytes_front(&b), bytes_size(&b), &ticket, &got));
	b.data[8] = VERIFIED_YES;
	b.data[9] = 2;
	CHECK(!verify_answer_read(bytes_front(&b), bytes_size(&b), &ticket, &got));
	bytes_wipe(&b);
}

TEST(an_answer)
{
	struct verify_answer answer, got;
	struct bytes b = BYTES_EMPTY;
	uint64_t ticket;

	verify_answer_set(&answer, VERIFIED_NO, "a %s", "b");
	verify_answer_write(&b, 7, &answer);
	for (size_t size = 0; size <= bytes_size(&b); size++)
		CHECK(verify_answer_read(bytes_front(&b), size, &ticket, &got) == (size == bytes_size(&b)));
	CHECK_INT(ticket, 7);
	CHECK_INT(got.verdict, VERIFIED_NO);
	CHECK_TEXT(got.why, "a b");
	CHECK(!got.has_key);
	b.data[8] = VERIFIED_UNKNOWN + 1;
	CHECK(!verify_answer_read(bytes_front(&b), bytes_size(&b), &ticket, &got));
	bytes_free(&b);
}

TEST(the_longest_answer_fits)
{
	struct verify_answer answer;
	struct bytes b = BYTES_EMPTY;

	verify_answer_set(&answer, VERIFIED_NO, "%s%01000d", "", 0);
	verify_answer_write(&b, 7, &answer);
	CHECK(bytes_size(&b) <= VERIFY_ANSWER_MOST);
	bytes_free(&b);
}

UNIT_MAIN
