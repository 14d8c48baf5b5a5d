/* Contradictions between settings. */
#include "conf/check.h"

#include "sql_names.h"
#include "tempfile.h"
#include "unit.h"

#include <sys/stat.h>

static struct conf_problems problems;

/* Loads [pgbouncer] followed by these lines (the first of them is line 2). Returns true if the configuration is accepted. */
static bool accepts(const char *lines)
{
	char text[4096];
	struct conf *conf;
	bool result;

	snprintf(text, sizeof(text), "[pgbouncer]\n%s", lines);
	conf_problems_free(&problems);
	conf = conf_load(temp_write("a.ini", text), &problems);
	result = conf != NULL;
	conf_drop(&conf);
	return result;
}

/* Returns true if there was exactly one problem, of that kind and at that line. */
static bool only_problem(int line, bool is_warning, const char *text)
{
	bool is_it = problems.count == 1 && problems.items[0].line == line &&
		     problems.items[0].is_warning == is_warning && strstr(problems.items[0].text, text);

	for (size_t i = 0; !is_it && i < problems.count; i++)
		fprintf(stderr, "  there is: %d: %s\n", problems.items[i].line, problems.items[i].text);
	return is_it;
}
#define CHECK_ERROR(line, text) CHECK(only_problem(line, false, text))
#define CHECK_WARNING(line, text) CHECK(only_problem(line, true, text))

#define TRUST "auth_type = trust\n"

TEST(client_tls_needs_its_files)
{
	static const char files[] = "client_tls_cert_file = /dev/null\nclient_tls_key_file = /dev/null\n" TRUST;
	char text[512];

	CHECK(!accepts(TRUST "client_tls_sslmode = allow\n"));
	CHECK_ERROR(3, "needs \"client_tls_cert_file\"");
	CHECK(!accepts(TRUST "client_tls_cert_file = /dev/null\nclient_tls_sslmode = require\n"));
	CHECK_ERROR(4, "\"client_tls_key_file\"");
	CHECK(!accepts(TRUST "client_tls_key_file = /dev/null\nclient_tls_sslmode = prefer\n"));
	CHECK_ERROR(4, "\"client_tls_cert_file\"");
	snprintf(text, sizeof(text), "%sclient_tls_sslmode = require\n", files);
	CHECK(accepts(text));
	CHECK_INT(problems.count, 0);
	snprintf(text, sizeof(text), "%sclient_tls_sslmode = verify-ca\n", files);
	CHECK(!accepts(text));
	CHECK_ERROR(5, "\"client_tls_ca_file\"");
	snprintf(text, sizeof(text), "%sclient_tls_sslmode = verify-full\nclient_tls_ca_file = /dev/null\n", files);
	CHECK(accepts(text));
	CHECK(accepts(TRUST "client_tls_sslmode = disable\n"));
}

TEST(server_tls_needs_its_files)
{
	/* the CA certificates of the system are sufficient */
	CHECK(accepts(TRUST "server_tls_sslmode = verify-full\n"));
	CHECK_WARNING(3, "\"server_tls_ca_file\" is not set");
	CHECK(accepts(TRUST "server_tls_sslmode = verify-ca\n"));
	CHECK_WARNING(3, "\"server_tls_ca_file\" is not set");
	CHECK(accepts(TRUST "server_tls_sslmode = verify-full\nserver_tls_ca_file = /dev/null\n"));
	CHECK(accepts(TRUST "server_tls_sslmode = require\n"));
	CHECK(!accepts(TRUST "server_tls_cert_file = /dev/null\n"));
	CHECK_ERROR(3, "needs \"server_tls_key_file\"");
	CHECK(accepts(TRUST "server_tls_key_file = /dev/null\n"));
	CHECK_WARNING(3, "\"server_tls_key_file\" has no effect without \"server_tls_cert_file\"");
}

TEST(auth_types_require_their_settings)
{
	CHECK(!accepts("auth_type = cert\n"));
	CHECK_ERROR(2, "verify-full");
	CHECK(!accepts("auth_type = hba\n"));
	CHECK_ERROR(2, "needs \"auth_hba_file\"");
	CHECK(accepts("auth_type = hba\nauth_hba_file = /dev/null\n"));
	CHECK_INT(problems.count, 0);
	CHECK(!accepts("auth_type = ldap\n"));
	CHECK(strstr(problems.items[0].text, "needs \"auth_ldap_options\""));
}

TEST(pam_and_ldap_require_build_support)
{
	static const char ldap[] = "auth_type = ldap\nauth_ldap_options = ldapserver=x ldapprefix=cn=\n";

#ifdef HAVE_LDAP
	CHECK(accepts(ldap));
	CHECK_INT(problems.count, 0);
#else
	CHECK(!accepts(ldap));
	CHECK_ERROR(2, "\"auth_type\" ldap is not available: this pgweir was built without LDAP");
#endif
#ifdef HAVE_PAM
	CHECK(accepts("auth_type = pam\n"));
	CHECK_INT(problems.count, 0);
#else
	CHECK(!accepts("auth_type = pam\n"));
	CHECK_ERROR(2, "\"auth_type\" pam is not available: this pgweir was built without PAM");
#endif
}

