/*
 * TLS contexts: the parts of TLS that connections share. The files are read once per context, so a
 * bundle of thousands of CAs costs time and memory only once.
 *
 * A context stores the strings of its configuration and a SHA-256 digest of each file. A RELOAD
 * compares them and keeps the context, with its tickets and sessions, if nothing changed. A digest
 * is computed before its file is read; if the file is replaced in between, the next RELOAD makes a
 * new context without need, but it never misses a change.
 *
 * Accepting: sessions are resumed only by ticket; the keys of the tickets belong to the context, so
 * a new CA or certificate invalidates the old tickets. Sessions with a client certificate are not
 * resumed: resumption verifies nothing, so a ticket could be used longer than the certificate is
 * valid. ALPN follows PostgreSQL: if the client offers protocols, "postgresql" must be among them
 * (RFC 7301, and PostgreSQL 17), and it must offer protocols if it begins with TLS without an
 * SSLRequest: otherwise an attacker could make a browser send its secrets to pgweir (RFC 9325
 * section 3.8).
 */
#include "net/tls_context.h"

#include <arpa/inet.h>
#include <errno.h>
#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/list.h"
#include "base/mem.h"
#include "base/text.h"

/* The names of the CAs are sent to clients only up to this number: a longer list would exceed
   limits of clients. */
#define CA_NAMES_MOST 100
/* Four full records and their overhead: the maximum of one recv. The buffer is freed when it is
   empty. */
#define READ_AHEAD (66 * 1024)

static const unsigned char alpn[] = "\012postgresql", http_alpn[] = "\010http/1.1";

/* ---- protocols, ciphers and groups ---- */

/*
 * Converts the configured protocols, ciphers and curves for OpenSSL, with PgBouncer's keywords.
 * OpenSSL decides about all other words: a setting is valid if a context accepts it.
 *
 * Nothing here lowers the library's security level. For clients older than TLS 1.2, an
 * administrator must set both the protocols and "@SECLEVEL=0" in the ciphers.
 */

enum { V10 = 1, V11 = 2, V12 = 4, V13 = 8 };

static const struct protocol_word { const char *word; int versions; } protocol_words[] = {
	{ "secure", V12 | V13 },
	{ "default", V12 | V13 },
	{ "all", V10 | V11 | V12 | V13 },
	{ "legacy", V10 | V11 | V12 | V13 },
	{ "tlsv1", V10 | V11 | V12 | V13 },
	{ "tlsv1.0", V10 },
	{ "tlsv1.1", V11 },
	{ "tlsv1.2", V12 },
	{ "tlsv1.3", V13 },
};

static const struct { int version, number; uint64_t off; } versions[] = {
	{ V10, TLS1_VERSION, SSL_OP_NO_TLSv1 },
	{ V11, TLS1_1_VERSION, SSL_OP_NO_TLSv1_1 },
	{ V12, TLS1_2_VERSION, SSL_OP_NO_TLSv1_2 },
	{ V13, TLS1_3_VERSION, SSL_OP_NO_TLSv1_3 },
};

#define COUNT(array) (sizeof(array) / sizeof *(array))

static bool is_empty(const char *text)
{
	return !text || !*text;
}

/* Returns a set of V1x; 0: invalid, or empty. */
static int parse_protocols(const char *text)
{
	static const char blanks[] = " \t,:";
	int chosen = 0;

	if (is_empty(text))
		return V12 | V13;
	for (text += strspn(text, blanks); *text; text += strspn(text, blanks)) {
		bool remove = *text == '!';
		const char *word = text + remove;
		size_t length = strcspn(word, blanks);
		int named = 0;

		for (size_t i = 0; i < COUNT(protocol_words); i++)
			if (strlen(protocol_words[i].word) == length &&
			    strncasecmp(protocol_words[i].word, word, length) == 0)
				named = protocol_words[i].versions;
		if (!named)
			return 0;
		chosen = remove ? chosen & ~named : chosen | named;
		text = word + length;
	}
	return chosen;
}

