/* HBA files: the matching line for each client. */
#include "hba_ends.h"


/* Each column of the grammar: text of one line, the client, whether the line matches. */
TEST(lines_match_clients)
{
	static const struct {
		const char *line, *from, *database, *user;
		bool holds;
	} cases[] = {
		/* kinds of connections */
		{ "local all all trust", "unix", "d", "u", true },
		{ "local all all trust", "10.0.0.1", "d", "u", false },
		{ "host all all all trust", "unix", "d", "u", false },
		{ "host all all all trust", "10.0.0.1", "d", "u", true },
		{ "host all all all trust", "tls 10.0.0.1", "d", "u", true },
		{ "hostssl all all all trust", "10.0.0.1", "d", "u", false },
		{ "hostssl all all all trust", "tls 10.0.0.1", "d", "u", true },
		{ "hostnossl all all all trust", "10.0.0.1", "d", "u", true },
		{ "hostnossl all all all trust", "tls 10.0.0.1", "d", "u", false },
		{ "hostgssenc all all all gss include_realm=0", "tls 10.0.0.1", "d", "u", false },
		{ "hostnogssenc all all all trust", "10.0.0.1", "d", "u", true },
		{ "hostnogssenc all all all trust", "tls 10.0.0.1", "d", "u", true },
		/* databases */
		{ "host d all all trust", "10.0.0.1", "d", "u", true },
		{ "host D all all trust", "10.0.0.1", "d", "u", false },
		{ "host a,b,d all all trust", "10.0.0.1", "d", "u", true },
		{ "host a, b, d all all trust", "10.0.0.1", "d", "u", true },
		{ "host a ,b , d all all trust", "10.0.0.1", "d", "u", true },
		{ "host a ,b , d all all trust", "10.0.0.1", "b", "u", true },
		{ "host \"a\" , \"d\" all all trust", "10.0.0.1", "d", "u", true },
		{ "host \"a ,d\" all all trust", "10.0.0.1", "d", "u", false },
		{ "host a \\\n,\\\nd all all trust", "10.0.0.1", "d", "u", true },
		{ "host \"a b\",\"c\"\"d\" all all trust", "10.0.0.1", "a b", "u", true },
		{ "host \"a b\",\"c\"\"d\" all all trust", "10.0.0.1", "c\"d", "u", true },
		{ "host \"all\" all all trust", "10.0.0.1", "d", "u", false },
		{ "host \"all\" all all trust", "10.0.0.1", "all", "u", true },
		{ "host ALL all all trust", "10.0.0.1", "d", "u", false },
		{ "host sameuser all all trust", "10.0.0.1", "u", "u", true },
		{ "host sameuser all all trust", "10.0.0.1", "d", "u", false },
		{ "host \"sameuser\" all all trust", "10.0.0.1", "u", "u", false },
		{ "host replication all all trust", "10.0.0.1", "replication", "u", false },
		{ "host \"replication\" all all trust", "10.0.0.1", "replication", "u", true },
		{ "host /^d[0-9]+$ all all trust", "10.0.0.1", "d12", "u", true },
		{ "host /^d[0-9]+$ all all trust", "10.0.0.1", "xd12", "u", false },
		{ "host \"/^(a,b|c d)$\" all all trust", "10.0.0.1", "a,b", "u", true },
		{ "host x,/^d all all trust", "10.0.0.1", "d12", "u", true },
		{ "host dev all all trust#old", "10.0.0.1", "dev", "u", true },
		/* users */
		{ "host all u all trust", "10.0.0.1", "d", "u", true },
		{ "host all v all trust", "10.0.0.1", "d", "u", false },
		{ "host all v ,u all trust", "10.0.0.1", "d", "u", true },
		{ "host all v , u 10.0.0.0/8 trust", "10.0.0.1", "d", "u", true },
		{ "host all \"v\" , /^u$ ,w 10.0.0.0/8 trust", "10.0.0.1", "d", "u", true },
		{ "host all \"u\",v all trust", "10.0.0.1", "d", "u", true },
		{ "host all \"+u\" all trust", "10.0.0.1", "d", "+u", true },
		{ "host all sameuser all trust", "10.0.0.1", "u", "u", false },
		{ "host all sameuser all trust", "10.0.0.1", "d", "sameuser", true },
		{ "host all replication all trust", "10.0.0.1", "d", "replication", true },
		{ "host all /^app_ all trust", "10.0.0.1", "d", "app_1", true },
		{ "host all /^app_ all trust", "10.0.0.1", "d", "my_app_1", false },
		{ "host all / all trust", "10.0.0.1", "d", "u", true },
		/* addresses */
		{ "host all all 10.0.0.0/8 trust", "10.255.0.1", "d", "u", true },
		{ "host all all 10.0.0.0/8 trust", "11.0.0.1", "d", "u", false },
		{ "host all all 10.1.2.3/8 trust", "10.255.0.1", "d", "u", true },
		{ "host all all 10.0.0.0/9 trust", "10.127.0.1", "d", "u", true },
		{ "host all all 10.0.0.0/9 trust", "10.128.0.1", "d", "u", false },
		{ "host all all 10.0.0.1/32 trust", "10.0.0.1", "d", "u", true },
		{ "host all all 10.0.0.1/32 trust", "10.0.0.2", "d", "u", false },
		{ "host all all 0.0.0.0/0 trust", "10.0.0.1", "d", "u", true },
		{ "host all all 0.0.0.0/0 trust", "fe80::1", "d", "u", false },
		{ "host all all 10.0.0.0 255.0.0.0 trust", "10.9.0.1", "d", "u", true },
		{ "host all all 10.0.0.0 255.0.0.0 trust", "12.9.0.1", "d", "u", false },
		{ "host all all 10.0.0.7 255.0.0.255 trust", "10.9.9.7", "d", "u", true },
		{ "host all all 10.0.0.7 255.0.0.255 trust", "10.9.9.8", "d", "u", false },
		{ "host all all ::1/128 trust", "::1", "d", "u", true },
		{ "host all all ::1/128 trust", "::2", "d", "u", false },
		{ "host all all ::0/0 trust", "2001:db8::1", "d", "u", true },
		{ "host all all ::0/0 trust", "10.0.0.1", "d", "u", false },
		{ "host all all fe80::%lo/10 trust", "fe80::77", "d", "u", true },
		{ "host all all 2001:db8:: ffff:ffff:: trust", "2001:db8:7::1", "d", "u", true },
		{ "host all all 2001:db8:: ffff:ffff:: trust", "2001:db9:7::1", "d", "u", false },
		{ "host all all 2001:db8::/33 trust", "2001:db8:7fff::1", "d", "u", true },
		{ "host all all 2001:db8::/33 trust", "2001:db8:8000::1", "d", "u", false },
		/* IPv4 over an IPv6 socket */
		{ "host all all 10.0.0.0/8 trust", "::ffff:10.1.1.1", "d", "u", true },
		{ "host all all 10.0.0.0/8 trust", "::ffff:11.1.1.1", "d", "u", false },
		{ "host all all 10.0.0.0/8 trust", "::10.1.1.1", "d", "u", false },
		{ "host all all ::/0 trust", "::ffff:10.1.1.1", "d", "u", true },
		{ "host all all ::ffff:10.0.0.0/104 trust", "10.1.1.1", "d", "u", true },
		{ "host all all ::ffff:10.0.0.0/104 trust", "::ffff:10.1.1.1", "d", "u", true },
		{ "host all all ::ffff:10.0.0.0/104 trust", "::ffff:11.1.1.1", "d", "u", false },
		{ "host all all ::ffff:0:0/90 trust", "10.1.1.1", "d", "u", false },
		/* white space and comments around the line */
		{ "  host\tall  all\vall trust  # comment", "10.0.0.1", "d", "u", true },
		{ "host all all all trust\r", "10.0.0.1", "d", "u", true },
		{ "host all \\\nall \\\nall trust", "10.0.0.1", "d", "u", true },
		{ "host all all \\\r\nall trust\r\n", "10.0.0.1", "d", "u", true },
		{ "# host all \\\nall all trust", "10.0.0.1", "d", "u", false },
		{ "\xef\xbb\xbfhost all all all trust", "10.0.0.1", "d", "u", true },
		{ "host all all all trust\\", "10.0.0.1", "d", "u", true },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int line = line_in(cases[i].line, cases[i].from, cases[i].database, cases[i].user);

		if (line != (cases[i].holds ? 1 : 0) && !(line > 1 && !cases[i].holds))
			UNIT_FAIL("\"%s\" for %s %s/%s: line %d", cases[i].line, cases[i].from, cases[i].database, cases[i].user, line);
	}
}