TEST(ldap_options_are_parsed)
{
	CHECK(!accepts("auth_type = ldap\nauth_ldap_options = ldapserver=x ldapprefx=y\n"));
	CHECK(strstr(problems.items[0].text, "\"auth_ldap_options\": unknown LDAP option \"ldapprefx\"; did you mean \"ldapprefix\"?"));
	CHECK_INT(problems.items[0].line, 3);
	/* LDAP options that are not used cause a warning, not an error */
	CHECK(accepts(TRUST "auth_ldap_options = ldapprefx=y\n"));
	CHECK_INT(problems.count, 1);
	CHECK(problems.items[0].is_warning);
}

TEST(tracked_parameters_are_names)
{
	char text[1024] = TRUST "track_extra_parameters = p0";

	CHECK(accepts(TRUST "track_extra_parameters = IntervalStyle, my_ext.level ,x1\n"));
	CHECK_INT(problems.count, 0);
	CHECK(accepts(TRUST "track_extra_parameters =\n"));
	CHECK(!accepts(TRUST "track_extra_parameters = a, b;drop, c\n"));
	CHECK_ERROR(3, "\"b;drop\" is no parameter name");
	for (int i = 1; i < 58; i++)
		sprintf(text + strlen(text), ",p%d", i);
	CHECK(accepts(text));
	strcat(text, ",p58");
	CHECK(!accepts(text));
	CHECK_ERROR(3, "59 names are too many: at most 58");
}

TEST(auth_without_any_secrets_is_warned_about)
{
	CHECK(accepts("auth_type = scram-sha-256\n"));
	CHECK_WARNING(2, "\"auth_file\" is not set");
	CHECK(accepts("auth_file = /dev/null\n"));
	CHECK_INT(problems.count, 0);
	CHECK(accepts("auth_user = x\n"));
	CHECK_INT(problems.count, 0);
	CHECK(accepts("[databases]\na = auth_user=x\n"));
	CHECK_INT(problems.count, 0);
}

TEST(auth_query_needs_one_parameter)
{
	CHECK(accepts(TRUST "auth_user = x\nauth_query = select * from s.f()\n"));
	CHECK_WARNING(4, "\"auth_query\" has no $1");
	CHECK(accepts(TRUST "auth_query = select * from s.f($1)\n"));
	CHECK_WARNING(3, "\"auth_query\" has no effect without \"auth_user\"");
	CHECK(accepts(TRUST "[databases]\na = auth_user=x auth_query='select 1, 2'\n"));
	CHECK_WARNING(0, "database \"a\": \"auth_query\" has no $1");
}

TEST(auth_dbname_is_a_database)
{
	CHECK(accepts(TRUST "auth_dbname = b\n[databases]\na = auth_dbname=c\n"));
	CHECK_INT(problems.count, 2);
	CHECK_INT(problems.items[0].line, 3);
	CHECK(strstr(problems.items[0].text, "\"auth_dbname\" names \"b\", which is not in [databases]"));
	CHECK(strstr(problems.items[1].text, "database \"a\": \"auth_dbname\" names \"c\", which"));
	CHECK(accepts(TRUST "auth_dbname = b\n[databases]\n* =\n"));
	CHECK_INT(problems.count, 0);
	CHECK(accepts(TRUST "auth_dbname = b\n[databases]\nb =\na = auth_dbname=a\n"));
	CHECK_INT(problems.count, 0);
}