static void apply_protocols(SSL_CTX *ssl, int chosen)
{
	int least = 0, most = 0;

	/* These bounds also override the bounds of the system's openssl.cnf. */
	for (size_t i = 0; i < COUNT(versions); i++) {
		if (chosen & versions[i].version) {
			least = least ? least : versions[i].number;
			most = versions[i].number;
		} else {
			SSL_CTX_set_options(ssl, versions[i].off);
		}
	}
	SSL_CTX_set_min_proto_version(ssl, least);
	SSL_CTX_set_max_proto_version(ssl, most);
}

static bool apply_ciphers(SSL_CTX *ssl, const char *words, bool without_ecdh)
{
	static const char *const defaults[] = { "default", "secure", "fast", "normal" };
	const char *list = is_empty(words)		   ? NULL
			   : text_equal_fold(words, "all") ? "ALL:!aNULL:!eNULL"
							   : words;
	char longer[4096];

	/* NULL: the library's default */
	for (size_t i = 0; list && i < COUNT(defaults); i++)
		if (text_equal_fold(words, defaults[i]))
			list = NULL;
	if (without_ecdh) {
		int length = snprintf(longer, sizeof longer, "%s:!kECDHE:!kECDHEPSK",
				      list ? list : "DEFAULT");

		if (length < 0 || (size_t)length >= sizeof longer)
			return false;
		list = longer;
	}
	return !list || SSL_CTX_set_cipher_list(ssl, list) == 1;
}

/* Whether the library chooses the groups for the key exchange. */
static bool is_default_curve(const char *curve)
{
	return is_empty(curve) || text_equal_fold(curve, "auto") || text_equal_fold(curve, "none");
}

/* TLS 1.3: the groups of RFC 7919 (FFDHE) are 0x0100 and up, the one of 2048 bits first. */
#define FFDHE_KIND 0x01
#define FFDHE_2048 0x00

static int (*judge_by_level)(const SSL *ssl, const SSL_CTX *context, int op, int bits, int nid,
			     void *other, void *extra);

static int judge_group(const SSL *ssl, const SSL_CTX *context, int op, int bits, int nid,
		       void *other, void *extra)
{
	const uint8_t *group = other;

	if ((op == SSL_SECOP_CURVE_SUPPORTED || op == SSL_SECOP_CURVE_SHARED ||
	     op == SSL_SECOP_CURVE_CHECK) &&
	    group && group[0] == FFDHE_KIND && group[1] != FFDHE_2048)
		return 0;
	return judge_by_level(ssl, context, op, bits, nid, other, extra);
}

static bool is_auto(const char *word)
{
	return is_empty(word) || text_equal_fold(word, "auto");
}

#define DH_MOST "ffdhe3072"
#define DH_MOST_STRENGTH 128		/* bits of security */

/* Called after loading the certificate: limits the DH group for TLS 1.2 to the necessary size.
   False: no memory. "auto" chooses a group as strong as the certificate's key, which takes longer
   than the key operation if the key is large. */
static bool bound_dh(SSL_CTX *ssl, const struct tls_config *config)
{
	char name[] = DH_MOST;
	OSSL_PARAM parameters[] = { OSSL_PARAM_utf8_string(OSSL_PKEY_PARAM_GROUP_NAME, name,
							   sizeof name - 1),
				    OSSL_PARAM_END };
	const EVP_PKEY *own = SSL_CTX_get0_privatekey(ssl);
	EVP_PKEY_CTX *making;
	EVP_PKEY *group = NULL;
	bool made;

	if (!config->server_side || !is_auto(config->dh_params) || !own ||
	    EVP_PKEY_get_security_bits(own) <= DH_MOST_STRENGTH)
		return true;
	making = EVP_PKEY_CTX_new_from_name(NULL, "DH", NULL);
	made = making && EVP_PKEY_fromdata_init(making) == 1 &&
	       EVP_PKEY_fromdata(making, &group, EVP_PKEY_KEY_PARAMETERS, parameters) == 1;
	EVP_PKEY_CTX_free(making);
	if (!made)
		return false;
	/* at a security level that does not accept this group, there is no group */
	SSL_CTX_set_dh_auto(ssl, 0);
	if (SSL_CTX_set0_tmp_dh_pkey(ssl, group) != 1)
		EVP_PKEY_free(group);
	ERR_clear_error();
	return true;
}