TEST(invalid_lines)
{
	CHECK(is_refused("hosts all all all trust", "\"hosts\" is no kind of connection"));
	CHECK(is_refused("host,local all all all trust", "no kind of connection"));
	CHECK(is_refused("local", "ends before the databases"));
	CHECK(is_refused("local all", "ends before the users"));
	CHECK(is_refused("local all all", "ends before the method"));
	CHECK(is_refused("host all all", "ends before the address"));
	CHECK(is_refused("host all all all", "ends before the method"));
	CHECK(is_refused("host all all 10.0.0.1", "ends before the mask"));
	CHECK(is_refused("host all all 10.0.0.1 trust", "mask of the same kind"));
	CHECK(is_refused("host all all 10.0.0.1 ffff:: trust", "mask of the same kind"));
	CHECK(is_refused("host all all 10.0.0.1,10.0.0.2 trust", "only one address"));
	CHECK(is_refused("host all all 10.0.0.1/33 trust", "no valid length"));
	CHECK(is_refused("host all all 10.0.0.1/ trust", "no valid length"));
	CHECK(is_refused("host all all 10.0.0.1/-1 trust", "no valid length"));
	CHECK(is_refused("host all all 10.0.0.1/8/8 trust", "no valid length"));
	CHECK(is_refused("host all all 10.0.0.1/99999999999999999999 trust", "no valid length"));
	CHECK(is_refused("host all all ::1/129 trust", "no valid length"));
	CHECK(is_refused("host all all 10.0.0/8 trust", "no IPv4 or IPv6 address"));
	CHECK(is_refused("host all all db.example.com trust", "host names are not supported"));
	CHECK(is_refused("host all all .example.com trust", "host names are not supported"));
	CHECK(is_refused("host all all \"all\" trust", "no IPv4 or IPv6 address"));
	CHECK(is_refused("host all +admins all trust", "\"+admins\" is not supported"));
	CHECK(is_refused("host samerole all all trust", "\"samerole\" is not supported"));
	CHECK(is_refused("host samegroup all all trust", "\"samegroup\" is not supported"));
	CHECK(is_refused("host all all all gss", "the method \"gss\" is not supported"));
	CHECK(is_refused("host all all all ident", "the method \"ident\" is not supported"));
	CHECK(is_refused("host all all all rejct", "\"rejct\" is no method"));
	CHECK(is_refused("host all all all trust,md5", "only one method"));
	CHECK(is_refused("host all all all trust md5", "no \"=\""));
	CHECK(is_refused("host all all all md5 map=x", "\"map\" is no option of md5"));
	CHECK(is_refused("host all all all md5 ldapserver=x", "\"ldapserver\" is no option of md5"));
	CHECK(is_refused("host all all all ldap ldapservr=x", "ldapservr"));
	CHECK(is_refused("host all all all ldap", "is missing"));
	CHECK(is_refused("host all all all md5 clientcert=verify-ca", "only stand on a hostssl line"));
	CHECK(is_refused("hostssl all all all md5 clientcert=maybe", "verify-ca or verify-full"));
	CHECK(is_refused("host \"all all all trust", "double quote is not closed"));
	CHECK(is_refused("host /( all all trust", "regular expression"));
	CHECK(is_refused("host all /a{2,1} all trust", "regular expression"));
	CHECK(is_refused("host all /(?i)x all trust", "regular expression"));
}