TEST(names_in_pooler_queries_must_be_schema_qualified)
{
	CHECK(accepts(TRUST "auth_user = x\nauth_query = select a, b from c where d = $1\n"));
	CHECK_WARNING(4, "\"auth_query\" uses \"=\" without a schema: set \"auth_dbname\"");
	CHECK(accepts(TRUST "auth_user = x\nauth_query = select * from f($1)\n"));
	CHECK_WARNING(4, "\"auth_query\" calls \"f\" without a schema, which is found in pg_catalog and the search_path of the role of auth_user only: "
		      "write the schema, as in public.f(...), or set \"auth_search_path\", or");
	CHECK(accepts(TRUST "auth_user = x\nauth_query = select a from b where c = f($1)\n"));
	CHECK_WARNING(4, "\"auth_query\" calls \"f\" without a schema");
	/* found, and the owner of the database may put another one there */
	CHECK(accepts(TRUST "auth_user = x\nauth_search_path = s\nauth_query = select * from f($1)\n"));
	CHECK_WARNING(5, "\"auth_query\" uses \"f\" without a schema: set \"auth_dbname\"");
	CHECK(accepts(TRUST "[databases]\na = auth_user=x auth_query='select * from f($1)'\n"));
	CHECK_WARNING(0, "database \"a\": \"auth_query\" calls \"f\" without a schema");
	CHECK(accepts(TRUST "[databases]\na = auth_user=x auth_search_path=s auth_query='select * from f($1)'\n"));
	CHECK_WARNING(0, "database \"a\": \"auth_query\" uses \"f\" without a schema");
	CHECK(accepts(TRUST "auth_user = x\nauth_dbname = d\nauth_query = select * from f($1)\n[databases]\nd =\n"));
	CHECK_INT(problems.count, 0);
	/* without auth_user, nothing is looked up */
	CHECK(accepts(TRUST "auth_query = select * from f($1)\n"));
	CHECK_WARNING(3, "\"auth_query\" has no effect without \"auth_user\"");
	CHECK(accepts(TRUST "auth_user = x\n"));
	CHECK_INT(problems.count, 0);
	CHECK(accepts(TRUST "[databases]\na = auth_user=x auth_query='select a, b from c where d = $1'\n"));
	CHECK_WARNING(0, "database \"a\": \"auth_query\" uses \"=\" without a schema");
	CHECK(accepts(TRUST "[databases]\na = auth_user=x auth_dbname=b auth_query='select * from f($1)'\nb =\n"));
	CHECK_INT(problems.count, 0);
	CHECK(accepts(TRUST "server_check_query = select now()\n"));
	CHECK_WARNING(3, "\"server_check_query\" uses \"now\" without a schema");
	CHECK(accepts(TRUST "server_reset_query = select pg_advisory_unlock_all()\n"));
	CHECK_WARNING(3, "\"server_reset_query\" uses \"pg_advisory_unlock_all\" without a schema");
	CHECK(accepts(TRUST "[databases]\na = connect_query='select f()'\n"));
	CHECK_WARNING(0, "database \"a\": \"connect_query\" uses \"f\" without a schema");
}

TEST(auth_dbname_cannot_be_the_console)
{
	CHECK(!accepts(TRUST "auth_dbname = pgbouncer\n"));
	CHECK_INT(problems.errors, 1);
	CHECK(strstr(problems.items[0].text, "cannot use the reserved \"pgbouncer\" database as an auth_dbname"));
	CHECK(accepts(TRUST "[databases]\na = auth_dbname=pgweir\n"));
	CHECK_WARNING(0, "database \"a\": \"auth_dbname\" is the console \"pgweir\"");
	CHECK(accepts(TRUST "auth_dbname = postgres\n"));
}

TEST(unix_socket_paths_have_a_maximum_length)
{
	char text[512], dir[200];

	/* "/.s.PGSQL.6432" are 14 bytes, and the kernel takes 107. */
	memset(dir, 'd', sizeof(dir));
	dir[0] = '/';
	dir[93] = '\0';
	snprintf(text, sizeof(text), TRUST "unix_socket_dir = %s\n", dir);
	CHECK(accepts(text));
	dir[93] = 'd';
	dir[94] = '\0';
	snprintf(text, sizeof(text), TRUST "unix_socket_dir = %s\n", dir);
	CHECK(!accepts(text));
	CHECK_ERROR(3, "\"unix_socket_dir\" is too long");
	snprintf(text, sizeof(text), TRUST "[databases]\n* = host=%s\n", dir);
	CHECK(!accepts(text));
	CHECK_ERROR(0, "database \"*\": \"host\" is too long");
	CHECK(accepts(TRUST "unix_socket_dir =\n"));
	CHECK_INT(problems.count, 0);
}

TEST(implausible_sizes)
{
	CHECK(accepts(TRUST "default_pool_size = 5\nmin_pool_size = 6\n"));
	CHECK_WARNING(4, "\"min_pool_size\" 6 is above \"default_pool_size\" 5");
	CHECK(accepts(TRUST "default_pool_size = 0\nmin_pool_size = 6\n"));
	CHECK_INT(problems.count, 0);
	CHECK(accepts(TRUST "[databases]\na = min_pool_size=3 pool_size=2\n"));
	CHECK_WARNING(0, "database \"a\": \"min_pool_size\" 3 is above the pool size 2");
	CHECK(accepts(TRUST "[databases]\n* = min_pool_size=21\n"));
	CHECK_WARNING(0, "above the pool size 20");
	CHECK(accepts(TRUST "[databases]\n* = min_pool_size=21 pool_size=0\n"));
	CHECK_INT(problems.count, 0);
}

TEST(auth_type_any_requires_a_forced_user)
{
	CHECK(accepts("auth_type = any\n[databases]\na = user=x\nb =\nc =\n"));
	CHECK_WARNING(2, "\"b\" has none");
	CHECK(accepts("auth_type = any\n[databases]\na = user=x\n* = host=x\n"));
	CHECK_WARNING(2, "\"*\" has none");
	CHECK(accepts("auth_type = any\n[databases]\na = user=x\n"));
	CHECK_INT(problems.count, 0);
}