/* Applies protocols, ciphers, curve and DH of `config`. False and a text with the faulty value. */
static bool tls_apply_options(SSL_CTX *ssl, const struct tls_config *config, char *why,
			      size_t why_size)
{
	int chosen = parse_protocols(config->protocols);
	const char *curve = config->ecdh_curve, *dh = config->dh_params, *kind = NULL,
		   *value = NULL;
	/* 2: 1024 bits, independent of the certificate's key */
	int dh_auto = is_auto(dh)		      ? 1
		      : text_equal_fold(dh, "legacy") ? 2
		      : text_equal_fold(dh, "none")   ? 0
						      : -1;

	if (!chosen)
		kind = "protocols", value = config->protocols;
	else if (!apply_ciphers(ssl, config->ciphers,
				!is_empty(curve) && text_equal_fold(curve, "none")))
		kind = "ciphers", value = config->ciphers;
	else if (!is_empty(config->tls13_ciphers) &&
		 SSL_CTX_set_ciphersuites(ssl, config->tls13_ciphers) != 1)
		kind = "TLS 1.3 ciphers", value = config->tls13_ciphers;
	else if (!is_default_curve(curve) &&
		 SSL_CTX_ctrl(ssl, SSL_CTRL_SET_GROUPS_LIST, 0, (void *)(uintptr_t)curve) != 1)
		/* the macro SSL_CTX_set1_groups_list casts const away */
		kind = "ECDH curve", value = curve;
	else if (dh_auto < 0 || (dh_auto > 0 && SSL_CTX_set_dh_auto(ssl, dh_auto) != 1))
		kind = "DH parameters", value = dh;
	ERR_clear_error();
	if (kind) {
		snprintf(why, why_size, "unknown %s \"%s\"", kind, value ? value : "");
		return false;
	}
	apply_protocols(ssl, chosen);
	if (is_default_curve(curve)) {
		/* The library also supports groups of up to 8192 bits, which take a hundred times
		   as long as a curve, and the peer chooses the group. */
		judge_by_level = SSL_CTX_get_security_callback(ssl);
		SSL_CTX_set_security_callback(ssl, judge_group);
	}
	return true;
}

/* ---- resumption on the connecting side ---- */

/*
 * A TLS 1.3 server sends its tickets after the handshake, so a connection cannot be asked for "its"
 * session at a fixed time: OpenSSL calls back for each ticket, and the last ticket is stored in a
 * slot of the context under the server's name.
 *
 * Resumption does not verify the certificate. This is safe, because a slot belongs to one context
 * (the same CA, certificate and protocols) and to one name, and sessions with and without a check
 * of the name are stored separately. A slot lives as long as the SSL_CTX, which every SSL
 * references, so a connection may point to its slot.
 */

/* Names come from the configuration. Further names get full handshakes. */
#define SLOTS_MOST 256

struct slot {
	struct list node;
	SSL_SESSION *session;
	bool verify_name;
	char name[];
};

struct sessions {
	struct list slots;
	int count;
};

static int context_index = -1, connection_index = -1;

static void sessions_free(void *parent, void *sessions_memory, CRYPTO_EX_DATA *data, int index,
			  long argl, void *argp)
{
	struct sessions *sessions = sessions_memory;

	(void)parent, (void)data, (void)index, (void)argl, (void)argp;
	if (!sessions)
		return;
	LIST_EACH_SAFE(node, &sessions->slots) {
		struct slot *slot = LIST_OBJECT(node, struct slot, node);

		SSL_SESSION_free(slot->session);
		mem_free(slot);
	}
	mem_free(sessions);
}

/* Returns 1: takes the reference. */
static int on_new_session(SSL *ssl, SSL_SESSION *session)
{
	struct slot *slot = SSL_get_ex_data(ssl, connection_index);

	if (!slot)
		return 0;
	SSL_SESSION_free(slot->session);
	slot->session = session;
	return 1;
}