TEST(first_matching_line_applies)
{
	static const char text[] = "host all all 10.0.0.9/32 reject\n# comment\n\nhost shop alice 10.0.0.0/8 md5\n"
				   "host shop all 10.0.0.0/8 scram-sha-256\n";

	CHECK_INT(line_in(text, "10.0.0.9", "shop", "alice"), 1);
	CHECK_INT(line_in(text, "10.0.0.8", "shop", "alice"), 4);
	CHECK_INT(line_in(text, "10.0.0.8", "shop", "bob"), 5);
	CHECK_INT(line_in(text, "10.0.0.8", "other", "bob"), 0);
	CHECK_INT(line_in("", "10.0.0.8", "other", "bob"), 0);
}

/* Trap 73: one invalid line must not disable the other lines, nor let them match its clients. */
TEST(valid_lines_around_an_invalid_line_apply)
{
	static const char text[] = "host a all all md5\nhost b all nowhere md5\nhost c,\"d\nhost all all all md5\n";
	struct hba *hba = rules(text, NULL);

	REQUIRE(hba);
	CHECK_INT(problems.errors, 2);
	CHECK_INT(problems.items[0].line, 2);
	CHECK_INT(problems.items[1].line, 3);
	CHECK_INT(line_for(hba, "10.0.0.1", "a", "u"), 1);
	CHECK_INT(line_for(hba, "10.0.0.1", "b", "u"), -2);
	CHECK_INT(line_for(hba, "10.0.0.1", "d", "u"), -3);
	CHECK_INT(line_for(hba, "unix", "d", "u"), 0);
	hba_drop(&hba);
}

