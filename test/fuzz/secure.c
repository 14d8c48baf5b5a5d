/*
 * The target's end of a TLS connection: see secure.h.
 *
 * Contexts are made once, with randomness at its beginning, so that the keys of tickets are the same in each
 * process, whatever came first. Certificate and key are constants for the same reason. Whatever OpenSSL draws
 * here it draws apart from pgweir's draws (sandbox.h), so a byte more or less on this side changes nothing on
 * the other.
 */
#include "secure.h"

#include "fuzz.h"
#include "sandbox.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <stdlib.h>
#include <string.h>

static const char own_key[] =
	"-----BEGIN PRIVATE KEY-----\n"
	"MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgqRrkqII57IXPEO5C\n"
	"N69f04VetfuX0r0hgtglNZ+u5/ShRANCAASatTGrvhKbKlRsN1gXw2ZFJhoJMo0T\n"
	"lNyoYuKYCfCDMGW1DS/MeUPfUejxagYm89syQttgUdzy6t2/tGey66Xe\n"
	"-----END PRIVATE KEY-----\n";
static const char own_certificate[] =
	"-----BEGIN CERTIFICATE-----\n"
	"MIIBPTCB46ADAgECAgEBMAoGCCqGSM49BAMCMBQxEjAQBgNVBAMMCTEyNy4wLjAu\n"
	"MTAgFw0wMDAxMDEwMDAwMDBaGA85OTk5MTIzMTAwMDAwMFowFDESMBAGA1UEAwwJ\n"
	"MTI3LjAuMC4xMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEmrUxq74SmypUbDdY\n"
	"F8NmRSYaCTKNE5TcqGLimAnwgzBltQ0vzHlD31Ho8WoGJvPbMkLbYFHc8urdv7Rn\n"
	"suul3qMkMCIwDwYDVR0TAQH/BAUwAwEB/zAPBgNVHREECDAGhwR/AAABMAoGCCqG\n"
	"SM49BAMCA0kAMEYCIQDzi3yKCJkhlWN70ZtVAAdXBVk4OtWbW/eRt8U3gKzntQIh\n"
	"AIkTiC/cwD4hX3Z6TERTQpMJ63ofQyviVqQpSjfqy+BE\n"
	"-----END CERTIFICATE-----\n";
static const char impostor_key[] =
	"-----BEGIN PRIVATE KEY-----\n"
	"MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgT7VKuE2m4Qi5O3uj\n"
	"uQYSd0au+S0SfhvZAAOpAfEPr16hRANCAAT8KRPzQNKAvEBPoMFPH/ROD3ZPTIDi\n"
	"MTZNTLk0b+AgyESVGQ6ENvnRfigLHJwD2iznSslRXxUUlWwLCtp8C7oa\n"
	"-----END PRIVATE KEY-----\n";
static const char impostor_certificate[] =
	"-----BEGIN CERTIFICATE-----\n"
	"MIIBOzCB4aADAgECAgEBMAoGCCqGSM49BAMCMBMxETAPBgNVBAMMCGltcG9zdG9y\n"
	"MCAXDTAwMDEwMTAwMDAwMFoYDzk5OTkxMjMxMDAwMDAwWjATMREwDwYDVQQDDAhp\n"
	"bXBvc3RvcjBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABPwpE/NA0oC8QE+gwU8f\n"
	"9E4Pdk9MgOIxNk1MuTRv4CDIRJUZDoQ2+dF+KAscnAPaLOdKyVFfFRSVbAsK2nwL\n"
	"uhqjJDAiMA8GA1UdEwEB/wQFMAMBAf8wDwYDVR0RBAgwBocEfwAAATAKBggqhkjO\n"
	"PQQDAgNJADBGAiEA7w0LvanxkBvZvb29SLsm2uNZSpBcHTdTWcyNbNPOYXYCIQCu\n"
	"v53rqQATy+/Rm0X+52aoTAlUUwRo2D02V90GyA+5UQ==\n"
	"-----END CERTIFICATE-----\n";
static const unsigned char alpn[] = "\012postgresql";