/* Attaches the session store to `ssl`, which frees it. False: no memory. */
static bool attach_sessions(SSL_CTX *ssl)
{
	struct sessions *sessions;

	if (context_index < 0)
		context_index = SSL_CTX_get_ex_new_index(0, NULL, NULL, NULL, sessions_free);
	if (connection_index < 0)
		connection_index = SSL_get_ex_new_index(0, NULL, NULL, NULL, NULL);
	if (context_index < 0 || connection_index < 0)
		return false;
	sessions = mem_try(sizeof *sessions);
	if (!sessions)
		return false;
	list_init(&sessions->slots);
	if (!SSL_CTX_set_ex_data(ssl, context_index, sessions)) {
		mem_free(sessions);
		return false;
	}
	SSL_CTX_set_session_cache_mode(ssl, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
	SSL_CTX_sess_set_new_cb(ssl, on_new_session);
	return true;
}

void tls_sessions_use(SSL *ssl, const char *name, bool verify_name)
{
	struct sessions *sessions = SSL_CTX_get_ex_data(SSL_get_SSL_CTX(ssl), context_index);
	struct slot *slot = NULL;

	if (!sessions)
		return;
	LIST_EACH(node, &sessions->slots) {
		struct slot *old = LIST_OBJECT(node, struct slot, node);

		if (old->verify_name == verify_name && strcmp(old->name, name) == 0)
			slot = old;
	}
	if (!slot && sessions->count < SLOTS_MOST &&
	    (slot = mem_try(sizeof *slot + strlen(name) + 1)) != NULL) {
		strcpy(slot->name, name);
		slot->verify_name = verify_name;
		list_append(&sessions->slots, &slot->node);
		sessions->count++;
	}
	if (!slot)
		return;
	SSL_set_ex_data(ssl, connection_index, slot);
	if (slot->session && SSL_SESSION_is_resumable(slot->session))
		SSL_set_session(ssl, slot->session);
}

/* ---- contexts ---- */

usec_t tls_accepting_spent;

static const char *config_string(const struct tls_config *config, int which)
{
	const char *const strings[CONTEXT_STRINGS] = {
		[CONTEXT_CA] = config->ca_file,
		[CONTEXT_CERTIFICATE] = config->cert_file,
		[CONTEXT_KEY] = config->key_file,
		[CONTEXT_CRL] = config->crl_file,
		[CONTEXT_PROTOCOLS] = config->protocols,
		[CONTEXT_CIPHERS] = config->ciphers,
		[CONTEXT_TLS13_CIPHERS] = config->tls13_ciphers,
		[CONTEXT_CURVE] = config->ecdh_curve,
		[CONTEXT_DH_PARAMS] = config->dh_params,
	};

	return strings[which] ? strings[which] : "";
}

/* False with errno: the file cannot be read. */
static bool digest_file(const char *path, unsigned char digest[EVP_MAX_MD_SIZE])
{
	EVP_MD_CTX *md = EVP_MD_CTX_new();
	int fd = text_open_file(path);
	FILE *file = fd >= 0 ? fdopen(fd, "r") : NULL;
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
	else if (fd >= 0)
		close(fd);
	EVP_MD_CTX_free(md);
	errno = saved;
	return ok;
}

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
	if (which == CONTEXT_CA || which == CONTEXT_CRL)
		snprintf(why, why_size, "failed to load %s: %s (\"%s\")",
			 which == CONTEXT_CA ? "CA" : "CRL", reason, path);
	else
		snprintf(why, why_size, "failed to load %s file \"%s\": %s",
			 which == CONTEXT_KEY ? "private key" : "certificate", path, reason);
	return false;
}