/* The HBA file that Debian installs with PostgreSQL 15 must work unchanged. */
TEST(the_file_of_a_debian_package)
{
	static const char text[] =
		"# DO NOT DISABLE!\n"
		"# Database administrative login by Unix domain socket\n"
		"local   all             postgres                                peer\n\n"
		"# TYPE  DATABASE        USER            ADDRESS                 METHOD\n\n"
		"# \"local\" is for Unix domain socket connections only\n"
		"local   all             all                                     peer\n"
		"# IPv4 local connections:\n"
		"host    all             all             127.0.0.1/32            scram-sha-256\n"
		"# IPv6 local connections:\n"
		"host    all             all             ::1/128                 scram-sha-256\n"
		"# Allow replication connections from localhost, by a user with the\n"
		"# replication privilege.\n"
		"local   replication     all                                     peer\n"
		"host    replication     all             127.0.0.1/32            scram-sha-256\n"
		"host    replication     all             ::1/128                 scram-sha-256\n";
	struct hba *hba = rules(text, NULL);

	REQUIRE(hba);
	CHECK_INT(problems.count, 0);
	CHECK_INT(line_for(hba, "unix", "d", "postgres"), 3);
	CHECK_INT(line_for(hba, "unix", "d", "u"), 8);
	CHECK_INT(line_for(hba, "127.0.0.1", "d", "u"), 10);
	CHECK_INT(line_for(hba, "tls ::1", "d", "u"), 12);
	CHECK_INT(line_for(hba, "physical unix", "d", "u"), 15);
	CHECK_INT(line_for(hba, "physical 127.0.0.1", "d", "u"), 16);
	CHECK_INT(line_for(hba, "10.0.0.1", "d", "u"), 0);
	hba_drop(&hba);
}

TEST(methods_and_their_options)
{
	static const struct {
		const char *line;
		enum auth_type method;
	} cases[] = {
		{ "trust", AUTH_TRUST }, { "reject", AUTH_REJECT }, { "md5", AUTH_MD5 }, { "scram-sha-256", AUTH_SCRAM },
		{ "password", AUTH_PLAIN }, { "plain", AUTH_PLAIN }, { "cert", AUTH_CERT }, { "cert map=m", AUTH_CERT },
		{ "\"md5\"", AUTH_MD5 }, { "pam", AUTH_PAM }, { "pam pamservice=weir pam_use_hostname=0", AUTH_PAM },
		{ "ldap ldapserver=l \"ldapprefix=cn= x\" ldapsuffix=\",dc=a,dc=b\"", AUTH_LDAP },
		{ "ldap ldapserver=l,\"ldapprefix=cn= x\", ldapsuffix=\",dc=a,dc=b\" , ldapport=7 ,ldaptls=1", AUTH_LDAP },
		{ "scram-sha-256 clientcert=verify-full", AUTH_SCRAM },
	};
	struct hba_client c = client_of("tls 10.0.0.1", "d", "u");
	const struct hba_rule *rule;
	struct hba *hba;
	char line[200];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(line, sizeof(line), "hostssl all all all %s", cases[i].line);
		hba = rules(line, NULL);
		rule = hba ? hba_find(hba, &c) : NULL;
		CHECK(rule && rule->method == cases[i].method);
		if (rule && strstr(line, "map=")) {
			CHECK_TEXT(rule->map, "m");
			CHECK(strstr(problems.items[0].text, "no map \"m\""));
		} else {
			/* unless this build lacks PAM or LDAP */
			CHECK_INT(problems.count, rule && auth_methods[rule->method].lacks ? 1 : 0);
		}
		if (rule && strstr(line, "pamservice"))
			CHECK_TEXT(rule->pam_service, "weir");
		if (rule && strstr(line, "ldap")) {
			CHECK_TEXT(rule->ldap->servers, "l");
			CHECK_TEXT(rule->ldap->prefix, "cn= x");
			CHECK_TEXT(rule->ldap->suffix, ",dc=a,dc=b");
		}
		if (rule)
			CHECK_INT(rule->certificate, strstr(line, "clientcert") ? HBA_CERTIFICATE_OF_USER : HBA_CERTIFICATE_NONE);
		hba_drop(&hba);
	}
}