TEST(direct_tls_excludes_fallback_to_plaintext)
{
	static const char *const weak[] = { "disable", "allow", "prefer" }, *const strong[] = { "require", "verify-ca" };
	char text[256];

	for (size_t i = 0; i < sizeof(weak) / sizeof(weak[0]); i++) {
		snprintf(text, sizeof(text), TRUST "server_tls_sslnegotiation = direct\nserver_tls_sslmode = %s\n", weak[i]);
		CHECK(!accepts(text));
		CHECK_ERROR(3, "\"server_tls_sslnegotiation\" direct needs \"server_tls_sslmode\" require");
		snprintf(text, sizeof(text), TRUST "server_tls_sslmode = %s\n[databases]\n* = sslnegotiation=direct\n", weak[i]);
		CHECK(!accepts(text));
		CHECK_ERROR(5, "database \"*\": \"sslnegotiation\" direct needs \"server_tls_sslmode\" require");
	}
	for (size_t i = 0; i < sizeof(strong) / sizeof(strong[0]); i++) {
		snprintf(text, sizeof(text), TRUST "server_tls_sslnegotiation = direct\nserver_tls_sslmode = %s\n"
			 "server_tls_ca_file = /dev/null\n[databases]\na = sslnegotiation=direct\n", strong[i]);
		CHECK(accepts(text));
	}
}

TEST(revocation_lists)
{
	CHECK(accepts(TRUST "client_tls_crl_file = /dev/null\n"));
	CHECK_WARNING(3, "\"client_tls_crl_file\" has no effect without \"client_tls_ca_file\"");
	CHECK(accepts(TRUST "server_tls_crl_file = /dev/null\n"));
	CHECK_WARNING(3, "\"server_tls_crl_file\" has no effect while \"server_tls_sslmode\" is neither verify-ca nor verify-full");
	CHECK(!accepts(TRUST "server_tls_crl_file = /nonexistent\nserver_tls_sslmode = verify-ca\nserver_tls_ca_file = /dev/null\n"));
	CHECK_ERROR(3, "failed to load CRL: No such file or directory (\"/nonexistent\")");
}

TEST(tls_of_one_database)
{
	CHECK(accepts(TRUST "server_tls_sslmode = disable\n[databases]\na = host=x sslmode=require sslnegotiation=direct channel_binding=require\n"));
	CHECK(!accepts(TRUST "server_tls_sslmode = require\nserver_tls_sslnegotiation = direct\n[databases]\na = host=x sslmode=prefer\n"));
	CHECK_ERROR(6, "database \"a\": \"sslnegotiation\" direct needs \"sslmode\" require");
	CHECK(!accepts(TRUST "server_tls_sslmode = require\n[databases]\na = host=x sslmode=disable channel_binding=require\n"));
	CHECK_ERROR(0, "database \"a\": \"channel_binding\" require needs TLS, and \"sslmode\" is disable");
	CHECK(!accepts(TRUST "[databases]\na = host=x sslcert=/dev/null\n"));
	CHECK_ERROR(4, "database \"a\": \"sslcert\" and \"sslkey\" need each other");
	CHECK(!accepts(TRUST "[databases]\na =\nb = sslkey=/dev/null\n"));
	CHECK_ERROR(5, "database \"b\": \"sslcert\" and \"sslkey\" need each other");
	CHECK(accepts(TRUST "[databases]\na = host=x sslmode=require sslcrl=/dev/null\n"));
	CHECK_WARNING(4, "database \"a\": \"sslcrl\" has no effect while \"sslmode\" is neither verify-ca nor verify-full");
	CHECK(accepts(TRUST "[databases]\na = host=x sslmode=verify-full\n"));
	CHECK_WARNING(4, "database \"a\": neither \"sslrootcert\" nor \"server_tls_ca_file\" is set");
	CHECK(accepts(TRUST "[databases]\na = host=x sslmode=disable sslrootcert=/dev/null\n"));
	CHECK_WARNING(4, "database \"a\": the files for TLS have no effect while \"sslmode\" is disable");
}

