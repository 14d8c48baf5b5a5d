/*
 * TLS contexts: the parts of TLS that connections share. The files are read once per context, so a bundle of thousands of CAs
 * costs time and memory only once.
 *
 * A context stores the strings of its configuration and a SHA-256 digest of each file. A RELOAD compares them and keeps the
 * context, with its tickets and sessions, if nothing changed. A digest is computed before its file is read; if the file is
 * replaced in between, the next RELOAD makes a new context without need, but it never misses a change.
 *
 * Accepting: sessions are resumed only by ticket; the keys of the tickets belong to the context, so a new CA or certificate
 * invalidates the old tickets. Sessions with a client certificate are not resumed: resumption verifies nothing, so a ticket
 * could be used longer than the certificate is valid. ALPN follows PostgreSQL: a client that offers protocols must offer
 * "postgresql" (RFC 7301, and PostgreSQL 17), and a client that begins with TLS without an SSLRequest must offer protocols:
 * otherwise an attacker could make a browser send its secrets to pgweir (RFC 9325 section 3.8).
 */
#include "net/tls.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "net/tls_options.h"
#include "net/tls_sessions.h"

/* The names of the CAs are sent to clients only up to this number: a longer list would exceed limits of clients. */
#define CA_NAMES_MOST 100
/* Four full records and their overhead: the maximum of one recv. The buffer is freed when it is empty. */
#define READ_AHEAD (66 * 1024)

static const unsigned char alpn[] = "\012postgresql";

enum { CA, CERTIFICATE, KEY, FILES };
enum { PROTOCOLS = FILES, CIPHERS, TLS13_CIPHERS, CURVE, DH_PARAMS, STRINGS };

struct tls_context {
	int references;
	SSL_CTX *ssl;
	char *strings[STRINGS];		/* as configured; NULL and "" are equal */
	unsigned char digests[FILES][EVP_MAX_MD_SIZE];
	bool server_side, verify_peer, request_peer;
};

/* Total time of handshakes in all accepting contexts. */
static usec_t accepting_spent;

static const char *config_string(const struct tls_config *config, int which)
{
	const char *const strings[STRINGS] = {
		[CA] = config->ca_file, [CERTIFICATE] = config->cert_file, [KEY] = config->key_file,
		[PROTOCOLS] = config->protocols, [CIPHERS] = config->ciphers, [TLS13_CIPHERS] = config->tls13_ciphers,
		[CURVE] = config->ecdh_curve, [DH_PARAMS] = config->dh_params,
	};

	return strings[which] ? strings[which] : "";
}

/* False with errno: the file cannot be read. */
static bool digest_file(const char *path, unsigned char digest[EVP_MAX_MD_SIZE])
{
	EVP_MD_CTX *md = EVP_MD_CTX_new();
	FILE *file = fopen(path, "re");
	unsigned char part[4096];
	size_t got;
	bool ok = md && file && EVP_DigestInit_ex(md, EVP_sha256(), NULL) == 1;
	int saved;

	while (ok && (got = fread(part, 1, sizeof part, file)) > 0)
		ok = EVP_DigestUpdate(md, part, got) == 1;
	ok = ok && !ferror(file) && EVP_DigestFinal_ex(md, digest, NULL) == 1;
	saved = errno;
	mem_wipe(part, sizeof part);
	if (file)
		fclose(file);
	EVP_MD_CTX_free(md);
	errno = saved;
	return ok;
}

/* ---- making ---- */

/* Returns the first reason in OpenSSL's error queue and empties the queue. */
static const char *library_reason(void)
{
	unsigned long code = ERR_get_error();
	const char *reason = code ? ERR_reason_error_string(code) : NULL;

	ERR_clear_error();
	return reason ? reason : "no reason given";
}

/* Uses the words of PgBouncer's messages. */
static bool blame(int which, const char *path, const char *reason, char *why, size_t why_size)
{
	if (which == CA)
		snprintf(why, why_size, "failed to load CA: %s (\"%s\")", reason, path);
	else
		snprintf(why, why_size, "failed to load %s file \"%s\": %s", which == KEY ? "private key" : "certificate", path, reason);
	return false;
}

static bool remember(struct tls_context *context, const struct tls_config *config, char *why, size_t why_size)
{
	for (int i = 0; i < STRINGS; i++) {
		const char *text = config_string(config, i);

		context->strings[i] = mem_copy_string(text);
		if (!context->strings[i]) {
			snprintf(why, why_size, "out of memory");
			return false;
		}
		if (i < FILES && *text && !digest_file(text, context->digests[i])) {
			return blame(i, text, strerror(errno), why, why_size);
		}
	}
	context->server_side = config->server_side;
	context->verify_peer = config->verify_peer;
	context->request_peer = config->request_peer;
	return true;
}