TEST(ident_on_a_local_line_is_peer)
{
	struct hba *hba = rules("local all all ident\n", NULL);
	struct hba_client c = client_of("unix", "d", "u");

	REQUIRE(hba && hba_find(hba, &c));
	CHECK_INT(hba_find(hba, &c)->method, AUTH_PEER);
	CHECK_INT(problems.count, 0);
	hba_drop(&hba);
}

/* A valid line that refuses every client still matches: if it were skipped, the next line would match its clients. */
TEST(lines_that_refuse_every_client_match_with_a_warning)
{
	CHECK_INT(line_in("host all all all peer\nhost all all all trust\n", "10.0.0.1", "d", "u"), 1);
	CHECK_INT(problems.count, 1);
	CHECK_INT(problems.errors, 0);
	CHECK_INT(line_in("hostnossl all all all cert\nhost all all all trust\n", "10.0.0.1", "d", "u"), 1);
	CHECK_INT(problems.count, 1);
	CHECK_INT(problems.errors, 0);
	CHECK_INT(line_in("local all all cert\nlocal all all trust\n", "unix", "d", "u"), 1);
	CHECK_INT(problems.errors, 0);
}

/* PgBouncer accepts the line and refuses its logins. */
TEST(ldaps_with_starttls_admits_no_client)
{
	static const char *const lines[] = {
		"host all all all ldap ldapurl=\"ldaps://h/dc=x?uid?sub\" ldaptls=1\nhost all all all trust\n",
		"host all all all ldap ldapserver=h ldapprefix=x ldapscheme=ldaps ldaptls=1\nhost all all all trust\n",
	};

	for (size_t i = 0; i < 2; i++) {
		CHECK_INT(line_in(lines[i], "10.0.0.1", "d", "u"), 1);
		CHECK_INT(problems.errors, 0);
		CHECK(problems.count > 0 && strstr(problems.items[0].text, "lets nobody in: \"ldaptls\""));
	}
}

TEST(hostssl_without_tls_causes_a_warning)
{
	struct hba *hba;

	conf_problems_free(&problems);
	hba = hba_read(temp_write("hba", "hostssl all all all md5\n"), NULL, HBA_TLS_OFF, NULL, &problems);
	REQUIRE(hba && problems.count == 1);
	CHECK(problems.items[0].is_warning && strstr(problems.items[0].text, "client_tls_sslmode"));
	hba_drop(&hba);
}

TEST(certificates_that_are_not_requested_cause_a_warning)
{
	static const char *const lines[] = {
		"host all all all cert\n", "hostssl all all all md5 clientcert=verify-ca\n", "host all all all md5\n",
	};

	for (size_t i = 0; i < 3; i++) {
		struct hba *hba;

		conf_problems_free(&problems);
		hba = hba_read(temp_write("hba", lines[i]), NULL, HBA_TLS_ON, NULL, &problems);
		REQUIRE(hba);
		CHECK_INT(problems.errors, 0);
		CHECK_INT(problems.count, i < 2);
		CHECK(i == 2 || strstr(problems.items[0].text, "client_tls_ca_file"));
		hba_drop(&hba);
	}
}

TEST(physical_replication_needs_the_keyword)
{
	struct hba *hba = rules("host all,d,/. all all md5\nhost \"replication\" all all md5\n"
				"host x,replication r all trust\n", NULL);
	struct hba_client c = client_of("10.0.0.1", "d", "r");

	REQUIRE(hba);
	CHECK_INT(hba_find(hba, &c)->line, 1);
	c.is_physical = true;
	REQUIRE(hba_find(hba, &c));
	CHECK_INT(hba_find(hba, &c)->line, 3);
	c.user = "other";
	CHECK(!hba_find(hba, &c));
	hba_drop(&hba);
}

