/*
 * Results of a handshake: ALPN, required or not, and the certificate hash for channel binding, equal at both ends. Also handshakes whose first bytes
 * were read before TLS was detected.
 */
#include "ends.h"

#include "certs.h"
#include "net/tls_context.h"

static struct end a, b;			/* a connects, b accepts */
static struct tls_context *connecting, *accepting;
static char why[300];

static bool make_contexts(const struct cert *own, const char *protocols)
{
	struct tls_config in = { .server_side = true, .cert_file = own->cert_file, .key_file = own->key_file,
				 .protocols = protocols, .ciphers = "DEFAULT:@SECLEVEL=0" };
	struct tls_config out = { .protocols = protocols, .ciphers = "DEFAULT:@SECLEVEL=0" };

	accepting = tls_context_new(&in, NULL, why, sizeof why);
	connecting = tls_context_new(&out, NULL, why, sizeof why);
	return accepting && connecting && two_ends(&a, &b, false);
}

static void end(void)
{
	two_ends_close(&a, &b);
	tls_context_drop(&connecting);
	tls_context_drop(&accepting);
}

#define BOTH_FINE (a.problem[0] == '\0' && b.problem[0] == '\0')

/* ---- ALPN ---- */

/* `names` in wire format, with their lengths; "" none. */
static void connect_naming(const char *names)
{
	static const unsigned char none[1];

	if (!stream_secure_connect(&a.stream, connecting, "db.test", false, NULL))
		UNIT_FAIL("no memory");
	SSL_set_alpn_protos(a.stream.ssl, *names ? (const unsigned char *)names : none, (unsigned)strlen(names));
}

/* Checks the protocol agreed on at both ends if b accepts any, or has read `most` bytes before and requires ALPN. */
static void check_alpn(const char *names, size_t most, const char *problem, enum tls_alpn agreed)
{
	ssize_t got;

	REQUIRE(make_contexts(&server, ""));
	if (most == 0)
		REQUIRE(stream_secure_accept(&b.stream, accepting, NULL, 0));
	connect_naming(names);
	if (most > 0) {
		UNTIL(b.readable > 0);
		got = stream_read(&b.stream, block, most);
		REQUIRE(got > 0 && (size_t)got <= most);
		REQUIRE(stream_secure_accept(&b.stream, accepting, block, (size_t)got));
		memset(block, 0xff, (size_t)got);
	}
	UNTIL(a.secured && b.secured);
	CHECK_TEXT(b.problem, problem);
	CHECK((*problem != '\0') == (a.problem[0] != '\0'));
	if (*problem == '\0') {
		CHECK_INT(tls_agreed_alpn(a.stream.ssl), agreed);
		CHECK_INT(tls_agreed_alpn(b.stream.ssl), agreed);
		CHECK(SSL_get_rbio(b.stream.ssl) == SSL_get_wbio(b.stream.ssl));
		REQUIRE(stream_write_bytes(&a.stream, "hello", 5));
		b.readable = 0;
		UNTIL(b.readable > 0);
		CHECK_INT(stream_read(&b.stream, block, 100), 5);
		CHECK(memcmp(block, "hello", 5) == 0);
	}
	end();
}

#define PG "\012postgresql"

TEST(alpn_if_optional)
{
	check_alpn(PG, 0, "", TLS_ALPN_POSTGRESQL);
	check_alpn("\002h2" PG, 0, "", TLS_ALPN_POSTGRESQL);
	check_alpn("", 0, "", TLS_ALPN_NONE);
	check_alpn("\002h2", 0, "no application protocol", TLS_ALPN_NONE);
}

TEST(alpn_if_required)
{
	static const size_t sizes[] = { 1, 5, 6, 60, 100000 };

	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		check_alpn(PG, sizes[i], "", TLS_ALPN_POSTGRESQL);
		check_alpn("\002h2" PG, sizes[i], "", TLS_ALPN_POSTGRESQL);
		check_alpn("", sizes[i], "no application protocol", TLS_ALPN_NONE);
		check_alpn("\010postgres", sizes[i], "no application protocol", TLS_ALPN_NONE);
	}
}

/* Selects the first protocol of the client. */
static int agree_on_first(SSL *ssl, const unsigned char **chosen, unsigned char *size, const unsigned char *offered,
			  unsigned offered_size, void *context)
{
	(void)ssl, (void)offered_size, (void)context;
	*size = offered[0];
	*chosen = offered + 1;
	return SSL_TLSEXT_ERR_OK;
}

TEST(alpn_of_another_protocol)
{
	static const char *const others[] = { "\011postgresq", "\013postgresql2", "\012Postgresql" };

	for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
		REQUIRE(make_contexts(&server, ""));
		SSL_CTX_set_alpn_select_cb(accepting->ssl, agree_on_first, NULL);
		REQUIRE(stream_secure_accept(&b.stream, accepting, NULL, 0));
		connect_naming(others[i]);
		UNTIL(a.secured && b.secured);
		CHECK(BOTH_FINE);
		CHECK_INT(tls_agreed_alpn(a.stream.ssl), TLS_ALPN_OTHER);
		end();
	}
}

