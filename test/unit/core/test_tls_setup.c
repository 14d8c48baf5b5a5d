/*
 * From settings to TLS contexts: the verification in each sslmode, the settings of each context, and the effect of a change or an error on the
 * contexts in use.
 */
#include "core/tls_setup.h"
#include "net/tls_context.h"

#include "net/certs.h"
#include "tempfile.h"
#include "unit.h"

static struct tls_contexts contexts;
#define to_clients contexts.clients
#define to_servers contexts.servers
static struct conf_problems problems;

/* Sets both contexts up with these lines, which follow the lines required for a TLS server. */
static bool may_keep;

static void setup(const char *lines)
{
	struct conf *conf;
	char text[2048];

	snprintf(text, sizeof(text), "[pgbouncer]\nauth_type = trust\nclient_tls_cert_file = %s\nclient_tls_key_file = %s\n%s",
		 server.cert_file, server.key_file, lines);
	conf_problems_free(&problems);
	conf = conf_load(temp_write("a.ini", text), &problems);
	for (size_t i = 0; i < problems.count; i++)
		UNIT_FAIL("line %d: %s", problems.items[i].line, problems.items[i].text);
	if (conf) {
		struct tls_contexts fresh = { .clients = NULL };

		tls_contexts_make(&fresh, &contexts, conf, may_keep, &problems);
		tls_contexts_drop(&contexts);
		contexts = fresh;
	}
	conf_drop(&conf);
}

static void teardown(void)
{
	tls_contexts_drop(&contexts);
	conf_problems_free(&problems);
}

static const char *verification(const struct tls_context *context)
{
	int mode = context ? SSL_CTX_get_verify_mode(context->ssl) : -1;

	if (mode < 0)
		return "no TLS";
	if (mode == SSL_VERIFY_NONE)
		return "not asked";
	return mode & SSL_VERIFY_FAIL_IF_NO_PEER_CERT ? "demanded" : "checked if shown";
}

/* Returns how a client certificate is verified in this sslmode, with and without a CA file. */
static const char *of_client(const char *sslmode)
{
	static char said[64];
	char lines[512];
	int size = snprintf(lines, sizeof(lines), "client_tls_sslmode = %s\n", sslmode);

	said[0] = '\0';
	if (strncmp(sslmode, "verify", 6) != 0) {
		setup(lines);
		snprintf(said, sizeof(said), "%s; ", verification(to_clients));
		teardown();
	}
	snprintf(lines + size, sizeof(lines) - (size_t)size, "client_tls_ca_file = %s\n", ca.cert_file);
	setup(lines);
	strcat(said, verification(to_clients));
	teardown();
	return said;
}

TEST(modes_towards_clients)
{
	CHECK_PAIRS(of_client,
		{ "disable", "no TLS; no TLS" },
		{ "allow", "not asked; checked if shown" },
		{ "prefer", "not asked; checked if shown" },
		{ "require", "not asked; checked if shown" },
		{ "verify-ca", "demanded" },
		{ "verify-full", "demanded" });
}

/* Returns how a server certificate is verified in this sslmode; a CA file by itself changes nothing. */
static const char *of_server(const char *sslmode)
{
	static char said[32];
	char lines[512];

	snprintf(lines, sizeof(lines), "server_tls_sslmode = %s\nserver_tls_ca_file = %s\n", sslmode, ca.cert_file);
	setup(lines);
	snprintf(said, sizeof(said), "%s", verification(to_servers));
	teardown();
	return said;
}

TEST(modes_towards_servers)
{
	CHECK_PAIRS(of_server,
		{ "disable", "no TLS" },
		{ "allow", "not asked" },
		{ "prefer", "not asked" },
		{ "require", "not asked" },
		{ "verify-ca", "demanded" },
		{ "verify-full", "demanded" });
}

TEST(each_side_has_its_own_settings)
{
	SSL_CTX *clients, *servers;
	char lines[1024];

	snprintf(lines, sizeof(lines), "client_tls_sslmode = require\nclient_tls_protocols = tlsv1.3\n"
		 "server_tls_sslmode = require\nserver_tls_protocols = tlsv1.2\nserver_tls_ciphers = ECDHE-ECDSA-AES128-GCM-SHA256\n"
		 "server_tls_cert_file = %s\nserver_tls_key_file = %s\n", client.cert_file, client.key_file);
	setup(lines);
	REQUIRE(to_clients && to_servers);
	clients = to_clients->ssl;
	servers = to_servers->ssl;
	CHECK_INT(SSL_CTX_get_min_proto_version(clients), TLS1_3_VERSION);
	CHECK_INT(SSL_CTX_get_max_proto_version(servers), TLS1_2_VERSION);
	CHECK(X509_cmp(SSL_CTX_get0_certificate(clients), server.x509) == 0);
	CHECK(X509_cmp(SSL_CTX_get0_certificate(servers), client.x509) == 0);
	/* the three ciphers of TLS 1.3 precede every list */
	CHECK_INT(sk_SSL_CIPHER_num(SSL_CTX_get_ciphers(servers)), 4);
	CHECK(sk_SSL_CIPHER_num(SSL_CTX_get_ciphers(clients)) > 4);
	teardown();
}