TEST(hosts_with_roles)
{
#define HOSTS(keys) TRUST "[databases]\na =\nb = host=x,y " keys "\n"
	CHECK(!accepts(HOSTS("port=1,2,3")));
	CHECK_ERROR(5, "database \"b\": \"port\" has 3 ports for 2 hosts: write one port for all of them, or one for each");
	CHECK(!accepts(TRUST "[databases]\na = host=x*0,y\n"));
	CHECK_ERROR(4, "database \"a\": the weight of the host \"x\" is not a whole number from 1 to 1000");
	CHECK(!accepts(TRUST "[databases]\na =\nb = host=x,y,x target_session_attrs=primary\n"));
	CHECK_ERROR(5, "database \"b\": the host \"x\" with port 5432 is in the list twice: remove one, and give the other a weight (x*2)");
	CHECK(!accepts(HOSTS("target_session_attrs=master")));
	CHECK(accepts(HOSTS("target_session_attrs=standby reads=auto")));
	CHECK_WARNING(5, "database \"b\": \"reads\" has no effect, because \"target_session_attrs\" sends its clients to standbys already: remove one of them");
	CHECK(accepts(TRUST "[databases]\na =\nb = host=x reads=transaction\n"));
	CHECK_WARNING(5, "database \"b\": \"reads\" has no effect with one host: list the standbys in \"host\", too, or remove \"reads\"");
	/* without a host, Patroni names the standbys */
	CHECK(accepts(TRUST "patroni = http://x:8008\n[databases]\na =\nb = reads=transaction\n"));
	CHECK(problems.count == 0);
	CHECK(accepts(HOSTS("reads=transaction read_functions=f")));
	CHECK_WARNING(5, "database \"b\": \"read_functions\" has no effect without \"reads\" = auto");
	CHECK(accepts(HOSTS("max_lag=1")));
	CHECK_WARNING(5, "database \"b\": \"max_lag\" has no effect without \"target_session_attrs\" or \"reads\"");
	CHECK(accepts(HOSTS("read_your_writes=off")));
	CHECK_WARNING(5, "database \"b\": \"read_your_writes\" has no effect without \"reads\"");
	CHECK(accepts(TRUST "[databases]\na =\nb = host=x*2,y\n"));
	CHECK_WARNING(5, "database \"b\": the weights of hosts have no effect without \"target_session_attrs\" or \"reads\"");
	CHECK(accepts(TRUST "[databases]\na =\nb = host=x*2,y reads=auto load_balance_hosts=disable\n"));
	CHECK_WARNING(5, "database \"b\": the weights of hosts have no effect with this \"load_balance_hosts\": use least, or remove the key");
	CHECK(accepts(HOSTS("reads=auto read_functions=f max_lag=1 read_your_writes=database")));
	CHECK(problems.count == 0);
#undef HOSTS
}

TEST(channel_binding_requires_tls)
{
	CHECK(!accepts(TRUST "server_channel_binding = require\nserver_tls_sslmode = disable\n"));
	CHECK_ERROR(3, "\"server_channel_binding\" require needs TLS, and \"server_tls_sslmode\" is disable");
	CHECK(!accepts(TRUST "server_tls_sslmode = disable\n[databases]\na = host=x channel_binding=require\n"));
	CHECK_ERROR(0, "database \"a\": \"channel_binding\" require needs TLS, and \"server_tls_sslmode\" is disable");
	CHECK(!accepts(TRUST "[databases]\n* = channel_binding=require\n"));
	CHECK_ERROR(0, "database \"*\": \"channel_binding\" require needs TLS, and a Unix socket has none");
	CHECK(!accepts(TRUST "server_channel_binding = require\n[databases]\na = host=/run\n"));
	CHECK_ERROR(0, "a Unix socket has none");
	CHECK(accepts(TRUST "server_channel_binding = require\n[databases]\na = host=x\nb = host=/run channel_binding=prefer\n"));
	CHECK_INT(problems.count, 0);
}

TEST(require_auth_lists_that_cannot_be_satisfied)
{
	static const char *const useless[] = { "gss", "sspi,gss", "!password,!md5,!scram-sha-256,!none" };
	char text[256];

	for (size_t i = 0; i < sizeof(useless) / sizeof(useless[0]); i++) {
		snprintf(text, sizeof(text), TRUST "server_require_auth = %s\n[databases]\na = host=x\nb = require_auth=md5\n",
			 useless[i]);
		CHECK(!accepts(text));
		CHECK_ERROR(0, "database \"a\": \"require_auth\" is \"");
		CHECK(strstr(problems.items[0].text, "but none of these methods is one that pgweir speaks"));
		CHECK_INT(problems.count, 1);
	}
	CHECK(!accepts(TRUST "server_channel_binding = require\n[databases]\na = host=x require_auth=md5\n"));
	CHECK_ERROR(0, "database \"a\": \"require_auth\" is \"md5\", but \"channel_binding\" require needs scram-sha-256");
	CHECK(accepts(TRUST "server_require_auth = !gss,!sspi\n[databases]\na = host=x\n"));
	CHECK_INT(problems.count, 0);
}

