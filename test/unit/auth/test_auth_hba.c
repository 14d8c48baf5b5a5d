/* auth_type hba: the matching line for the kind of connection and the address, the log message about the line, and the methods cert and peer. */
#include "auth/auth.h"

#include "logins.h"
#include "whole.h"
#include "../../fuzz/secure.h"

#include <pwd.h>
#include <unistd.h>

#define HBA(settings, lines) "[databases]\nd = " HOUSE_SERVER HOUSE_SETTINGS_SSL "server_tls_sslmode=disable\nauth_type=hba\nauth_hba_file=hba\n" \
	"admin_users=v\n" settings "== hba\n" lines
#define INI HBA("", \
	"host d v 127.0.0.1/32 trust\n" \
	"host d w 127.0.0.1/32 reject\n" \
	"host d x 127.0.0.1/32 password\n" \
	"host d y 10.0.0.0/8 trust\n" \
	"host pgweir v 127.0.0.1/32 trust\n" \
	"host replication r 127.0.0.1/32 trust\n")
#define SAME_INI HBA("", "host d v samehost trust\n")
#define PEER_INI HBA("auth_ident_file=ident\n", "local d all peer\nlocal all all peer map=m\n== ident\nm /^(.*)$ \\1x\n")
#define CERT_INI HBA("client_tls_sslmode=verify-ca\nclient_tls_ca_file=cert\nclient_tls_cert_file=cert\nclient_tls_key_file=key\n", \
	"hostssl d v all trust clientcert=verify-ca\n" \
	"hostssl d w all trust clientcert=verify-full\n" \
	"hostssl d all all cert\n")
#define CLEAR_CERT_INI HBA("client_tls_sslmode=prefer\nclient_tls_ca_file=cert\nclient_tls_cert_file=cert\nclient_tls_key_file=key\n", \
	"hostssl d all all trust\n")
#define USERS "\"v\" \"pass\"\n\"w\" \"pass\"\n\"x\" \"pass\"\n\"y\" \"pass\"\n"
#define NO_METHOD "E(28000 no authentication method is found)"

static const char *told_to(const char *user, const char *database)
{
	static char text[500];

	snprintf(text, sizeof(text), "%s", login_told(login_name(user, database)));
	return text;
}

/* ---- the line ---- */

TEST(first_matching_line_applies)
{
	struct house_end *end;

	login_open(INI, USERS);
	CHECK(login_is_welcome(told_to("v", "d")));
	CHECK_TEXT(told_to("w", "d"), "E(28000 login rejected)");
	end = login_name("x", "d");
	CHECK_INT(login_asked(end), 3);
	CHECK_INT(whole_last_client()->login->method, AUTH_PLAIN);
	CHECK_INT(whole_last_client()->login->rule->line, 3);
	/* an address other than this client's */
	CHECK_TEXT(told_to("y", "d"), NO_METHOD);
	CHECK_TEXT(told_to("v", "e"), NO_METHOD);
	CHECK_TEXT(told_to("nobody", "d"), NO_METHOD);
	whole_close();
}

/* The console has two names: a line for one name matches both. */
TEST(the_console)
{
	login_open(INI, USERS);
	CHECK(login_is_welcome(told_to("v", "pgweir")));
	CHECK(login_is_welcome(told_to("v", "pgbouncer")));
	CHECK_TEXT(told_to("w", "pgbouncer"), NO_METHOD);
	whole_close();
}

/* The database name in the start-up packet of a physical replication connection is ignored. */
TEST(replication)
{
	const char *pairs[] = { "user", "r", "database", "d", "replication", "true" };
	struct bytes out = BYTES_EMPTY;
	struct house_end *end;

	login_open(INI, "\"r\" \"\"\n");
	end = house_connect(&whole);
	pg_build_startup(&out, 3u << 16, pairs, 6);
	login_send(end, &out);
	CHECK(login_is_welcome(login_told(end)));
	CHECK_TEXT(told_to("r", "d"), NO_METHOD);
	/* the console does not replicate, so its HBA lines cannot be bypassed */
	pairs[3] = "pgbouncer";
	out = (struct bytes)BYTES_EMPTY;
	end = house_connect(&whole);
	pg_build_startup(&out, 3u << 16, pairs, 6);
	login_send(end, &out);
	CHECK_TEXT(login_told(end), NO_METHOD);
	whole_close();
}

TEST(addresses_of_this_machine)
{
	login_open(SAME_INI, USERS);
	CHECK(login_is_welcome(told_to("v", "d")));
	whole_close();
}

/* ---- the log ---- */

