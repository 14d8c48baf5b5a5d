/* TLS contexts: refused settings and their error messages, comparison of contexts, and keywords of the settings. */
#include "net/tls_context.h"

#include "certs.h"
#include "unit.h"

static char why[300];

static struct tls_config accepting(void)
{
	return (struct tls_config){ .server_side = true, .cert_file = server.cert_file, .key_file = server.key_file };
}

static bool makes(const struct tls_config *config)
{
	struct tls_context *context = tls_context_new(config, NULL, why, sizeof why);
	bool made = context != NULL;

	tls_context_drop(&context);
	return made;
}

#define TAKES(...) makes(&(struct tls_config){ .server_side = true, .cert_file = server.cert_file, .key_file = server.key_file, __VA_ARGS__ })

TEST(keywords)
{
	CHECK(TAKES(.protocols = "secure"));
	CHECK(TAKES(.protocols = "all"));
	CHECK(TAKES(.protocols = "legacy"));
	CHECK(TAKES(.protocols = "tlsv1.2, TLSv1.3"));
	CHECK(TAKES(.protocols = "tlsv1.0:tlsv1.3"));
	CHECK(TAKES(.protocols = "all,!tlsv1.0"));
	CHECK(!TAKES(.protocols = "tlsv1.4"));
	CHECK(!TAKES(.protocols = "sslv3"));
	CHECK(!TAKES(.protocols = "secure,!tlsv1.2,!tlsv1.3"));
	CHECK(!TAKES(.protocols = " , "));
	CHECK(TAKES(.ciphers = "default"));
	CHECK(TAKES(.ciphers = "fast"));
	CHECK(TAKES(.ciphers = "all"));
	CHECK(TAKES(.ciphers = "HIGH:!aNULL"));
	CHECK(!TAKES(.ciphers = "no-such-cipher"));
	CHECK(TAKES(.tls13_ciphers = ""));
	CHECK(TAKES(.tls13_ciphers = "TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256"));
	CHECK(!TAKES(.tls13_ciphers = "AES256-SHA"));
	CHECK(TAKES(.ecdh_curve = "auto"));
	CHECK(TAKES(.ecdh_curve = "none"));
	CHECK(TAKES(.ecdh_curve = "prime256v1"));
	CHECK(TAKES(.ecdh_curve = "X25519:secp384r1"));
	CHECK(!TAKES(.ecdh_curve = "nosuchcurve"));
}

TEST(settings_are_applied_to_the_context)
{
	struct tls_config config = accepting();
	struct tls_context *context;
	SSL *ssl;

	config.protocols = "tlsv1.3, tlsv1.1";
	config.ciphers = "ECDHE-ECDSA-AES128-GCM-SHA256";
	context = tls_context_new(&config, NULL, why, sizeof why);
	REQUIRE(context);
	CHECK_INT(SSL_CTX_get_min_proto_version(context->ssl), TLS1_1_VERSION);
	CHECK_INT(SSL_CTX_get_max_proto_version(context->ssl), TLS1_3_VERSION);
	CHECK(SSL_CTX_get_options(context->ssl) & SSL_OP_NO_TLSv1_2);
	CHECK(!(SSL_CTX_get_options(context->ssl) & SSL_OP_NO_TLSv1_3));
	ssl = SSL_new(context->ssl);
	CHECK_TEXT(SSL_get_cipher_list(ssl, 3), "ECDHE-ECDSA-AES128-GCM-SHA256");	/* after the three ciphers of TLS 1.3 */
	CHECK(!SSL_get_cipher_list(ssl, 4));
	SSL_free(ssl);
	tls_context_drop(&context);

	config.protocols = NULL;
	config.ciphers = "default";
	config.ecdh_curve = "none";
	context = tls_context_new(&config, NULL, why, sizeof why);
	REQUIRE(context);
	CHECK_INT(SSL_CTX_get_min_proto_version(context->ssl), TLS1_2_VERSION);
	ssl = SSL_new(context->ssl);
	for (int i = 0; SSL_get_cipher_list(ssl, i); i++)
		CHECK(strncmp(SSL_get_cipher_list(ssl, i), "ECDHE-", 6) != 0);
	SSL_free(ssl);
	tls_context_drop(&context);
}

