/*
 * The results of a handshake: the peer's certificate, the application protocol, and the bytes that identify the connection for
 * both sides (channel binding).
 *
 * Channel binding tls-server-end-point (RFC 5929 section 4.1) is a hash of the accepting side's certificate. The hash function
 * is the one of the certificate's signature, with SHA-256 in place of MD5 and SHA-1. For a signature without a hash function
 * (Ed25519) channel binding is undefined and not offered.
 */
#include "net/tls.h"

#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>

static bool first_common_name(X509 *certificate, char *buf, size_t size)
{
	X509_NAME *subject = X509_get_subject_name(certificate);
	int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1), length;
	unsigned char *text = NULL;
	bool ok;

	if (at < 0)
		return false;
	length = ASN1_STRING_to_UTF8(&text, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)));
	ok = length >= 0 && (size_t)length < size && !memchr(text, '\0', (size_t)length);
	if (ok) {
		memcpy(buf, text, (size_t)length);
		buf[length] = '\0';
	}
	OPENSSL_free(text);
	return ok;
}

bool tls_peer_common_name(SSL *ssl, char *buf, size_t size)
{
	X509 *certificate = SSL_get1_peer_certificate(ssl);
	bool ok = certificate && first_common_name(certificate, buf, size);

	X509_free(certificate);
	return ok;
}

bool tls_peer_is_verified(const SSL *ssl)
{
	X509 *certificate = SSL_get1_peer_certificate(ssl);

	X509_free(certificate);
	return certificate != NULL && SSL_get_verify_result(ssl) == X509_V_OK;
}

enum tls_alpn tls_agreed_alpn(const SSL *ssl)
{
	static const char wanted[] = TLS_ALPN;
	const unsigned char *agreed;
	unsigned size;

	SSL_get0_alpn_selected(ssl, &agreed, &size);
	if (size == 0)
		return TLS_ALPN_NONE;
	return size == sizeof wanted - 1 && memcmp(agreed, wanted, size) == 0 ? TLS_ALPN_POSTGRESQL : TLS_ALPN_OTHER;
}

const char *tls_agreed_text(SSL *ssl, char *buf, size_t size)
{
	EVP_PKEY *shared = NULL;
	char group[64] = "";
	size_t length;
	bool is_curve = SSL_get_peer_tmp_key(ssl, &shared) == 1 && !EVP_PKEY_is_a(shared, "DH") &&
			EVP_PKEY_get_group_name(shared, group, sizeof(group), &length) == 1;

	/* X25519 and X448 are both the type of the key and its only group */
	if (shared && !is_curve && !EVP_PKEY_is_a(shared, "DH"))
		snprintf(group, sizeof(group), "%s", EVP_PKEY_get0_type_name(shared));
	snprintf(buf, size, "%s/%s%s%s", SSL_get_version(ssl), SSL_get_cipher_name(ssl), *group ? "/ECDH=" : "", group);
	EVP_PKEY_free(shared);
	ERR_clear_error();
	return buf;
}

/* Returns the hash function of RFC 5929 for this certificate, or NULL. */
static const EVP_MD *end_point_digest(X509 *certificate)
{
	const EVP_MD *found;
	int digest;

	if (X509_get_signature_info(certificate, &digest, NULL, NULL, NULL) != 1 || digest == NID_undef)
		return NULL;
	if (digest == NID_md5 || digest == NID_sha1 || digest == NID_md5_sha1)
		digest = NID_sha256;
	found = EVP_get_digestbynid(digest);
	return found && EVP_MD_get_size(found) <= TLS_END_POINT_MOST ? found : NULL;
}

bool tls_server_end_point(SSL *ssl, uint8_t hash[TLS_END_POINT_MOST], size_t *size)
{
	X509 *peers = SSL_is_server(ssl) ? NULL : SSL_get1_peer_certificate(ssl);
	X509 *certificate = SSL_is_server(ssl) ? SSL_get_certificate(ssl) : peers;
	const EVP_MD *digest = certificate ? end_point_digest(certificate) : NULL;
	unsigned length = 0;
	bool ok = digest && X509_digest(certificate, digest, hash, &length) == 1;

	*size = length;
	X509_free(peers);
	ERR_clear_error();
	return ok;
}