TEST(log_message_has_the_line_number)
{
	struct house_end *end;
	struct client *c;
	char text[200];

	login_open(INI, USERS);
	end = login_name("x", "d");
	c = whole_last_client();
	CHECK(end && auth_rule_text(c, text, sizeof(text)));
	CHECK_TEXT(text, "matched hba:3 (password)");
	{
		struct hba_rule rule = *c->login->rule;
		const struct hba_rule *real = c->login->rule;

		rule.is_faulty = true;
		c->login->rule = &rule;
		CHECK(auth_rule_text(c, text, sizeof(text)));
		CHECK_TEXT(text, "refused by hba:3, a line that cannot be used");
		rule.is_faulty = false;
		rule.is_unknown = true;
		CHECK(auth_rule_text(c, text, sizeof(text)));
		CHECK_TEXT(text, "refused by hba:3, a line whose address cannot be checked");
		c->login->rule = NULL;
		CHECK(auth_rule_text(c, text, sizeof(text)));
		CHECK_TEXT(text, "no line of hba fits: tls=no replication=no");
		c->login->rule = real;
	}
	whole_close();
	login_open(WHOLE_INI("", ""), "");
	house_connect(&whole);
	CHECK(!auth_rule_text(whole_last_client(), text, sizeof(text)));
	whole_close();
}

/* ---- peer ---- */

/* A client over a Unix socket. */
static const char *told_to_process(const char *user, const char *database)
{
	const char *const pairs[] = { "user", user, "database", database };
	struct house_end *end = login_connect_unix();
	struct bytes out = BYTES_EMPTY;

	pg_build_startup(&out, 3u << 16, pairs, 4);
	login_send(end, &out);
	return login_told(end);
}

TEST(peer_authentication)
{
	const struct passwd *own = getpwuid(geteuid());
	char users[400], mapped[100];

	REQUIRE(own);
	snprintf(mapped, sizeof(mapped), "%.90sx", own->pw_name);
	snprintf(users, sizeof(users), "\"%.90s\" \"\"\n\"%s\" \"\"\n\"v\" \"\"\n", own->pw_name, mapped);
	login_open(PEER_INI, users);
	CHECK(login_is_welcome(told_to_process(own->pw_name, "d")));
	CHECK_TEXT(told_to_process("v", "d"), "E(28000 unix socket login rejected)");
	/* over TCP the line does not match */
	CHECK_TEXT(told_to(own->pw_name, "d"), NO_METHOD);
	whole_close();
	/* a user that the operating system identifies must also be a known user */
	login_open(PEER_INI, "\"v\" \"\"\n");
	CHECK_TEXT(told_to_process(own->pw_name, "d"), "E(28000 unix socket login rejected)");
	whole_close();
}

/* ---- certificates ---- */

/* A client over TLS with or without a certificate. */
static const char *told_to_secured(bool shows, const char *user)
{
	static struct secure_options options[2] = {
		{ .side = SECURE_CONNECTS, .has_alpn = true }, { .side = SECURE_CONNECTS, .has_alpn = true, .shows_certificate = true },
	};
	const char *const pairs[] = { "user", user, "database", "d" };
	struct house_end *end = house_connect(&whole);
	struct bytes out = BYTES_EMPTY;

	house_secure(&whole, end, &options[shows]);
	pg_build_startup(&out, 3u << 16, pairs, 4);
	login_send(end, &out);
	return login_told(end);
}

#define CERT_REFUSED "E(28000 certificate authentication failed)"

TEST(certificate_authentication)
{
	login_open(CERT_INI, USERS "\"127.0.0.1\" \"\"\n");
	CHECK(login_is_welcome(told_to_secured(true, "127.0.0.1")));
	CHECK(login_is_welcome(told_to_secured(true, "v")));
	/* the certificate has another name */
	CHECK_TEXT(told_to_secured(true, "w"), CERT_REFUSED);
	CHECK_TEXT(told_to_secured(true, "x"), CERT_REFUSED);
	/* without TLS, no line matches */
	CHECK_TEXT(told_to("v", "d"), "E(28000 SSL required)");
	whole_close();
	/* a user that the certificate identifies must also be a known user */
	login_open(CERT_INI, USERS);
	CHECK_TEXT(told_to_secured(true, "127.0.0.1"), CERT_REFUSED);
	whole_close();
	login_open(CLEAR_CERT_INI, USERS);
	CHECK(login_is_welcome(told_to_secured(false, "v")));
	CHECK_TEXT(told_to("v", "d"), NO_METHOD);
	whole_close();
}

UNIT_MAIN