TEST(begun_handshake_is_closed)
{
	REQUIRE(make_contexts(&server, ""));
	REQUIRE(stream_secure_accept(&b.stream, accepting, "\026\003\001\000\005hello", 10));
	UNTIL(b.secured);
	CHECK(b.problem[0]);
	end();
	REQUIRE(make_contexts(&server, ""));
	REQUIRE(stream_secure_accept(&b.stream, accepting, "\026", 1));
	shutdown(a.stream.fd, SHUT_WR);
	UNTIL(b.secured);
	CHECK_TEXT(b.problem, "the peer closed the connection during the TLS handshake");
	end();
	REQUIRE(make_contexts(&server, ""));
	REQUIRE(stream_secure_accept(&b.stream, accepting, "\026", 1));
	reset(&a.stream);
	UNTIL(b.secured);
	CHECK_TEXT(b.problem, strerror(ECONNRESET));
	end();
	/* closed before its first step */
	REQUIRE(make_contexts(&server, ""));
	REQUIRE(stream_secure_accept(&b.stream, accepting, "\026\003", 2));
	end();
}

/* ---- channel binding ---- */

/* A certificate signed by its own key with this hash; NULL: Ed25519. */
static void sign_by_itself(struct cert *c, const char *file, const EVP_MD *md)
{
	X509_NAME *name;

	snprintf(c->cert_file, sizeof c->cert_file, "%s/%s.crt", certs_dir, file);
	snprintf(c->key_file, sizeof c->key_file, "%s/%s.key", certs_dir, file);
	c->key = md ? EVP_EC_gen("P-256") : EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
	c->x509 = X509_new();
	X509_set_version(c->x509, X509_VERSION_3);
	ASN1_INTEGER_set(X509_get_serialNumber(c->x509), 99);
	X509_gmtime_adj(X509_getm_notBefore(c->x509), -86400L);
	X509_gmtime_adj(X509_getm_notAfter(c->x509), 86400L);
	X509_set_pubkey(c->x509, c->key);
	name = X509_get_subject_name(c->x509);
	X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8, (const unsigned char *)"db.test", -1, -1, 0);
	X509_set_issuer_name(c->x509, name);
	X509_sign(c->x509, c->key, md);
	cert_write(c);
}

/* Checks a connection to a server with this certificate. `hash`: the channel binding hash; NULL: no binding. */
static void check_end_point(const struct cert *own, const EVP_MD *hash, const char *protocols)
{
	uint8_t want[EVP_MAX_MD_SIZE], at_a[TLS_END_POINT_MOST], at_b[TLS_END_POINT_MOST];
	size_t size_a, size_b;
	unsigned size = 0;

	REQUIRE(make_contexts(own, protocols));
	REQUIRE(stream_secure_accept(&b.stream, accepting, NULL, 0));
	REQUIRE(stream_secure_connect(&a.stream, connecting, "db.test", false, NULL));
	UNTIL(a.secured && b.secured);
	CHECK(BOTH_FINE);
	CHECK_INT(tls_server_end_point(a.stream.ssl, at_a, &size_a), hash != NULL);
	CHECK_INT(tls_server_end_point(b.stream.ssl, at_b, &size_b), hash != NULL);
	if (hash)
		X509_digest(own->x509, hash, want, &size);
	CHECK_INT(size_a, size);
	CHECK_INT(size_b, size);
	CHECK(memcmp(at_a, want, size) == 0 && memcmp(at_b, want, size) == 0);
	end();
}

TEST(end_point_hash_follows_the_signature)
{
	const struct { const EVP_MD *signed_by, *bound_by; } cases[] = {
		{ EVP_sha1(), EVP_sha256() }, { EVP_sha224(), EVP_sha224() }, { EVP_sha256(), EVP_sha256() },
		{ EVP_sha384(), EVP_sha384() }, { EVP_sha512(), EVP_sha512() }, { NULL, NULL },
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct cert own;
		char name[20];

		snprintf(name, sizeof name, "own%zu", i);
		sign_by_itself(&own, name, cases[i].signed_by);
		check_end_point(&own, cases[i].bound_by, "tlsv1.3");
		check_end_point(&own, cases[i].bound_by, "tlsv1.2");
		cert_free(&own);
	}
}

/* The certificate is the one of this connection's context, even if another context is now in use. */
TEST(end_point_of_an_older_connection)
{
	uint8_t first[TLS_END_POINT_MOST], later[TLS_END_POINT_MOST];
	struct tls_context *old;
	size_t size;

	REQUIRE(make_contexts(&server, ""));
	REQUIRE(stream_secure_accept(&b.stream, accepting, NULL, 0));
	old = accepting;
	accepting = NULL;
	tls_context_drop(&old);
	REQUIRE(stream_secure_connect(&a.stream, connecting, "db.test", false, NULL));
	UNTIL(a.secured && b.secured);
	REQUIRE(tls_server_end_point(b.stream.ssl, first, &size));
	REQUIRE(tls_server_end_point(a.stream.ssl, later, &size));
	CHECK(memcmp(first, later, size) == 0);
	end();
}

UNIT_MAIN
