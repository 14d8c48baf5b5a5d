/* Certificates that are expensive to read: refused certificates in messages of both TLS versions, and the end of a handshake on both sides. */
#include "net/stream_tls.h"

#include "net/tls_context.h"
#include "secured.h"

#include <openssl/core_names.h>

#define MOST 16

/* ---- messages ---- */

struct message {
	uint8_t data[65536];
	size_t size;
	bool is_13;
};

static void put(struct message *m, size_t value, int width)
{
	while (width-- > 0)
		m->data[m->size++] = (uint8_t)(value >> 8 * width);
}

/* `count` copies of the certificate. */
static void write_der(struct message *m, const uint8_t *der, size_t size, int count, bool is_13)
{
	m->size = 0;
	m->is_13 = is_13;
	if (is_13)
		put(m, 0, 1);
	put(m, (size_t)count * (3 + size + (is_13 ? 2 : 0)), 3);
	for (int i = 0; i < count; i++) {
		put(m, size, 3);
		memcpy(m->data + m->size, der, size);
		m->size += size;
		put(m, 0, is_13 ? 2 : 0);
	}
}

static const char *fault_of(const struct message *m)
{
	return tls_certificates_fault(m->data, m->size, m->is_13);
}

/* Returns the verdict of both versions on `count` copies of this certificate. */
static const char *fault_of_many(X509 *x509, int count)
{
	static struct message m;
	unsigned char *der = NULL;
	int size = i2d_X509(x509, &der);
	const char *fault;

	write_der(&m, der, (size_t)size, count, false);
	fault = fault_of(&m);
	write_der(&m, der, (size_t)size, count, true);
	CHECK(fault_of(&m) == fault);
	OPENSSL_free(der);
	return fault;
}

/* ---- keys ---- */

static EVP_PKEY *curve_key(const char *curve, bool is_explicit, bool is_compressed)
{
	EVP_PKEY *key = EVP_EC_gen(curve);

	if (is_explicit)
		EVP_PKEY_set_utf8_string_param(key, OSSL_PKEY_PARAM_EC_ENCODING, OSSL_PKEY_EC_ENCODING_EXPLICIT);
	if (is_compressed)
		EVP_PKEY_set_utf8_string_param(key, OSSL_PKEY_PARAM_EC_POINT_CONVERSION_FORMAT, "compressed");
	return key;
}

static EVP_PKEY *key_of_kind(const char *kind)
{
	EVP_PKEY_CTX *context = EVP_PKEY_CTX_new_from_name(NULL, kind, NULL);
	EVP_PKEY *key = NULL;

	EVP_PKEY_keygen_init(context);
	EVP_PKEY_generate(context, &key);
	EVP_PKEY_CTX_free(context);
	return key;
}

/* A certificate with this key, signed by our CA. Takes ownership of the key. */
static X509 *certificate_of(EVP_PKEY *key)
{
	X509 *x509 = X509_dup(client.x509);

	X509_set_pubkey(x509, key);
	X509_sign(x509, ca.key, EVP_sha256());
	EVP_PKEY_free(key);
	return x509;
}

static const char *fault_of_key(EVP_PKEY *key)
{
	X509 *x509 = certificate_of(key);
	const char *fault = fault_of_many(x509, 1);

	X509_free(x509);
	return fault;
}

TEST(key_sizes)
{
	static const char *const curves[] = { "P-224", "P-256", "P-384", "P-521", "secp256k1", "brainpoolP256r1" };
	static const char *const kinds[] = { "RSA", "RSA-PSS", "ED25519", "ED448" };

	for (size_t i = 0; i < sizeof curves / sizeof *curves; i++) {
		CHECK(!fault_of_key(curve_key(curves[i], false, false)));
		CHECK_TEXT(fault_of_key(curve_key(curves[i], true, false)), "the key of a certificate has parameters that are not a name");
		CHECK_TEXT(fault_of_key(curve_key(curves[i], false, true)), "the key of a certificate is a point that is not uncompressed");
	}
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
		CHECK(!fault_of_key(key_of_kind(kinds[i])));
}

TEST(number_of_certificates)
{
	CHECK(!fault_of_many(client.x509, 0));
	CHECK(!fault_of_many(client.x509, MOST));
	CHECK_TEXT(fault_of_many(client.x509, MOST + 1), "there are more than 16 certificates");
}

/* ---- malformed messages ---- */

TEST(not_der)
{
	/* an indefinite length, a length beyond the end, a tag other than SEQUENCE */
	static const uint8_t odd[][4] = { { 0x30, 0x80, 0, 0 }, { 0x30, 0x84, 0, 0 }, { 0x30, 3, 0, 0 }, { 0x31, 0, 0, 0 }, { 0x30, 2, 0x30, 0 } };
	struct message m;

	for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
		write_der(&m, odd[i], sizeof odd[i], 1, i % 2);
		CHECK_TEXT(fault_of(&m), "a certificate is not in DER");
	}
}

/* With the message truncated anywhere or any byte changed, no read goes past its bytes; the sanitizer checks. */
TEST(truncated_and_damaged_messages)
{
	static struct message m;
	unsigned char *der = NULL;
	size_t size = (size_t)i2d_X509(client.x509, &der);

	for (int is_13 = 0; is_13 < 2; is_13++) {
		write_der(&m, der, size, 2, is_13);
		for (size_t cut = 0; cut < m.size; cut++) {
			uint8_t *exact = malloc(cut + 1);

			memcpy(exact, m.data, cut);
			tls_certificates_fault(exact, cut, is_13);
			free(exact);
		}
		for (size_t at = 0; at < m.size; at++) {
			m.data[at] ^= 0x80;
			fault_of(&m);
			m.data[at] ^= 0x80;
		}
	}
	OPENSSL_free(der);
}

/* ---- in a handshake ---- */

static void check_refused(const char *version, bool is_client)
{
	struct scene scene = { .name = "db.test", .client = &client, .client_ca = ca.cert_file, .request_client = true, .protocols = version };
	X509 *slow = certificate_of(curve_key("P-256", true, false));
	const struct end *other = is_client ? &b : &a;

	REQUIRE(make_contexts(&scene));
	/* SSL_CTX_add_extra_chain_cert takes ownership */
	SSL_CTX_add_extra_chain_cert((is_client ? connecting : accepting)->ssl, slow);
	REQUIRE(two_ends(&a, &b, false) && stream_secure_accept(&b.stream, accepting, NULL, 0) &&
		stream_secure_connect(&a.stream, connecting, "db.test", false, NULL));
	UNTIL(other->secured);
	CHECK_TEXT(other->problem, "refused: the key of a certificate has parameters that are not a name");
	end();
}

TEST(handshake_ends_at_expensive_certificates)
{
	check_refused("tlsv1.2", true);
	check_refused("tlsv1.3", true);
	check_refused("tlsv1.2", false);
	check_refused("tlsv1.3", false);
}

static void check_taken(const char *version)
{
	const struct scene scene = { .name = "db.test", .client = &client, .client_ca = ca.cert_file, .request_client = true, .protocols = version };

	REQUIRE(begin(&scene, false));
	CHECK(BOTH_FINE);
	CHECK(tls_peer_is_verified(b.stream.ssl));
	end();
}

TEST(ordinary_certificates_are_accepted)
{
	check_taken("tlsv1.2");
	check_taken("tlsv1.3");
}

UNIT_MAIN