static bool tls_remember(struct tls_context *context, const struct tls_config *config, char *why,
			 size_t why_size)
{
	for (int i = 0; i < CONTEXT_STRINGS; i++) {
		const char *text = config_string(config, i);

		context->strings[i] = mem_copy_string(text);
		if (!context->strings[i]) {
			snprintf(why, why_size, "out of memory");
			return false;
		}
		if (i < CONTEXT_FILES && *text && !digest_file(text, context->digests[i])) {
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
	const char *certificate = context->strings[CONTEXT_CERTIFICATE],
		   *key = context->strings[CONTEXT_KEY];

	if (context->server_side && !*certificate) {
		snprintf(why, why_size, "no certificate file is set");
		return false;
	}
	SSL_CTX_set_default_passwd_cb(context->ssl, no_passphrase);
	if (*certificate && SSL_CTX_use_certificate_chain_file(context->ssl, certificate) != 1)
		return blame(CONTEXT_CERTIFICATE, certificate, library_reason(), why, why_size);
	/* a key without a certificate is ignored */
	if (*certificate && *key &&
	    (SSL_CTX_use_PrivateKey_file(context->ssl, key, SSL_FILETYPE_PEM) != 1 ||
	     SSL_CTX_check_private_key(context->ssl) != 1))
		return blame(CONTEXT_KEY, key, library_reason(), why, why_size);
	if (*certificate && !*key) {
		snprintf(why, why_size, "certificate file \"%s\" has no key file", certificate);
		return false;
	}
	return true;
}

static bool load_crls(struct tls_context *context, char *why, size_t why_size)
{
	const char *path = context->strings[CONTEXT_CRL];
	X509_STORE *store = SSL_CTX_get_cert_store(context->ssl);
	X509_LOOKUP *lookup;

	if (!*path)
		return true;
	lookup = X509_STORE_add_lookup(store, X509_LOOKUP_file());
	if (!lookup || X509_load_crl_file(lookup, path, X509_FILETYPE_PEM) < 1)
		return blame(CONTEXT_CRL, path, library_reason(), why, why_size);
	X509_STORE_set_flags(store, X509_V_FLAG_CRL_CHECK | X509_V_FLAG_CRL_CHECK_ALL);
	return true;
}

static bool load_cas(struct tls_context *context, char *why, size_t why_size)
{
	const char *path = context->strings[CONTEXT_CA];
	STACK_OF(X509_NAME) *names = NULL;
	int mode = SSL_VERIFY_NONE;

	if (*path && SSL_CTX_load_verify_file(context->ssl, path) != 1)
		return blame(CONTEXT_CA, path, library_reason(), why, why_size);
	/* The connecting side may trust the system's CAs; the accepting side must not, because any
	   of their certificates would admit a client. */
	if (!*path && !context->server_side && context->verify_peer)
		SSL_CTX_set_default_verify_paths(context->ssl);
	if (*path && context->server_side)
		names = SSL_load_client_CA_file(path);
	if (names && sk_X509_NAME_num(names) <= CA_NAMES_MOST)
		SSL_CTX_set_client_CA_list(context->ssl, names);
	else
		sk_X509_NAME_pop_free(names, X509_NAME_free);
	if (context->verify_peer)
		mode = SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT;
	else if (context->request_peer)
		mode = SSL_VERIFY_PEER;
	SSL_CTX_set_verify(context->ssl, mode, NULL);
	return true;
}

static int choose_alpn(SSL *ssl, const unsigned char **chosen, unsigned char *chosen_size,
		       const unsigned char *offered, unsigned int offered_size, void *context)
{
	unsigned char *found;

	(void)ssl;
	/* the first byte of the list of one protocol is the size of its name */
	if (SSL_select_next_proto(&found, chosen_size, context,
				  *(const unsigned char *)context + 1u, offered,
				  offered_size) != OPENSSL_NPN_NEGOTIATED)
		return SSL_TLSEXT_ERR_ALERT_FATAL;
	*chosen = found;
	return SSL_TLSEXT_ERR_OK;
}

/* choose_alpn checks offered protocols; OpenSSL does not call it if there are none. */
static int on_client_hello(SSL *ssl, int *alert, void *context)
{
	const unsigned char *extension;
	size_t size;

	(void)context;
	if (!SSL_get_app_data(ssl) ||
	    SSL_client_hello_get0_ext(ssl, TLSEXT_TYPE_application_layer_protocol_negotiation,
				      &extension, &size) == 1)
		return SSL_CLIENT_HELLO_SUCCESS;
	ERR_raise(ERR_LIB_SSL, SSL_R_NO_APPLICATION_PROTOCOL);
	*alert = SSL_AD_NO_APPLICATION_PROTOCOL;
	return SSL_CLIENT_HELLO_ERROR;
}

/* A client has returned a ticket: decides whether its session continues. */
static SSL_TICKET_RETURN judge_ticket(SSL *ssl, SSL_SESSION *session, const unsigned char *name,
				      size_t name_size, SSL_TICKET_STATUS status, void *context)
{
	(void)ssl, (void)name, (void)name_size, (void)context;
	if (status != SSL_TICKET_SUCCESS && status != SSL_TICKET_SUCCESS_RENEW)
		return SSL_TICKET_RETURN_IGNORE_RENEW;
	if (SSL_SESSION_get0_peer(session))
		return SSL_TICKET_RETURN_IGNORE;
	return status == SSL_TICKET_SUCCESS ? SSL_TICKET_RETURN_USE : SSL_TICKET_RETURN_USE_RENEW;
}

static bool tls_set_up(SSL_CTX *ssl, const struct tls_config *config)
{
	const unsigned char *own = config->is_http ? http_alpn : alpn;

	SSL_CTX_set_options(ssl, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
					 SSL_OP_IGNORE_UNEXPECTED_EOF);
	SSL_CTX_set_mode(ssl, SSL_MODE_RELEASE_BUFFERS);
	SSL_CTX_set_read_ahead(ssl, 1);
	SSL_CTX_set_default_read_buffer_len(ssl, READ_AHEAD);
	if (!config->server_side)
		return SSL_CTX_set_alpn_protos(ssl, alpn, sizeof alpn - 1) == 0 &&
		       attach_sessions(ssl);
	SSL_CTX_set_options(ssl, SSL_OP_CIPHER_SERVER_PREFERENCE);
	SSL_CTX_set_alpn_select_cb(ssl, choose_alpn, (void *)(uintptr_t)own);
	SSL_CTX_set_client_hello_cb(ssl, on_client_hello, NULL);
	SSL_CTX_set_session_cache_mode(ssl, SSL_SESS_CACHE_OFF);	/* no memory per client */
	/* If every client must send a certificate, no ticket could be used. */
	SSL_CTX_set_num_tickets(ssl, config->verify_peer ? 0 : 1);
	if (config->verify_peer)
		SSL_CTX_set_options(ssl, SSL_OP_NO_TICKET);
	SSL_CTX_set_session_ticket_cb(ssl, NULL, judge_ticket, NULL);
	return SSL_CTX_set_session_id_context(ssl, own, *own + 1u) == 1;
}

SSL *tls_http_new(struct tls_context *context, const char *name)
{
	SSL *ssl = SSL_new(context->ssl);
	struct in6_addr any;
	bool is_ready,
		is_ip = inet_pton(AF_INET, name, &any) == 1 || inet_pton(AF_INET6, name, &any) == 1;

	if (!ssl)
		return NULL;
	SSL_set_verify(ssl, SSL_VERIFY_PEER, NULL);
	SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
	/* the length of a body tells whether it is complete */
	SSL_set_options(ssl, SSL_OP_IGNORE_UNEXPECTED_EOF);
	/* the other library asks the socket whether there is more to read */
	SSL_set_read_ahead(ssl, 0);
	is_ready = SSL_set_alpn_protos(ssl, http_alpn, sizeof http_alpn - 1) == 0;
	if (is_ip)
		is_ready &= X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), name) == 1;
	else
		is_ready &= SSL_set1_host(ssl, name) == 1 &&
			    SSL_ctrl(ssl, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name,
				     (void *)(uintptr_t)name) == 1;
	if (is_ready)
		return ssl;
	SSL_free(ssl);
	return NULL;
}

