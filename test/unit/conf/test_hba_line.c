/* Invalid lines of an HBA file: the logins that they refuse. */
#include "hba_ends.h"

/* Each case is followed by these lines, which would admit every client. */
#define OPEN "\nhost all,replication all all trust\nlocal all,replication all trust\n"

struct one_case {
	const char *line, *from, *database, *user;
	bool refuses;
};

static void check_cases(const struct one_case *cases, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const struct one_case *c = &cases[i];
		char text[1024];
		int line;

		snprintf(text, sizeof(text), "%s%s", c->line, OPEN);
		line = line_in(text, c->from, c->database, c->user);
		if (c->refuses ? line != -1 : line <= 1)
			UNIT_FAIL("\"%s\" for %s %s/%s: line %d", c->line, c->from, c->database, c->user, line);
		CHECK(problems.errors > 0);
	}
}
#define CHECK_CASES(cases) check_cases(cases, sizeof(cases) / sizeof((cases)[0]))

#define BOB "shop", "bob"
#define ANY "any", "any"

TEST(connection_type)
{
	static const struct one_case cases[] = {
		/* the keyword is unreadable: the line may be the continuation of another line */
		{ "hots shop bob 10.0.0.0/8 reject", "10.0.0.1", BOB, true },
		{ "hots shop bob 10.0.0.0/8 reject", "unix", ANY, true },
		{ "hots shop bob 10.0.0.0/8 reject", "physical tls 11.0.0.1", ANY, true },
		{ "host,local shop bob all reject", "unix", ANY, true },
		{ "   bob 10.0.0.0/8 reject", "10.0.0.1", ANY, true },
		{ "\"host all all all trust", "unix", ANY, true },
		{ "@nosuch all all all trust", "unix", ANY, true },
		{ "HOST all all all trust", "unix", ANY, true },
		/* the database restricts the remaining fields */
		{ "local shop bob md5 nonsense", "10.0.0.1", BOB, false },
		{ "local shop bob md5 nonsense", "unix", BOB, true },
		{ "host shop bob all md5 nonsense", "unix", BOB, false },
		{ "hostssl shop bob all md5 nonsense", "10.0.0.1", BOB, false },
		{ "hostssl shop bob all md5 nonsense", "tls 10.0.0.1", BOB, true },
		{ "hostnossl shop bob all md5 nonsense", "tls 10.0.0.1", BOB, false },
		{ "hostnogssenc shop bob all nonsense", "tls 10.0.0.1", BOB, true },
		{ "hostgssenc all all all nonsense", "tls 10.0.0.1", BOB, false },
		{ "hostgssenc all", "tls 10.0.0.1", BOB, false },
		{ "local", "unix", ANY, true },
		{ "local", "10.0.0.1", ANY, false },
	};

	CHECK_CASES(cases);
}