/* A daemon cannot ask for a passphrase: a key with a passphrase is an error. */
static int no_passphrase(char *buffer, int size, int writing, void *context)
{
	(void)buffer, (void)size, (void)writing, (void)context;
	return -1;
}

static bool load_own(struct tls_context *context, char *why, size_t why_size)
{
	const char *certificate = context->strings[CERTIFICATE], *key = context->strings[KEY];

	if (context->server_side && !*certificate) {
		snprintf(why, why_size, "no certificate file is set");
		return false;
	}
	SSL_CTX_set_default_passwd_cb(context->ssl, no_passphrase);
	if (*certificate && SSL_CTX_use_certificate_chain_file(context->ssl, certificate) != 1)
		return blame(CERTIFICATE, certificate, library_reason(), why, why_size);
	/* a key without a certificate is ignored */
	if (*certificate && *key && (SSL_CTX_use_PrivateKey_file(context->ssl, key, SSL_FILETYPE_PEM) != 1 ||
				     SSL_CTX_check_private_key(context->ssl) != 1))
		return blame(KEY, key, library_reason(), why, why_size);
	if (*certificate && !*key) {
		snprintf(why, why_size, "certificate file \"%s\" has no key file", certificate);
		return false;
	}
	return true;
}

static void announce_cas(SSL_CTX *ssl, const char *path)
{
	STACK_OF(X509_NAME) *names = SSL_load_client_CA_file(path);

	if (names && sk_X509_NAME_num(names) <= CA_NAMES_MOST)
		SSL_CTX_set_client_CA_list(ssl, names);
	else
		sk_X509_NAME_pop_free(names, X509_NAME_free);
}

static bool load_cas(struct tls_context *context, char *why, size_t why_size)
{
	const char *path = context->strings[CA];
	int mode = SSL_VERIFY_NONE;

	if (*path && SSL_CTX_load_verify_file(context->ssl, path) != 1)
		return blame(CA, path, library_reason(), why, why_size);
	/* The connecting side may trust the system's CAs; the accepting side must not, because any of their certificates would
	   admit a client. */
	if (!*path && !context->server_side && context->verify_peer)
		SSL_CTX_set_default_verify_paths(context->ssl);
	if (*path && context->server_side)
		announce_cas(context->ssl, path);
	if (context->verify_peer)
		mode = SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT;
	else if (context->request_peer)
		mode = SSL_VERIFY_PEER;
	SSL_CTX_set_verify(context->ssl, mode, NULL);
	return true;
}

static int choose_alpn(SSL *ssl, const unsigned char **chosen, unsigned char *chosen_size, const unsigned char *offered,
		       unsigned int offered_size, void *context)
{
	unsigned char *found;

	(void)ssl, (void)context;
	if (SSL_select_next_proto(&found, chosen_size, alpn, sizeof alpn - 1, offered, offered_size) != OPENSSL_NPN_NEGOTIATED)
		return SSL_TLSEXT_ERR_ALERT_FATAL;
	*chosen = found;
	return SSL_TLSEXT_ERR_OK;
}

/* The address of this variable marks a connection that requires ALPN in the hello. */
static char demanded;

void tls_demand_alpn(SSL *ssl)
{
	SSL_set_app_data(ssl, &demanded);
}

/* choose_alpn checks offered protocols; OpenSSL does not call it if there are none. */
static int on_client_hello(SSL *ssl, int *alert, void *context)
{
	const unsigned char *extension;
	size_t size;

	(void)context;
	if (SSL_get_app_data(ssl) != &demanded ||
	    SSL_client_hello_get0_ext(ssl, TLSEXT_TYPE_application_layer_protocol_negotiation, &extension, &size) == 1)
		return SSL_CLIENT_HELLO_SUCCESS;
	ERR_raise(ERR_LIB_SSL, SSL_R_NO_APPLICATION_PROTOCOL);
	*alert = SSL_AD_NO_APPLICATION_PROTOCOL;
	return SSL_CLIENT_HELLO_ERROR;
}