TEST(unchanged_contexts_are_kept)
{
	struct tls_context *clients, *servers;

	setup("client_tls_sslmode = allow\nserver_tls_sslmode = prefer\n");
	clients = to_clients;
	servers = to_servers;
	REQUIRE(clients && servers);
	/* These modes differ in the use of the context, not in the context. */
	setup("client_tls_sslmode = require\nserver_tls_sslmode = require\n");
	CHECK(to_clients == clients && to_servers == servers);
	tls_context_hold(clients);
	setup("client_tls_sslmode = require\nclient_tls_protocols = tlsv1.3\nserver_tls_sslmode = require\n");
	CHECK(to_clients != clients && to_servers == servers);
	/* A connection that began with the old context keeps it. */
	CHECK_INT(SSL_CTX_get_min_proto_version(clients->ssl), TLS1_2_VERSION);
	tls_context_drop(&clients);
	setup("client_tls_sslmode = disable\nserver_tls_sslmode = require\n");
	CHECK(!to_clients && to_servers == servers);
	teardown();
}

TEST(error_keeps_the_old_contexts)
{
	struct tls_context *clients;
	char lines[512];

	setup("client_tls_sslmode = require\nserver_tls_sslmode = disable\n");
	clients = to_clients;
	REQUIRE(clients);
	snprintf(lines, sizeof(lines), "client_tls_sslmode = require\nclient_tls_ca_file = %s\nserver_tls_sslmode = verify-ca\n"
		 "server_tls_ca_file = %s\n", temp_write("garbage", "this is no PEM\n"), temp_path("garbage"));
	setup(lines);
	CHECK(to_clients == clients && !to_servers);
	REQUIRE(problems.count == 2);
	CHECK_INT(problems.errors, 2);
	CHECK(strncmp(problems.items[0].text, "TLS setup failed: failed to load CA: ", 37) == 0 && strstr(problems.items[0].text, "garbage"));
	CHECK(strstr(problems.items[1].text, "TLS with servers") && problems.items[1].is_about_tls);
	/* for a SET of a file setting: existing contexts are kept, and a missing context is an error */
	may_keep = true;
	setup(lines);
	may_keep = false;
	CHECK(to_clients == clients && !to_servers);
	CHECK_INT(problems.errors, 1);
	REQUIRE(problems.count == 2);
	CHECK(problems.items[0].is_warning && problems.items[0].is_about_tls && !problems.items[1].is_warning);
	teardown();
}

static struct tls_context *own(const char *name)
{
	for (size_t i = 0; i < contexts.own_count; i++)
		if (strcmp(contexts.own[i].name, name) == 0)
			return contexts.own[i].context;
	return NULL;
}

TEST(contexts_of_databases)
{
	struct tls_context *a, *b, *servers;
	char lines[2048];

	snprintf(lines, sizeof(lines), "server_tls_sslmode = prefer\n[databases]\na = sslmode=verify-ca sslrootcert=%s\n"
		 "b = sslcert=%s sslkey=%s\nc = host=x\nd = sslmode=disable\ne = sslmode=require\n* = sslmode=verify-full sslrootcert=%s\n",
		 ca.cert_file, client.cert_file, client.key_file, ca.cert_file);
	setup(lines);
	CHECK_INT(contexts.own_count, 5);
	servers = to_servers;
	a = own("a");
	b = own("b");
	REQUIRE(servers && a && b);
	CHECK_TEXT(verification(a), "demanded");
	CHECK_TEXT(verification(b), "not asked");
	CHECK(X509_cmp(SSL_CTX_get0_certificate(b->ssl), client.x509) == 0 && !SSL_CTX_get0_certificate(a->ssl));
	CHECK(!own("c") && !own("d"));
	CHECK_TEXT(verification(own("*")), "demanded");
	setup(lines);
	CHECK(to_servers == servers && own("a") == a && own("b") == b);
	snprintf(lines, sizeof(lines), "server_tls_sslmode = disable\n[databases]\nb = sslcert=%s sslkey=%s sslmode=require\n"
		 "a = sslmode=verify-ca sslrootcert=%s\n* = sslmode=verify-full sslrootcert=%s\n",
		 client.cert_file, client.key_file, ca.cert_file, ca.cert_file);
	setup(lines);
	CHECK(!to_servers && own("a") == a && own("b") == b);
	/* databases with equal values share a context */
	CHECK(contexts.own_count == 3 && own("*") != b);
	/* an error names the line, and the old context stays */
	snprintf(lines, sizeof(lines), "[databases]\na = sslmode=verify-ca sslrootcert=%s\n", temp_write("garbage", "this is no PEM\n"));
	setup(lines);
	CHECK(own("a") == a);
	REQUIRE(problems.count == 1);
	CHECK_INT(problems.items[0].line, 6);
	CHECK(!problems.items[0].is_warning && strstr(problems.items[0].text, "TLS with servers of database \"a\""));
	teardown();
}

UNIT_MAIN