TEST(explicitly_allowed_cleartext_passwords)
{
	static const char *const remote[] = { "x", "10.0.0.1", "/run,x", "localhosts", "::2", "x,localhost" };
	static const char *const local[] = { "/run", "localhost", "127.0.0.1", "::1", "127.0.0.1,/run,::1" };
	char text[256];

	for (size_t i = 0; i < sizeof(remote) / sizeof(remote[0]); i++) {
		snprintf(text, sizeof(text), TRUST "[databases]\na = host=%s require_auth=md5,password\n", remote[i]);
		CHECK(accepts(text));
		CHECK_WARNING(0, "database \"a\": \"require_auth\" names password, and \"server_tls_sslmode\" is not");
	}
	for (size_t i = 0; i < sizeof(local) / sizeof(local[0]); i++) {
		snprintf(text, sizeof(text), TRUST "server_require_auth = password\n[databases]\na = host=%s\nb =\n", local[i]);
		CHECK(accepts(text));
		CHECK_INT(problems.count, 0);
	}
	CHECK(accepts(TRUST "server_require_auth = password\nserver_tls_sslmode = verify-full\nserver_tls_ca_file = /dev/null\n"
		      "[databases]\na = host=x\n"));
	CHECK_INT(problems.count, 0);
	CHECK(accepts(TRUST "server_require_auth = !password\n[databases]\na = host=x\n"));
	CHECK_INT(problems.count, 0);
}

TEST(auth_user_logins_that_a_server_could_relay)
{
	static const char *const bound[] = {
		"auth_dbname = a\n", "server_channel_binding = require\nserver_tls_sslmode = verify-full\n",
	};
	char text[512];

	CHECK(accepts(TRUST "auth_user = x\n[databases]\na = host=one\nb = host=two\n"));
	CHECK_WARNING(3, "the servers of \"a\" and \"b\" can pass on logins of \"auth_user\" to one another");
	CHECK(accepts(TRUST "auth_user = x\n[databases]\na = host=127.0.0.1\n* = host=two\n"));
	CHECK_WARNING(3, "\"a\" and \"*\"");
	CHECK(accepts(TRUST "auth_user = x\n[databases]\na = host=one\nb = host=one port=7000\n"));
	CHECK_WARNING(3, "\"a\" and \"b\"");
	CHECK(accepts(TRUST "auth_user = x\n[databases]\na = host=one\nb = host=one\n* = host=one\n") && problems.count == 0);
	CHECK(accepts(TRUST "auth_user = x\n[databases]\na = host=127.0.0.1\nb =\n") && problems.count == 0);
	CHECK(accepts(TRUST "auth_user = x\n[databases]\na = host=one auth_user=y\nb = host=two\n") && problems.count == 0);
	CHECK(accepts(TRUST "auth_user = x\n[databases]\na = host=one auth_dbname=b\nb = host=two\n") && problems.count == 0);
	CHECK(accepts(TRUST "[databases]\na = host=one\nb = host=two\n") && problems.count == 0);
	for (size_t i = 0; i < sizeof(bound) / sizeof(bound[0]); i++) {
		snprintf(text, sizeof(text), TRUST "auth_user = x\n%s[databases]\na = host=one\nb = host=two\n", bound[i]);
		accepts(text);
		for (size_t k = 0; k < problems.count; k++)
			CHECK(!strstr(problems.items[k].text, "auth_user"));
	}
}

TEST(peers_require_peer_id)
{
	CHECK(accepts(TRUST "[peers]\n1 = host=x\n"));
	CHECK_WARNING(0, "\"peer_id\" is 0");
	CHECK(accepts(TRUST "peer_id = 2\n[peers]\n1 = host=x\n"));
	CHECK_INT(problems.count, 0);
}

TEST(tls_files_must_exist_while_tls_is_enabled)
{
	static const char on[] = TRUST "client_tls_sslmode = allow\nclient_tls_key_file = %s\nclient_tls_cert_file = /dev/null\n"
		"client_tls_ca_file = %s\n";
	char text[512];

	snprintf(text, sizeof(text), on, "/nonexistent", "/tmp");
	CHECK(!accepts(text));
	CHECK_INT(problems.errors, 2);
	CHECK_TEXT(problems.items[0].text, "TLS setup failed: failed to load CA: it is a directory (\"/tmp\")");
	CHECK_INT(problems.items[0].line, 6);
	CHECK_TEXT(problems.items[1].text, "TLS setup failed: failed to load private key file \"/nonexistent\": No such file or directory");
	CHECK_INT(problems.items[1].line, 4);
	CHECK(accepts(TRUST "client_tls_sslmode = disable\nclient_tls_cert_file = /nonexistent\n"));
	CHECK_WARNING(4, "\"client_tls_cert_file\" names \"/nonexistent\", which cannot be read");
	CHECK(!problems.items[0].is_about_tls);
	CHECK(!accepts(TRUST "server_tls_ca_file = /nonexistent\n"));
	CHECK(accepts(TRUST "server_tls_sslmode = disable\nserver_tls_cert_file = /nonexistent\n"));
}