/* ---- contexts ---- */

static int choose_alpn(SSL *ssl, const unsigned char **chosen, unsigned char *chosen_size, const unsigned char *offered,
		       unsigned offered_size, void *context)
{
	const struct secure *s = SSL_get_app_data(ssl);
	unsigned char *found;

	(void)context;
	if (!s->has_alpn || SSL_select_next_proto(&found, chosen_size, alpn, sizeof(alpn) - 1, offered, offered_size) !=
				    OPENSSL_NPN_NEGOTIATED)
		return SSL_TLSEXT_ERR_NOACK;
	*chosen = found;
	return SSL_TLSEXT_ERR_OK;
}

static SSL_CTX *context_new(const SSL_METHOD *method, const char *certificate_text, const char *key_text)
{
	BIO *certificate_from = BIO_new_mem_buf(certificate_text, -1), *key_from = BIO_new_mem_buf(key_text, -1);
	X509 *certificate = PEM_read_bio_X509(certificate_from, NULL, NULL, NULL);
	EVP_PKEY *key = PEM_read_bio_PrivateKey(key_from, NULL, NULL, NULL);
	SSL_CTX *context = SSL_CTX_new(method);

	FUZZ_CHECK(context && SSL_CTX_use_certificate(context, certificate) == 1 && SSL_CTX_use_PrivateKey(context, key) == 1);
	SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
	SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_num_tickets(context, 1);
	FUZZ_CHECK(SSL_CTX_set_session_id_context(context, alpn, sizeof(alpn) - 1) == 1);
	X509_free(certificate);
	EVP_PKEY_free(key);
	BIO_free(certificate_from);
	BIO_free(key_from);
	return context;
}

static SSL_CTX *connecting, *accepting, *impostor;

static void make_contexts(void)
{
	sandbox_rewind();
	connecting = context_new(TLS_client_method(), own_certificate, own_key);
	accepting = context_new(TLS_server_method(), own_certificate, own_key);
	impostor = context_new(TLS_server_method(), impostor_certificate, impostor_key);
	SSL_CTX_set_alpn_select_cb(accepting, choose_alpn, NULL);
	SSL_CTX_set_alpn_select_cb(impostor, choose_alpn, NULL);
	sandbox_rewind();
}

void secure_prepare(void)
{
	if (!connecting)
		make_contexts();
	sandbox_file("cert", own_certificate, strlen(own_certificate));
	sandbox_file("key", own_key, strlen(own_key));
}

static SSL_CTX *context_of(const struct secure_options *options)
{
	if (options->side == SECURE_CONNECTS)
		return connecting;
	return options->is_impostor ? impostor : accepting;
}

/* ---- life ---- */

static void on_info(const SSL *ssl, int where, int what)
{
	struct secure *s = SSL_get_app_data(ssl);

	if ((where & SSL_CB_READ_ALERT) == SSL_CB_READ_ALERT)
		s->alert = what;
}

struct secure *secure_new(const struct secure_options *options)
{
	struct secure *s = calloc(1, sizeof(*s));
	BIO *in = BIO_new(BIO_s_mem()), *out = BIO_new(BIO_s_mem());

	sandbox_draw_apart(true);
	FUZZ_CHECK(s && in && out);
	s->has_alpn = options->has_alpn;
	s->ssl = SSL_new(context_of(options));
	FUZZ_CHECK(s->ssl != NULL);
	BIO_set_mem_eof_return(in, -1);
	SSL_set_bio(s->ssl, in, out);
	SSL_set_app_data(s->ssl, s);
	SSL_set_info_callback(s->ssl, on_info);
	SSL_set_max_proto_version(s->ssl, options->version == SECURE_12 ? TLS1_2_VERSION : TLS1_3_VERSION);
	if (options->side == SECURE_ACCEPTS) {
		SSL_set_accept_state(s->ssl);
	} else {
		SSL_set_connect_state(s->ssl);
		if (!options->shows_certificate)
			SSL_certs_clear(s->ssl);
		if (options->has_alpn)
			FUZZ_CHECK(SSL_set_alpn_protos(s->ssl, alpn, sizeof(alpn) - 1) == 0);
		if (options->session)
			SSL_set_session(s->ssl, options->session);
	}
	sandbox_draw_apart(false);
	return s;
}