bool tls_context_fits(const struct tls_context *context, const struct tls_config *config)
{
	unsigned char digest[EVP_MAX_MD_SIZE];

	if (context->server_side != config->server_side ||
	    context->verify_peer != config->verify_peer ||
	    context->request_peer != config->request_peer)
		return false;
	for (int i = 0; i < CONTEXT_STRINGS; i++) {
		const char *text = config_string(config, i);

		if (strcmp(context->strings[i], text) != 0)
			return false;
		memset(digest, 0, sizeof digest);
		if (i < CONTEXT_FILES && *text &&
		    (!digest_file(text, digest) ||
		     memcmp(digest, context->digests[i], sizeof digest) != 0))
			return false;
	}
	return true;
}

struct tls_context *tls_context_new(const struct tls_config *config, struct tls_context *old,
				    char *why, size_t why_size)
{
	struct tls_context *context;

	if (old && tls_context_fits(old, config))
		return tls_context_hold(old);
	context = mem_try(sizeof *context);
	if (!context) {
		snprintf(why, why_size, "out of memory");
		return NULL;
	}
	context->references = 1;
	ERR_clear_error();
	if (!tls_remember(context, config, why, why_size))
		goto fail;
	context->ssl = SSL_CTX_new(config->server_side ? TLS_server_method() : TLS_client_method());
	if (!context->ssl || !tls_set_up(context->ssl, config)) {
		snprintf(why, why_size, "cannot make a TLS context: %s", library_reason());
		goto fail;
	}
	if (!tls_apply_options(context->ssl, config, why, why_size) ||
	    !load_own(context, why, why_size) || !load_cas(context, why, why_size) ||
	    !load_crls(context, why, why_size))
		goto fail;
	if (!bound_dh(context->ssl, config)) {
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
	for (int i = 0; i < CONTEXT_STRINGS; i++)
		mem_free(gone->strings[i]);
	mem_free(gone);
}

/* ---- results of a handshake ---- */

/*
 * The peer's certificate, the application protocol, and the bytes that identify the connection for
 * both sides (channel binding).
 *
 * Channel binding tls-server-end-point (RFC 5929 section 4.1) is a hash of the accepting side's
 * certificate. The hash function is the one of the certificate's signature, with SHA-256 in place
 * of MD5 and SHA-1. For a signature without a hash function (Ed25519) channel binding is undefined
 * and not offered.
 */

bool tls_peer_common_name(SSL *ssl, char *buf, size_t size)
{
	X509 *certificate = SSL_get1_peer_certificate(ssl);
	X509_NAME *subject = certificate ? X509_get_subject_name(certificate) : NULL;
	int at = subject ? X509_NAME_get_index_by_NID(subject, NID_commonName, -1) : -1, length;
	unsigned char *text = NULL;
	bool ok = false;

	if (at >= 0) {
		length = ASN1_STRING_to_UTF8(
			&text, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)));
		ok = length >= 0 && (size_t)length < size && !memchr(text, '\0', (size_t)length);
		if (ok) {
			memcpy(buf, text, (size_t)length);
			buf[length] = '\0';
		}
		OPENSSL_free(text);
	}
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
	return size == sizeof wanted - 1 && memcmp(agreed, wanted, size) == 0 ? TLS_ALPN_POSTGRESQL
									      : TLS_ALPN_OTHER;
}

bool tls_server_end_point(SSL *ssl, uint8_t hash[TLS_END_POINT_MOST], size_t *size)
{
	X509 *peers = SSL_is_server(ssl) ? NULL : SSL_get1_peer_certificate(ssl);
	X509 *certificate = SSL_is_server(ssl) ? SSL_get_certificate(ssl) : peers;
	int number = NID_undef;
	const EVP_MD *digest = NULL;
	unsigned length = 0;
	bool ok;

	if (certificate && X509_get_signature_info(certificate, &number, NULL, NULL, NULL) == 1 &&
	    number != NID_undef)
		digest = EVP_get_digestbynid(number == NID_md5 || number == NID_sha1 ||
							     number == NID_md5_sha1
						     ? NID_sha256
						     : number);
	ok = digest && EVP_MD_get_size(digest) <= TLS_END_POINT_MOST &&
	     X509_digest(certificate, digest, hash, &length) == 1;
	*size = length;
	X509_free(peers);
	ERR_clear_error();
	return ok;
}