TEST(required_files_must_exist)
{
	static const char *const names[] = {
		"auth_file", "auth_hba_file", "auth_ident_file", "resolv_conf",
	};
	char text[256];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(text, sizeof(text), TRUST "%s = /nonexistent/file\n", names[i]);
		CHECK(!accepts(text));
		CHECK_INT(problems.items[0].line, 3);
		CHECK(strstr(problems.items[0].text, "which cannot be read: No such file"));
		snprintf(text, sizeof(text), TRUST "%s = /tmp\n", names[i]);
		CHECK(!accepts(text));
		CHECK(strstr(problems.items[0].text, "it is a directory"));
		snprintf(text, sizeof(text), TRUST "%s =\n", names[i]);
		CHECK(accepts(text));
	}
	/* pgweir creates these files and does not read them. */
	CHECK(accepts(TRUST "logfile = /nonexistent/log\npidfile = /nonexistent/pid\n"));
	CHECK_INT(problems.count, 0);
}

TEST(unreadable_file)
{
	char text[256];

	/* Root may read everything, so the check has nothing to find. */
	if (geteuid() == 0)
		return;
	temp_write("users.txt", "");
	chmod(temp_path("users.txt"), 0);
	snprintf(text, sizeof(text), "auth_file = %s\n", temp_path("users.txt"));
	CHECK(!accepts(text));
	CHECK_ERROR(2, "Permission denied");
}

TEST(teardown)
{
	conf_problems_free(&problems);
	CHECK_INT(problems.count, 0);
}

/* Names in SQL texts that a server resolves by search_path. */

/* Returns the found name, or "". */
static const char *found_in(const char *sql)
{
	return unqualified_name("", "server_reset_query", "uses", sql);
}

TEST(operators)
{
	CHECK_TEXT(found_in("SELECT a FROM b WHERE c = $1"), "=");
	CHECK_TEXT(found_in("SELECT a FROM b WHERE c=$1"), "=");
	CHECK_TEXT(found_in("SELECT a||b"), "||");
	CHECK_TEXT(found_in("SELECT -1"), "-");
	CHECK_TEXT(found_in("SELECT 2 * 3"), "*");
	CHECK_TEXT(found_in("SELECT (2) * 3"), "*");
	CHECK_TEXT(found_in("SELECT a <@/* comment */b"), "<@");
	CHECK_TEXT(found_in("SELECT a =-- comment\nb"), "=");
	CHECK_TEXT(found_in("SELECT a OPERATOR(pg_catalog.=) b"), "");
	CHECK_TEXT(found_in("select a operator ( pg_catalog.= ) b"), "");
	CHECK_TEXT(found_in("SELECT a OPERATOR(pg_catalog.=) b, c < d"), "<");
	CHECK_TEXT(found_in("SELECT OPERATOR(pg_catalog."), "");
	CHECK_TEXT(found_in("SELECT OPERATOR"), "");
}

TEST(keywords_for_operators)
{
	CHECK_TEXT(found_in("SELECT a IN (b)"), "IN");
	CHECK_TEXT(found_in("SELECT a LIKE b"), "LIKE");
	CHECK_TEXT(found_in("SELECT a between b and c"), "between");
	CHECK_TEXT(found_in("SELECT nullif(a, b)"), "nullif");
	CHECK_TEXT(found_in("SELECT \"in\""), "");
}

TEST(asterisks)
{
	CHECK_TEXT(found_in("SELECT * FROM a"), "");
	CHECK_TEXT(found_in("SELECT DISTINCT * FROM a"), "");
	CHECK_TEXT(found_in("SELECT a.*, b.* FROM a, b"), "");
	CHECK_TEXT(found_in("SELECT a, * FROM b"), "");
	CHECK_TEXT(found_in("SELECT pg_catalog.count(*) FROM b"), "");
}

TEST(functions)
{
	CHECK_TEXT(found_in("SELECT now()"), "now");
	CHECK_TEXT(found_in("SELECT now /* comment */ ()"), "now");
	CHECK_TEXT(found_in("SELECT * FROM \"User Search\"($1)"), "\"User Search\"");
	CHECK_TEXT(found_in("SELECT pg_catalog.now()"), "");
	CHECK_TEXT(found_in("SELECT pg_catalog . \"now\" ()"), "");
	CHECK_TEXT(found_in("SELECT * FROM s.f($1) AS t(a, b)"), "");
	CHECK_TEXT(found_in("SELECT a::varchar(20), CAST(b AS numeric(3, 1))"), "");
	CHECK_TEXT(found_in("SELECT COALESCE(a, b), CASE WHEN (a) THEN (b) ELSE (c) END WHERE EXISTS (SELECT c)"), "");
	CHECK_TEXT(found_in("SELECT x_($1)"), "x_");
	CHECK_TEXT(found_in("SELECT \xc3\xa4($1)"), "\xc3\xa4");
}