TEST(error_messages)
{
	struct tls_config config = accepting();
	char garbage[130];
	FILE *file;

	CHECK(makes(&config));
	config.key_file = client.key_file;
	CHECK(!makes(&config));
	CHECK(strstr(why, "key file") && strstr(why, client.key_file) && strstr(why, "mismatch"));
	config.key_file = "/nonexistent.key";
	CHECK(!makes(&config));
	CHECK_TEXT(why, "failed to load private key file \"/nonexistent.key\": No such file or directory");
	config.key_file = NULL;
	CHECK(!makes(&config));
	CHECK(strstr(why, "has no key file"));
	config.cert_file = NULL;
	CHECK(!makes(&config));
	CHECK_TEXT(why, "no certificate file is set");

	config = accepting();
	snprintf(garbage, sizeof garbage, "%s/garbage", certs_dir);
	file = fopen(garbage, "w");
	fputs("this is no PEM\n", file);
	fclose(file);
	config.ca_file = garbage;
	CHECK(!makes(&config));
	CHECK(strstr(why, "failed to load CA: ") && strstr(why, garbage));
	config.ca_file = NULL;
	config.cert_file = garbage;
	CHECK(!makes(&config));
	CHECK(strstr(why, "certificate file") && strstr(why, garbage));

	config = accepting();
	config.protocols = "tlsv9";
	CHECK(!makes(&config));
	CHECK_TEXT(why, "unknown protocols \"tlsv9\"");
	config.protocols = NULL;
	config.dh_params = "big";
	CHECK(!makes(&config));
	CHECK_TEXT(why, "unknown DH parameters \"big\"");
	config.dh_params = "legacy";
	CHECK(makes(&config));
	config.ciphers = "nonsense";
	CHECK(!makes(&config));
	CHECK_TEXT(why, "unknown ciphers \"nonsense\"");
}

TEST(a_key_with_a_passphrase_is_refused_without_a_prompt)
{
	struct tls_config config = accepting();
	char path[130];
	FILE *file;

	snprintf(path, sizeof path, "%s/locked.key", certs_dir);
	file = fopen(path, "w");
	PEM_write_PrivateKey(file, server.key, EVP_aes_128_cbc(), (const unsigned char *)"secret", 6, NULL, NULL);
	fclose(file);
	config.key_file = path;
	CHECK(!makes(&config));
	CHECK(strstr(why, path));
}

/* Whether the configuration needs another context. */
static bool differs(struct tls_context *context, const struct tls_config *config)
{
	struct tls_context *other = tls_context_new(config, context, why, sizeof why);
	bool is_other = other != context;

	tls_context_drop(&other);
	return is_other;
}

TEST(contexts_differ_by_settings_or_file_contents)
{
	struct tls_config config = accepting();
	struct tls_context *context, *held;
	char path[130];
	FILE *file;

	snprintf(path, sizeof path, "%s/changing.crt", certs_dir);
	file = fopen(path, "w");
	PEM_write_X509(file, ca.x509);
	fclose(file);
	config.ca_file = path;
	context = tls_context_new(&config, NULL, why, sizeof why);
	REQUIRE(context);
	CHECK(!differs(context, &config));
	config.protocols = "";
	CHECK(!differs(context, &config));	/* NULL and "" are equal */
	config.protocols = "all";
	CHECK(differs(context, &config));
	config.protocols = NULL;
	config.verify_peer = true;
	CHECK(differs(context, &config));
	config.verify_peer = false;
	config.request_peer = true;
	CHECK(differs(context, &config));
	config.request_peer = false;
	/* Another file name with the same contents is another setting; the same file with other contents differs too, and back again. */
	config.ca_file = ca.cert_file;
	CHECK(differs(context, &config));
	config.ca_file = path;
	file = fopen(path, "w");
	PEM_write_X509(file, other_ca.x509);
	fclose(file);
	CHECK(differs(context, &config));
	unlink(path);
	CHECK(differs(context, &config));
	file = fopen(path, "w");
	PEM_write_X509(file, ca.x509);
	fclose(file);
	CHECK(!differs(context, &config));
	held = tls_context_hold(context);
	tls_context_drop(&context);
	CHECK(!context);
	CHECK(held->ssl);
	tls_context_drop(&held);
	tls_context_drop(&held);
}

TEST(large_ca_bundle_is_not_sent_to_clients)
{
	struct tls_config config = accepting();
	struct tls_context *context;
	char path[130];
	FILE *file;

	config.request_peer = true;
	config.ca_file = ca.cert_file;
	context = tls_context_new(&config, NULL, why, sizeof why);
	REQUIRE(context);
	CHECK_INT(sk_X509_NAME_num(SSL_CTX_get_client_CA_list(context->ssl)), 1);
	tls_context_drop(&context);
	snprintf(path, sizeof path, "%s/bundle.crt", certs_dir);
	file = fopen(path, "w");
	for (int i = 0; i < 101; i++) {
		struct cert one;
		char name[20];

		snprintf(name, sizeof name, "CA %d", i);
		cert_make(&one, "one", name, -1, NULL, NULL, 10);
		PEM_write_X509(file, one.x509);
		cert_free(&one);
	}
	fclose(file);
	config.ca_file = path;
	context = tls_context_new(&config, NULL, why, sizeof why);
	REQUIRE(context);
	CHECK(sk_X509_NAME_num(SSL_CTX_get_client_CA_list(context->ssl)) <= 0);
	tls_context_drop(&context);
}

UNIT_MAIN