TEST(databases_and_users)
{
	static const struct one_case cases[] = {
		{ "host shop bob all rejct", "10.0.0.1", BOB, true },
		{ "host shop bob all rejct", "10.0.0.1", "dev", "bob", false },
		{ "host shop bob all rejct", "10.0.0.1", "shop", "eve", false },
		{ "host shop,dev bob,eve all rejct", "10.0.0.1", "dev", "eve", true },
		{ "host sameuser all all rejct", "10.0.0.1", "bob", "bob", true },
		{ "host sameuser all all rejct", "10.0.0.1", BOB, false },
		{ "host replication all all rejct", "physical 10.0.0.1", ANY, true },
		{ "host replication all all rejct", "10.0.0.1", "replication", "x", false },
		{ "host all all all rejct", "physical 10.0.0.1", ANY, false },
		/* an invalid expression may match any name; the other field restricts the line */
		{ "host /( bob all reject", "10.0.0.1", BOB, true },
		{ "host /( bob all reject", "10.0.0.1", "dev", "bob", true },
		{ "host /( bob all reject", "10.0.0.1", "shop", "eve", false },
		{ "host /( bob all reject", "physical 10.0.0.1", BOB, false },
		{ "host shop /(?i)bob all reject", "10.0.0.1", "shop", "eve", true },
		{ "host shop /(?i)bob all reject", "10.0.0.1", "dev", "bob", false },
		{ "host shop eve,/( all reject", "10.0.0.1", BOB, true },
		{ "host replication,/( all all reject", "physical 10.0.0.1", BOB, true },
		/* keywords of PostgreSQL that are not supported */
		{ "host shop +admins 10.0.0.0/8 reject", "10.0.0.1", BOB, true },
		{ "host shop +admins 10.0.0.0/8 reject", "11.0.0.1", BOB, false },
		{ "host shop +admins 10.0.0.0/8 reject", "10.0.0.1", "dev", "bob", false },
		{ "host shop eve,+admins all md5", "10.0.0.1", BOB, true },
		{ "host samerole bob all md5", "10.0.0.1", BOB, true },
		{ "host samegroup bob all md5", "10.0.0.1", "shop", "eve", false },
		{ "host samerole all all md5", "physical 10.0.0.1", BOB, false },
		/* unreadable included files may contain any names */
		{ "host shop @nosuch all reject", "10.0.0.1", "shop", "eve", true },
		{ "host shop @nosuch all reject", "10.0.0.1", "dev", "bob", false },
		{ "host @nosuch bob all reject", "physical 10.0.0.1", "x", "bob", true },
		{ "host @nosuch bob all reject", "10.0.0.1", ANY, false },
		{ "host dev,@nosuch bob all reject", "10.0.0.1", BOB, true },
		{ "host shop @nosuch 10.0.0.0/8 reject", "11.0.0.1", BOB, false },
		{ "host shop eve bob , host1 reject", "10.0.0.1", BOB, true },
		{ "host shop samenet bob reject", "10.0.0.1", BOB, true },
		{ "local shop eve,reject bob", "unix", BOB, true },
		{ "local shop eve reject ,bob", "unix", BOB, true },
		{ "host shop eve 10.0.0.0/8 , bob reject", "10.0.0.1", BOB, true },
		{ "host shop bob_10.0.0.0 255.0.0.0 reject", "10.0.0.1", BOB, true },
		{ "host shop bob_10.0.0.0 192.0.0.0 reject", "10.0.0.1", BOB, true },
		{ "host shop bob_10.0.0.0 0.0.0.0 reject", "10.0.0.1", BOB, true },
		{ "host shop bob 10.0.0.1 reject", "11.0.0.1", BOB, true },
		{ "host shop bob 10.0.0.1 reject", "11.0.0.1", "shop", "eve", false },
		{ "host shop bob 192.168.0.1 reject", "11.0.0.1", "shop", "eve", false },
		/* an unterminated quote: only the connection type applies */
		{ "host shop \"bob 10.0.0.0/8 reject", "11.0.0.1", "shop", "eve", true },
		{ "host shop \"bob 10.0.0.0/8 reject", "10.0.0.1", "dev", "bob", true },
		{ "host sh op\" bob 10.0.0.0/8 reject", "10.0.0.1", "sh op", "bob", true },
		{ "host shop eve,\"bob 10.0.0.0/8 reject", "11.0.0.1", BOB, true },
		{ "host \"shop bob 10.0.0.0/8 reject", "10.0.0.1", ANY, true },
		{ "host \"shop bob 10.0.0.0/8 reject", "unix", ANY, false },
		{ "host shop bob 10.0.0.0/8 \"reject", "10.0.0.1", BOB, true },
		{ "host shop bob 10.0.0.0/8 \"reject", "11.0.0.1", BOB, true },
		{ "host shop bob 10.0.0.0/8 \"reject", "unix", BOB, false },
		{ "local shop bob md5 \"x=y", "unix", "shop", "eve", true },
	};

	CHECK_CASES(cases);
}