/* The console is one database with two names: a line that refuses one name refuses the other. */
TEST(database_with_two_names)
{
	struct hba *hba = rules("host pgbouncer all all reject\nhost all all all trust\n", NULL);
	struct hba_client c = client_of("10.0.0.1", "pgweir", "u");

	REQUIRE(hba);
	CHECK_INT(hba_find(hba, &c)->line, 2);
	c.alias = "pgbouncer";
	CHECK_INT(hba_find(hba, &c)->line, 1);
	hba_drop(&hba);
}

static int near_asked;

static enum hba_fit near(const struct hba_client *c, bool whole_net)
{
	near_asked += whole_net ? 10 : 1;
	return c->ip[3] == 1 || (whole_net && c->ip[3] == 2) ? HBA_FITS : HBA_FITS_NOT;
}

static enum hba_fit near_unknown(const struct hba_client *c, bool whole_net)
{
	(void)c;
	(void)whole_net;
	return HBA_FIT_UNKNOWN;
}

TEST(samehost_and_samenet_use_the_interface_addresses)
{
	struct hba *hba = rules("host all all samehost md5\nhost all all samenet md5\n", NULL);
	struct hba_client c = client_of("10.0.0.1", "d", "u");

	REQUIRE(hba);
	CHECK(!hba_find(hba, &c));
	c.is_near = near;
	CHECK_INT(hba_find(hba, &c)->line, 1);
	CHECK_INT(near_asked, 1);
	c.ip[3] = 2;
	CHECK_INT(hba_find(hba, &c)->line, 2);
	c.ip[3] = 3;
	CHECK(!hba_find(hba, &c));
	hba_drop(&hba);
}

/* If the system does not report its addresses, the line refuses the clients that it could match, and no others. */
TEST(samehost_and_samenet_refuse_when_addresses_are_unknown)
{
	struct hba *hba = rules("host all bob samehost md5\nhost d all samenet reject\nhost all all all trust\n", NULL);
	struct hba_client c = client_of("10.0.0.1", "d", "u");
	const struct hba_rule *rule;

	REQUIRE(hba);
	for (int i = 0; i < 2; i++) {
		c.is_near = i ? near_unknown : NULL;
		rule = hba_find(hba, &c);
		REQUIRE(rule && rule->is_unknown);
		CHECK(!rule->is_faulty);
		CHECK_INT(rule->line, 2);
		CHECK_INT(rule->method, AUTH_REJECT);
	}
	c.database = "e";
	rule = hba_find(hba, &c);
	CHECK(rule && !rule->is_unknown && rule->line == 3);
	c.user = "bob";
	rule = hba_find(hba, &c);
	CHECK(rule && rule->is_unknown && rule->line == 1);
	c.ip_size = 0;
	CHECK(!hba_find(hba, &c));
	hba_drop(&hba);
}

/* Whether these files may replace the running rules. */
static bool may_replace(struct hba *running, const char *hba, const char *ident)
{
	const char *hba_path = temp_write("hba", hba), *ident_path = ident ? temp_write("ident", ident) : NULL;
	struct conf_problems found = { .count = 0 };
	struct hba *fresh = hba_read(hba_path, ident_path, HBA_TLS_CERTIFICATES, running, &found);
	bool may = found.errors == 0;

	CHECK(fresh);
	conf_problems_free(&found);
	hba_drop(&fresh);
	CHECK(!fresh);
	hba_drop(&fresh);
	return may;
}

TEST(allowed_replacements_of_rules)
{
	static const char good[] = "host all all all md5\n", bad[] = "host all all all md5\nhost bad\n";
	struct hba *good_runs = rules(good, NULL), *bad_runs = rules(bad, NULL);

	REQUIRE(good_runs && bad_runs);
	CHECK(may_replace(NULL, good, NULL));
	CHECK(may_replace(bad_runs, good, NULL));
	CHECK(!may_replace(NULL, bad, NULL));
	CHECK(!may_replace(good_runs, bad, NULL));
	CHECK(may_replace(bad_runs, "# moved down\n\nhost bad\nhost all all all trust\n", NULL));
	CHECK(!may_replace(bad_runs, "host all all all md5\nhost worse\n", NULL));
	CHECK(!may_replace(bad_runs, "host bad\nhost bad\n", NULL));
	hba_drop(&good_runs);
	hba_drop(&bad_runs);
}

