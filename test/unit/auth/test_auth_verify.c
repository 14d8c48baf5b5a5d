/*
 * Logins with PAM or LDAP: the request to the verifier, and the effect of each verdict on the client. The test world replaces the verifier processes;
 * test/live/test_auth_pam.py and test_auth_ldap.py use real ones.
 */
#include "auth/auth.h"

#include "auth/client_address.h"
#include "logins.h"
#include "whole.h"

#define DATABASE "[databases]\nd = " HOUSE_SERVER HOUSE_SETTINGS "pool_mode=transaction\n"
#define PAM_INI DATABASE "auth_type=pam\n"
#define LDAP_INI DATABASE "auth_type=ldap\nauth_ldap_options=ldapserver=127.0.0.1 ldapprefix=\"cn=\" ldapsuffix=\"\"\n"
#define HBA_INI DATABASE "auth_type=hba\nauth_hba_file=hba\n== hba\nhost all v all pam pamservice=other\n"
#define PAM_REFUSED "E(28000 PAM authentication failed)"
#define LDAP_REFUSED "E(28000 LDAP authentication failed)"
#define MALFORMED "E(08P01 unexpected packet type during login: malformed password)"

static struct house_end *client;

/* A client is asked for its password; the verifier answers the request with this verdict. */
static void begin(const char *ini, enum verify_verdict verdict, enum verify_refusal refusal)
{
	login_open(ini, "");
	house_verifier = (struct house_verifier){ .verdict = verdict, .refusal = refusal };
	client = login_name("v", "d");
	CHECK_INT(login_asked(client), 3);
	CHECK_INT(whole_last_client()->login->step, LOGIN_PASSWORD);
	login_told(client);
}

static const char *told(const char *ini, enum verify_verdict verdict, enum verify_refusal refusal, const char *password)
{
	static char text[1000];

	begin(ini, verdict, refusal);
	snprintf(text, sizeof(text), "%s", login_password(client, password));
	whole_close();
	return text;
}

TEST(request_to_the_verifier)
{
	CHECK(login_is_welcome(told(PAM_INI, VERIFIED_YES, VERIFIERS_ASKED, "pass")));
	CHECK_TEXT(house_verifier.asked, "PAM v/pass pgbouncer 127.0.0.1");
	CHECK(login_is_welcome(told(LDAP_INI, VERIFIED_YES, VERIFIERS_ASKED, "pass")));
	CHECK(strncmp(house_verifier.asked, "LDAP v/pass ", 12) == 0);
	/* the PAM service of the HBA line */
	CHECK(login_is_welcome(told(HBA_INI, VERIFIED_YES, VERIFIERS_ASKED, "pass")));
	CHECK_TEXT(house_verifier.asked, "PAM v/pass other 127.0.0.1");
}

TEST(unix_socket_client_has_no_remote_host)
{
	const char *const pairs[] = { "user", "v", "database", "d" };
	struct bytes out = BYTES_EMPTY;

	login_open(PAM_INI, "");
	house_verifier = (struct house_verifier){ .verdict = VERIFIED_YES };
	client = login_connect_unix();
	pg_build_startup(&out, 3u << 16, pairs, 4);
	login_send(client, &out);
	login_password(client, "pass");
	CHECK_TEXT(house_verifier.asked, "PAM v/pass pgbouncer -");
	whole_close();
}

TEST(verdicts)
{
	CHECK_TEXT(told(PAM_INI, VERIFIED_NO, VERIFIERS_ASKED, "pass"), PAM_REFUSED);
	CHECK_TEXT(told(PAM_INI, VERIFIED_UNKNOWN, VERIFIERS_ASKED, "pass"), PAM_REFUSED);
	CHECK_TEXT(told(LDAP_INI, VERIFIED_NO, VERIFIERS_ASKED, "pass"), LDAP_REFUSED);
	CHECK_TEXT(told(PAM_INI, VERIFIED_DISPLACED, VERIFIERS_ASKED, "pass"), "E(53300 too many logins wait for a look-up or verifier (max_auth_queue))");
}

TEST(requests_that_cannot_be_queued)
{
	CHECK_TEXT(told(PAM_INI, VERIFIED_YES, VERIFIERS_TOO_MANY, "pass"), "E(53300 too many logins wait for a look-up or verifier (max_auth_queue))");
	CHECK_TEXT(told(PAM_INI, VERIFIED_YES, VERIFIERS_TOO_LONG, "pass"), PAM_REFUSED);
	CHECK_TEXT(told(LDAP_INI, VERIFIED_YES, VERIFIERS_TOO_LONG, "pass"), LDAP_REFUSED);
	CHECK_TEXT(told(PAM_INI, VERIFIED_YES, VERIFIERS_NO_MEMORY, "pass"), "E(53200 out of memory)");
}

TEST(message_other_than_password)
{
	begin(PAM_INI, VERIFIED_YES, VERIFIERS_ASKED);
	whole_say(client, 'p', "pass", 4);
	CHECK_TEXT(login_told(client), MALFORMED);
	whole_close();
	begin(PAM_INI, VERIFIED_YES, VERIFIERS_ASKED);
	whole_say(client, 'p', "pass\0x", 7);
	CHECK_TEXT(login_told(client), MALFORMED);
	CHECK_TEXT(house_verifier.asked, "");
	whole_close();
}

static void keep_failures(void *context, const struct address_row *row)
{
	*(int64_t *)context = row->failures;
}

/* Returns the number of failures of the only address. */
static int64_t failures(void)
{
	int64_t count = -1;

	client_addresses_each_row(whole.world, keep_failures, &count);
	return count;
}

/* Wrong passwords count as failures of the address; a missing answer does not. */
TEST(failed_logins_count_for_the_address)
{
	begin(PAM_INI, VERIFIED_NO, VERIFIERS_ASKED);
	login_password(client, "pass");
	CHECK_INT(failures(), 1);
	client = login_name("v", "d");
	house_verifier.verdict = VERIFIED_UNKNOWN;
	login_password(client, "pass");
	CHECK_INT(failures(), 1);
	whole_close();
}

UNIT_MAIN