TEST(addresses)
{
	static const struct one_case cases[] = {
		{ "host shop bob 10.0.0.0/8 rejct", "10.0.0.1", BOB, true },
		{ "host shop bob 10.0.0.0/8 rejct", "11.0.0.1", BOB, false },
		{ "host shop bob 10.0.0.0 255.0.0.0 rejct", "10.0.0.1", BOB, true },
		{ "host shop bob 10.0.0.0 255.0.0.0 rejct", "11.0.0.1", BOB, false },
		{ "host shop bob 10.0.0.0/8", "10.0.0.1", BOB, true },
		{ "host shop bob 10.0.0.0/8", "11.0.0.1", BOB, true },
		{ "host shop bob 10.0.0.0/8", "10.0.0.1", "shop", "eve", true },
		{ "host shop bob samehost rejct", "10.0.0.1", BOB, false },
		/* an unreadable address may be any address */
		{ "host shop bob 10.0.0.0/33 reject", "11.0.0.1", BOB, true },
		{ "host shop bob 10.0.0.0/33 reject", "11.0.0.1", "shop", "eve", false },
		{ "host shop bob 10.0.0.1 reject", "11.0.0.1", BOB, true },
		{ "host shop bob 10.0.0.1 reject", "11.0.0.1", ANY, false },
		{ "host shop bob 10.0.0.1 255 reject", "11.0.0.1", BOB, true },
		{ "host shop bob 10.0.0.1 255 reject", "11.0.0.1", ANY, false },
		{ "host shop bob 10.0.0.1", "11.0.0.1", BOB, true },
		{ "host shop bob 10.0.0.1", "11.0.0.1", ANY, false },
		{ "host shop bob 10.0.0.1,10.0.0.2 reject", "11.0.0.1", BOB, true },
		{ "host shop bob 10.0.0.1 , 10.0.0.2 reject", "11.0.0.1", ANY, true },
		{ "host shop bob 10.0.0 reject", "11.0.0.1", BOB, true },
		{ "host shop bob 10.0.0 reject", "11.0.0.1", ANY, false },
		{ "host shop bob db.example.com md5", "11.0.0.1", BOB, true },
		{ "host shop bob db.example.com md5", "11.0.0.1", ANY, false },
		{ "host shop bob .example.com gss", "11.0.0.1", BOB, true },
		{ "host shop bob localhost md5", "unix", BOB, false },
		{ "host shop bob @nosuch reject", "11.0.0.1", BOB, true },
		{ "host shop bob @nosuch reject", "11.0.0.1", ANY, false },
	};

	CHECK_CASES(cases);
}

/* A missing or extra field shifts the meaning of the other fields: "local all reject" is not about a user called reject. */
TEST(shifted_fields)
{
	static const struct one_case cases[] = {
		{ "local all reject", "unix", BOB, true },
		{ "local bob reject", "unix", BOB, true },
		{ "local all reject", "10.0.0.1", BOB, false },
		{ "local shop bob eve reject", "unix", "shop", "eve", true },
		{ "local shop dev bob reject", "unix", "dev", "bob", true },
		{ "local shop trust map=x", "unix", BOB, true },
		{ "local shop bob", "unix", ANY, true },
		{ "host all 10.0.0.0/8 reject", "10.0.0.1", BOB, true },
		{ "host all 10.0.0.0 255.0.0.0 reject", "10.0.0.1", BOB, true },
		{ "host all 0.0.0.0 0.0.0.0 reject", "10.0.0.1", BOB, true },
		{ "host 10.0.0.0/8 reject", "10.0.0.1", BOB, true },
		{ "host all 10.0.0.0/8 gss", "10.0.0.1", BOB, true },
		{ "host all 2001:db8:: ffff:ffff:: reject", "10.0.0.1", BOB, true },
		{ "host shop bob eve 10.0.0.0/8 reject", "10.0.0.1", "shop", "eve", true },
		{ "host shop dev bob 10.0.0.0/8 reject", "10.0.0.1", "dev", "bob", true },
		{ "host shop bob eve 10.0.0.1 reject", "10.0.0.1", "shop", "eve", true },
		{ "host shop bob eve all reject", "10.0.0.1", "shop", "eve", true },
		{ "host shop bob all 10.0.0.0/8 reject", "10.0.0.1", "shop", "eve", true },
		{ "host shop bob", "10.0.0.1", ANY, true },
		{ "host shop all reject", "10.0.0.1", ANY, true },
		{ "host shop bob all", "10.0.0.1", ANY, true },
		{ "host shop bob all", "unix", ANY, false },
		{ "host shop bob 10.0.0 255.0.0.0 reject", "10.0.0.1", ANY, true },
		{ "host all 10.0.0.0/8 ldap ldapserver=x", "10.0.0.1", BOB, true },
		/* a line that ends too early: a missing backslash at its end, or a backslash followed by a blank */
		{ "host shop bob,", "10.0.0.1", "shop", "eve", true },
		{ "host shop bob, # eve", "10.0.0.1", "shop", "eve", true },
		{ "host shop#old bob 10.0.0.0/8 reject", "10.0.0.1", ANY, true },
		{ "host shop#old bob 10.0.0.0/8 reject", "unix", ANY, false },
		{ "host shop bob, \\ \n   eve 10.0.0.0/8 reject", "10.0.0.1", "shop", "eve", true },
		{ "host shop,", "10.0.0.1", "dev", "bob", true },
		{ "host shop bob 10.0.0.0/8,", "11.0.0.1", BOB, true },
		/* a mistake in the last words does not shift the other fields */
		{ "local shop bob rejct", "unix", BOB, true },
		{ "local shop bob rejct", "unix", ANY, false },
		{ "local shop bob rejct map=x", "unix", ANY, false },
		{ "host shop bob all rejct", "10.0.0.1", ANY, false },
		{ "host shop bob 10.0.0.0/8 rejct x y", "10.0.0.1", ANY, true },
	};

	CHECK_CASES(cases);
}