void secure_free(struct secure **place)
{
	struct secure *s = *place;

	*place = NULL;
	if (!s)
		return;
	/* or OpenSSL takes a session that another connection holds for broken */
	SSL_set_shutdown(s->ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
	SSL_free(s->ssl);
	free(s);
	ERR_clear_error();
}

bool secure_is_resumed(const struct secure *s)
{
	return SSL_session_reused(s->ssl) == 1;
}

SSL_SESSION *secure_session(struct secure *s)
{
	SSL_SESSION *session = SSL_get1_session(s->ssl);

	if (session && SSL_SESSION_is_resumable(session))
		return session;
	SSL_SESSION_free(session);
	return NULL;
}

/* ---- input and output ---- */

/* Handles OpenSSL's result of a call. */
static void judge(struct secure *s, int result)
{
	int error = result > 0 ? SSL_ERROR_NONE : SSL_get_error(s->ssl, result);

	if (error != SSL_ERROR_NONE && error != SSL_ERROR_WANT_READ)
		s->has_ended = true;
	s->is_done |= SSL_is_init_finished(s->ssl) != 0;
	ERR_clear_error();
}

void secure_begin(struct secure *s)
{
	sandbox_draw_apart(true);
	judge(s, SSL_do_handshake(s->ssl));
	sandbox_draw_apart(false);
}

static void read_all(struct secure *s, struct bytes *said)
{
	uint8_t buffer[16384];
	int got;

	do {
		got = SSL_read(s->ssl, buffer, sizeof(buffer));
		if (got > 0)
			bytes_append(said, buffer, (size_t)got);
		judge(s, got);
	} while (got > 0 && !s->has_ended);
}

void secure_take(struct secure *s, const void *data, size_t size, struct bytes *said)
{
	if (s->has_ended || size == 0)
		return;
	sandbox_draw_apart(true);
	FUZZ_CHECK(BIO_write(SSL_get_rbio(s->ssl), data, (int)size) == (int)size);
	if (!s->is_done)
		judge(s, SSL_do_handshake(s->ssl));
	if (s->is_done && !s->has_ended)
		read_all(s, said);
	sandbox_draw_apart(false);
}

bool secure_say(struct secure *s, const void *data, size_t size)
{
	int result;

	if (!s->is_done || s->has_ended || size == 0)
		return false;
	sandbox_draw_apart(true);
	result = SSL_write(s->ssl, data, (int)size);
	judge(s, result);
	sandbox_draw_apart(false);
	return result == (int)size;
}

void secure_say_end(struct secure *s)
{
	if (s->is_done && !s->has_ended)
		SSL_shutdown(s->ssl);
	ERR_clear_error();
}

void secure_change_key(struct secure *s, bool both)
{
	if (!s->is_done || s->has_ended)
		return;
	sandbox_draw_apart(true);
	if (SSL_key_update(s->ssl, both ? SSL_KEY_UPDATE_REQUESTED : SSL_KEY_UPDATE_NOT_REQUESTED) == 1)
		judge(s, SSL_do_handshake(s->ssl));
	ERR_clear_error();
	sandbox_draw_apart(false);
}

void secure_renegotiate(struct secure *s)
{
	if (!s->is_done || s->has_ended)
		return;
	sandbox_draw_apart(true);
	if (SSL_renegotiate(s->ssl) == 1)
		judge(s, SSL_do_handshake(s->ssl));
	ERR_clear_error();
	sandbox_draw_apart(false);
}

void secure_out(struct secure *s, struct bytes *wire)
{
	char *data;
	long size = BIO_get_mem_data(SSL_get_wbio(s->ssl), &data);

	if (size > 0)
		bytes_append(wire, data, (size_t)size);
	(void)BIO_reset(SSL_get_wbio(s->ssl));
}