TEST(snapshot_is_freed_with_its_last_reference)
{
	struct hba *hba = rules("host all all all md5\n", NULL), *held = hba_hold(hba);

	hba_drop(&hba);
	CHECK_INT(line_for(held, "10.0.0.1", "d", "u"), 1);
	hba_drop(&held);
}

TEST(missing_file)
{
	conf_problems_free(&problems);
	CHECK(!hba_read("/nonexistent/hba", NULL, HBA_TLS_ON, NULL, &problems));
	CHECK_INT(problems.errors, 1);
	CHECK(strstr(problems.items[0].text, "No such file"));
	conf_problems_free(&problems);
	CHECK(!hba_read(temp_write("hba", ""), "/nonexistent/ident", HBA_TLS_ON, NULL, &problems));
	CHECK_INT(problems.errors, 1);
	conf_problems_free(&problems);
	CHECK(!hba_read("/", NULL, HBA_TLS_ON, NULL, &problems));
	CHECK(strstr(problems.items[0].text, "no regular file"));
}

TEST(empty_file_causes_a_warning)
{
	struct hba *hba = rules("# nothing\n", NULL);

	REQUIRE(hba && problems.count == 1);
	CHECK(problems.items[0].is_warning && strstr(problems.items[0].text, "nobody can log in"));
	hba_drop(&hba);
}

/* Ident files: the database users that a system user or a certificate name may use. */

static bool allows(const char *ident, const char *system_name, const char *user)
{
	struct hba *hba = rules("local all all peer map=m\n", ident);
	bool allowed = hba && hba_map_allows(hba, "m", system_name, user);

	hba_drop(&hba);
	return allowed;
}