TEST(methods_and_options)
{
	static const struct one_case cases[] = {
		{ "host shop bob 10.0.0.0/8 gss include_realm=0", "10.0.0.1", BOB, true },
		{ "host shop bob 10.0.0.0/8 gss", "11.0.0.1", BOB, false },
		{ "host shop bob all ident", "10.0.0.1", BOB, true },
		{ "local shop bob sspi", "unix", BOB, true },
		{ "local shop bob oauth", "unix", ANY, false },
		{ "host shop bob all md5,trust", "10.0.0.1", BOB, true },
		{ "host shop bob all trust clientcert=verify-ca", "10.0.0.1", BOB, true },
		{ "hostssl shop bob all trust clientcert=maybe", "tls 10.0.0.1", BOB, true },
		{ "hostssl shop bob all trust clientcert=maybe", "tls 10.0.0.1", ANY, false },
		{ "host shop bob all trust x", "10.0.0.1", BOB, true },
		{ "host shop bob all ldap ldapserver=l", "10.0.0.1", BOB, true },
		{ "host shop bob all ldap ldapserver=l ldapsuffix=,dc=x", "10.0.0.1", BOB, true },
		{ "host shop bob all pam x=y", "10.0.0.1", ANY, false },
	};

	CHECK_CASES(cases);
}

/* The content of a missing file could match any login, at its place among the other lines. */
TEST(unreadable_included_files)
{
	static const char *const includes[] = {
		"include nosuch", "include_dir nosuch.d", "include", "include a b", "include_if_exists /", "include \"x",
		"include_dir \"\"",
	};
	char text[200];

	for (size_t i = 0; i < sizeof(includes) / sizeof(includes[0]); i++) {
		snprintf(text, sizeof(text), "host shop bob all md5\n%s%s", includes[i], OPEN);
		CHECK_INT(line_in(text, "10.0.0.1", BOB), 1);
		CHECK_INT(line_in(text, "10.0.0.1", ANY), -2);
		CHECK_INT(line_in(text, "unix", ANY), -2);
		CHECK_INT(line_in(text, "physical tls 10.0.0.1", ANY), -2);
	}
	CHECK_INT(line_in("include_if_exists nosuch" OPEN, "10.0.0.1", BOB), 2);
}

TEST(invalid_line_becomes_a_refusing_rule)
{
	struct hba *hba = rules("hostssl shop bob all trust map=x\n", NULL);
	struct hba_client c = client_of("tls 10.0.0.1", BOB);
	const struct hba_rule *rule = hba ? hba_find(hba, &c) : NULL;

	REQUIRE(rule);
	CHECK(rule->is_faulty && rule->line == 1);
	CHECK_INT(rule->method, AUTH_REJECT);
	/* the error; and there is no other line */
	CHECK_INT(problems.count, 2);
	hba_drop(&hba);
}

/* A file of only commas has no lines. */
TEST(a_line_without_fields)
{
	CHECK_INT(line_in(", ,\n" OPEN, "10.0.0.1", BOB), 3);
	CHECK_INT(problems.count, 0);
}

UNIT_MAIN