/* Decides about a ticket that a client returned. */
static SSL_TICKET_RETURN judge_ticket(SSL *ssl, SSL_SESSION *session, const unsigned char *name, size_t name_size,
				      SSL_TICKET_STATUS status, void *context)
{
	(void)ssl, (void)name, (void)name_size, (void)context;
	if (status != SSL_TICKET_SUCCESS && status != SSL_TICKET_SUCCESS_RENEW)
		return SSL_TICKET_RETURN_IGNORE_RENEW;
	if (SSL_SESSION_get0_peer(session))
		return SSL_TICKET_RETURN_IGNORE;
	return status == SSL_TICKET_SUCCESS ? SSL_TICKET_RETURN_USE : SSL_TICKET_RETURN_USE_RENEW;
}

/* If every client must send a certificate, no ticket could be used. */
static void give_tickets(SSL_CTX *ssl, bool verify_peer)
{
	SSL_CTX_set_session_cache_mode(ssl, SSL_SESS_CACHE_OFF);	/* no memory per client */
	SSL_CTX_set_num_tickets(ssl, verify_peer ? 0 : 1);
	if (verify_peer)
		SSL_CTX_set_options(ssl, SSL_OP_NO_TICKET);
	SSL_CTX_set_session_ticket_cb(ssl, NULL, judge_ticket, NULL);
}

static bool set_up(SSL_CTX *ssl, bool server_side, bool verify_peer)
{
	SSL_CTX_set_options(ssl, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_IGNORE_UNEXPECTED_EOF);
	SSL_CTX_set_mode(ssl, SSL_MODE_RELEASE_BUFFERS);
	SSL_CTX_set_read_ahead(ssl, 1);
	SSL_CTX_set_default_read_buffer_len(ssl, READ_AHEAD);
	if (!server_side)
		return SSL_CTX_set_alpn_protos(ssl, alpn, sizeof alpn - 1) == 0 && tls_sessions_attach(ssl);
	SSL_CTX_set_options(ssl, SSL_OP_CIPHER_SERVER_PREFERENCE);
	SSL_CTX_set_alpn_select_cb(ssl, choose_alpn, NULL);
	SSL_CTX_set_client_hello_cb(ssl, on_client_hello, NULL);
	give_tickets(ssl, verify_peer);
	return SSL_CTX_set_session_id_context(ssl, alpn, sizeof alpn - 1) == 1;
}

struct tls_context *tls_context_new(const struct tls_config *config, char *why, size_t why_size)
{
	struct tls_context *context = mem_try(sizeof *context);

	if (!context) {
		snprintf(why, why_size, "out of memory");
		return NULL;
	}
	context->references = 1;
	ERR_clear_error();
	if (!remember(context, config, why, why_size))
		goto fail;
	context->ssl = SSL_CTX_new(config->server_side ? TLS_server_method() : TLS_client_method());
	if (!context->ssl || !set_up(context->ssl, config->server_side, config->verify_peer)) {
		snprintf(why, why_size, "cannot make a TLS context: %s", library_reason());
		goto fail;
	}
	if (!tls_options_apply(context->ssl, config, why, why_size) || !load_own(context, why, why_size) ||
	    !load_cas(context, why, why_size))
		goto fail;
	if (!tls_options_bound_dh(context->ssl, config)) {
		snprintf(why, why_size, "cannot make a TLS context: %s", library_reason());
		goto fail;
	}
	ERR_clear_error();
	return context;
fail:
	tls_context_drop(&context);
	return NULL;
}

struct tls_context *tls_context_hold(struct tls_context *context)
{
	context->references++;
	return context;
}

void tls_context_drop(struct tls_context **context)
{
	struct tls_context *gone = *context;

	*context = NULL;
	if (!gone || --gone->references > 0)
		return;
	SSL_CTX_free(gone->ssl);
	for (int i = 0; i < STRINGS; i++)
		mem_free(gone->strings[i]);
	mem_free(gone);
}

bool tls_context_differs(const struct tls_context *context, const struct tls_config *config)
{
	unsigned char digest[EVP_MAX_MD_SIZE];

	if (context->server_side != config->server_side || context->verify_peer != config->verify_peer ||
	    context->request_peer != config->request_peer)
		return true;
	for (int i = 0; i < STRINGS; i++) {
		const char *text = config_string(config, i);

		if (strcmp(context->strings[i], text) != 0)
			return true;
		memset(digest, 0, sizeof digest);
		if (i < FILES && *text &&
		    (!digest_file(text, digest) || memcmp(digest, context->digests[i], sizeof digest) != 0))
			return true;
	}
	return false;
}

usec_t tls_accepting_spent(void)
{
	return accepting_spent;
}

void tls_context_spend(const struct tls_context *context, usec_t time)
{
	if (context->server_side)
		accepting_spent += time;
}

SSL_CTX *tls_context_ssl(const struct tls_context *context)
{
	return context->ssl;
}