TEST(maps_allow_users)
{
	static const struct {
		const char *lines, *system_name, *user;
		bool allowed;
	} cases[] = {
		{ "m bob robert", "bob", "robert", true },
		{ "m bob robert", "bob", "bob", false },
		{ "m bob robert", "Bob", "robert", false },
		{ "m bob robert", "alice", "robert", false },
		{ "n bob robert", "bob", "robert", false },
		{ "M bob robert", "bob", "robert", false },
		{ "m bob a\nm bob b\nm bob c", "bob", "b", true },
		{ "m \"bob smith\" \"a b\"", "bob smith", "a b", true },
		{ "m bob all", "bob", "anybody", true },
		{ "m bob \"all\"", "bob", "anybody", false },
		{ "m bob \"all\"", "bob", "all", true },
		/* `all` is not a system user name */
		{ "m all robert", "bob", "robert", false },
		{ "m /^ robert", "bob", "robert", true },
		{ "m /^b robert", "bob", "robert", true },
		{ "m /^b$ robert", "bob", "robert", false },
		{ "m /^(.*)@example\\.com$ \\1", "bob@example.com", "bob", true },
		{ "m /^(.*)@example\\.com$ \\1", "bob@exampleXcom", "bob", false },
		{ "m /^(.*)@example\\.com$ \\1", "bob@example.com", "alice", false },
		{ "m /^(.*)@x$ db_\\1_rw", "bob@x", "db_bob_rw", true },
		{ "m /^(.*)@x$ db_\\1_rw", "bob@x", "db_bob", false },
		{ "m /^(.*)@x$ db_\\1_rw", "bob@x", "bob_rw", false },
		{ "m /^(.*)@x$ db_\\1", "bob_and_alice@x", "db_bob", false },
		{ "m bob \"+app\"", "bob", "+app", true },
		{ "m /^(.*)@x$ \"\\1 rw\"", "bob@x", "bob rw", true },
		/* only the first \1, as in PostgreSQL */
		{ "m /^(.*)@x$ \\1\\1", "bob@x", "bob\\1", true },
		/* the result of replacing \1 is neither a keyword nor an expression */
		{ "m /^(.*)@x$ \\1", "all@x", "bob", false },
		{ "m /^(.*)@x$ \\1", "all@x", "all", true },
		{ "m /^(.*)@x$ \\1", "/.@x", "bob", false },
		{ "m /^(.*)@x$ \\1", "@x", "", true },
		{ "m /^((a)|b)@x$ \\1", "b@x", "b", true },
		/* the group did not take part in the match */
		{ "m /^(a)?b$ \\1", "b", "", false },
		/* without an expression, \1 has no special meaning */
		{ "m bob \\1", "bob", "\\1", true },
		{ "m bob \\1", "bob", "bob", false },
		{ "m bob /^app_", "bob", "app_1", true },
		{ "m bob /^app_", "bob", "my_app_1", false },
		{ "m /^(.*)$ /^x\\.1", "bob", "x.1", true },
		{ "# m bob robert", "bob", "robert", false },
		{ "m \\\nbob \\\nrobert # all", "bob", "robert", true },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (allows(cases[i].lines, cases[i].system_name, cases[i].user) != cases[i].allowed)
			UNIT_FAIL("\"%s\": \"%s\" as \"%s\" is %s", cases[i].lines, cases[i].system_name, cases[i].user,
				  cases[i].allowed ? "refused" : "allowed");
}

TEST(without_a_map_names_are_equal)
{
	struct hba *hba = rules("local all all peer\n", "m bob robert\n");

	REQUIRE(hba);
	CHECK(hba_map_allows(hba, NULL, "bob", "bob"));
	CHECK(!hba_map_allows(hba, NULL, "bob", "robert"));
	CHECK(!hba_map_allows(hba, NULL, "bob", "Bob"));
	CHECK(!hba_map_allows(hba, "nosuch", "bob", "bob"));
	hba_drop(&hba);
}

static bool is_ident_refused(const char *text, const char *why)
{
	struct hba *hba = rules("local all all peer\n", text);
	bool is_right = hba && problems.errors == 1 && problems.items[0].line == 1 && strstr(problems.items[0].text, why);

	if (!is_right)
		fprintf(stderr, "%s: %zu errors, %s\n", text, problems.errors, problems.count ? problems.items[0].text : "nothing said");
	hba_drop(&hba);
	return is_right;
}

TEST(invalid_ident_lines)
{
	CHECK(is_ident_refused("m", "one of each"));
	CHECK(is_ident_refused("m bob", "one of each"));
	CHECK(is_ident_refused("m bob,alice robert", "one of each"));
	CHECK(is_ident_refused("m bob robert,x", "one of each"));
	CHECK(is_ident_refused("m bob robert x", "nothing behind"));
	CHECK(is_ident_refused("m bob +admins", "\"+admins\" is not supported"));
	CHECK(is_ident_refused("m /( robert", "regular expression"));
	CHECK(is_ident_refused("m bob /(", "regular expression"));
	CHECK(is_ident_refused("m /^b \\1", "it has none"));
	CHECK(is_ident_refused("m /^(.)*b \\1", "a quantifier repeats"));
	CHECK(is_ident_refused("m \"bob robert", "not closed"));
}

/* A map line only allows: an invalid line allows nothing, and the other lines still apply. */
TEST(invalid_line_admits_no_client)
{
	static const char *const bad[] = {
		"m /( robert", "m bob +robert", "m bob \"robert", "m bob robert x", "m bob", "m bob @nosuch",
		"m @nosuch robert", "include nosuch", "m /^(b)+ \\1",
		"m bob /[", "m bob robert,", "m bob",
	};
	char text[200];

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		snprintf(text, sizeof(text), "%s\nm alice carol\n", bad[i]);
		if (i == 10) {
			/* as in PostgreSQL, a comma after the last word is ignored */
			CHECK(allows(text, "bob", "robert"));
			continue;
		}
		CHECK(!allows(text, "bob", "robert") && !allows(text, "bob", "bob") && !allows(text, "bob", "b"));
		CHECK(!allows(text, "bob", "carol") && !allows(text, "alice", "robert"));
		CHECK(allows(text, "alice", "carol"));
	}
}

TEST(problems_of_the_ident_file_are_counted)
{
	static const char line[] = "local all all peer\n", good[] = "m a b\n", bad[] = "m a b\nm\n";
	struct hba *good_runs = rules(line, good), *bad_runs = rules(line, bad);

	REQUIRE(good_runs && bad_runs);
	CHECK(!may_replace(good_runs, line, bad));
	CHECK(may_replace(bad_runs, line, good));
	hba_drop(&good_runs);
	hba_drop(&bad_runs);
}

UNIT_MAIN