TEST(functions_alone)
{
	static const char lines[] = "auth_user = u\n";

	CHECK_TEXT(unqualified_name(lines, "auth_query", "calls", "SELECT a FROM b WHERE c = f($1)"), "f");
	CHECK_TEXT(unqualified_name(lines, "auth_query", "calls", "SELECT a FROM b WHERE c = $1 AND d IN (e) AND nullif(a, b) = s.f(c)"), "");
}

TEST(texts_without_names)
{
	CHECK_TEXT(found_in(""), "");
	CHECK_TEXT(found_in("DISCARD ALL"), "");
	CHECK_TEXT(found_in("<empty>"), "<");
	CHECK_TEXT(found_in("SET a TO b; RESET c"), "");
	CHECK_TEXT(found_in("SET a = 'b'; set local c = d, e; SELECT f()"), "f");
	CHECK_TEXT(found_in("SET a = 'b"), "");
	CHECK_TEXT(found_in("UPDATE a SET b = 1"), "=");
	CHECK_TEXT(found_in("SELECT 'a = b', E'\\' = f()', $$ = f() $$, $a$ = $$ f() $a$, \"= f()\", $1"), "");
	CHECK_TEXT(found_in("SELECT 'it''s = ', n'=', X'00', b'1'"), "");
	CHECK_TEXT(found_in("-- = f()\nSELECT /* = /* f() */ = */ 1"), "");
	CHECK_TEXT(found_in("SELECT 1.5, 2e5"), "");
	CHECK_TEXT(found_in("SELECT '\\', f()"), "f");
	CHECK_TEXT(found_in("SELECT $1f, $a, f()"), "f");
}

TEST(unterminated_texts)
{
	CHECK_TEXT(found_in("SELECT 'a = "), "");
	CHECK_TEXT(found_in("SELECT E'a\\"), "");
	CHECK_TEXT(found_in("SELECT \"a = "), "");
	CHECK_TEXT(found_in("SELECT $a$ = $b$"), "");
	CHECK_TEXT(found_in("SELECT /* = /* */"), "");
	CHECK_TEXT(found_in("SELECT -- ="), "");
	CHECK_TEXT(found_in("SELECT $"), "");
}

TEST(long_name_is_truncated)
{
	CHECK_INT(strlen(found_in("SELECT f2345678901234567890123456789012345678901234567890123456789012345678901234567890(1)")), 64);
}

TEST(urls_of_patroni)
{
#define SHOP TRUST "[databases]\nshop = host=a target_session_attrs=primary "
	CHECK(accepts("patroni = http://a:8008, http://[::1]:8008\n" SHOP "patroni=http://b:8008,http://c:8008\n"));
	CHECK_INT(problems.count, 0);
	CHECK(accepts(TRUST "patroni = https://a:8008,HTTPS://[::1]:8008\npatroni_user = watch\npatroni_password = hunter2\n"));
	CHECK_INT(problems.count, 0);
	CHECK(!accepts(TRUST "patroni_user = a:b\n"));
	CHECK_ERROR(3, "\"patroni_user\" has a colon");
	CHECK(!accepts(TRUST "patroni = ftp://a:8008\n"));
	CHECK_ERROR(3, "\"ftp://a:8008\" does not begin with http:// or https://");
	CHECK(!accepts(TRUST "patroni = https://a\n"));
	CHECK_ERROR(3, "no port after the host; Patroni's is usually 8008, as in https://a:8008");
	CHECK(!accepts(TRUST "patroni = http://a:8008,http://a:8008\n"));
	CHECK_ERROR(3, "\"http://a:8008\" is in the list twice");
	CHECK(!accepts(SHOP "patroni=a:8008\n"));
	CHECK_ERROR(4, "database \"shop\": \"patroni\": \"a:8008\" does not begin with http://");
	CHECK(!accepts(SHOP "patroni=http://user:hunter2@a:8008\n"));
	CHECK_ERROR(4, "has a user or a password: remove it");
	CHECK(!strstr(problems.items[0].text, "hunter2"));
	CHECK(accepts(TRUST "[databases]\nshop = host=a patroni=http://a:8008\n"));
	CHECK_INT(problems.count, 0);
	CHECK(accepts(TRUST "[databases]\nshop = host=a patroni=http://a:8008 target_session_attrs=any\n"));
	CHECK_WARNING(4, "\"patroni\" has no effect with \"target_session_attrs\" = any");
	CHECK(accepts(TRUST "patroni = http://a:8008\n[databases]\nshop = host=a,b\n"));
	CHECK_WARNING(5, "the setting \"patroni\" has no effect on its list of hosts");
	CHECK(accepts(TRUST "patroni = http://a:8008\n[databases]\nshop = dbname=shop\nother = host=a\n"));
	CHECK_INT(problems.count, 0);
}

UNIT_MAIN
