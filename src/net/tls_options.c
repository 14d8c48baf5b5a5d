/*
 * Converts the configured protocols, ciphers and curves for OpenSSL, with PgBouncer's keywords. OpenSSL decides about all other
 * words: a setting is valid if a context accepts it.
 *
 * Nothing here lowers the library's security level. For clients older than TLS 1.2, an administrator must set both the
 * protocols and "@SECLEVEL=0" in the ciphers.
 */
#include "net/tls_options.h"

#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/params.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"

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

static int versions_of_word(const char *word, size_t length)
{
	for (size_t i = 0; i < COUNT(protocol_words); i++)
		if (strlen(protocol_words[i].word) == length && strncasecmp(protocol_words[i].word, word, length) == 0)
			return protocol_words[i].versions;
	return 0;
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
		int named = versions_of_word(word, length);

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

/* Returns NULL for the library's default. */
static const char *cipher_list(const char *words)
{
	static const char *const defaults[] = { "default", "secure", "fast", "normal" };

	if (is_empty(words))
		return NULL;
	for (size_t i = 0; i < COUNT(defaults); i++)
		if (text_equal_fold(words, defaults[i]))
			return NULL;
	return text_equal_fold(words, "all") ? "ALL:!aNULL:!eNULL" : words;
}

static bool apply_ciphers(SSL_CTX *ssl, const char *words, bool without_ecdh)
{
	const char *list = cipher_list(words);
	char longer[4096];

	if (without_ecdh) {
		int length = snprintf(longer, sizeof longer, "%s:!kECDHE:!kECDHEPSK", list ? list : "DEFAULT");

		if (length < 0 || (size_t)length >= sizeof longer)
			return false;
		list = longer;
	}
	return !list || SSL_CTX_set_cipher_list(ssl, list) == 1;
}

static bool apply_tls13_ciphers(SSL_CTX *ssl, const char *suites)
{
	return is_empty(suites) || SSL_CTX_set_ciphersuites(ssl, suites) == 1;
}

static bool is_curve_word(const char *curve, const char *word)
{
	return !is_empty(curve) && text_equal_fold(curve, word);
}

static bool apply_curve(SSL_CTX *ssl, const char *curve)
{
	if (is_empty(curve) || is_curve_word(curve, "auto") || is_curve_word(curve, "none"))
		return true;
	/* SSL_CTX_set1_groups_list: its macro casts const away. */
	return SSL_CTX_ctrl(ssl, SSL_CTRL_SET_GROUPS_LIST, 0, (void *)(uintptr_t)curve) == 1;
}

/* TLS 1.3: the groups of RFC 7919 (FFDHE) are 0x0100 and up, the one of 2048 bits first. */
#define FFDHE_KIND 0x01
#define FFDHE_2048 0x00

static int (*judge_by_level)(const SSL *ssl, const SSL_CTX *context, int op, int bits, int nid, void *other, void *extra);

static int judge_group(const SSL *ssl, const SSL_CTX *context, int op, int bits, int nid, void *other, void *extra)
{
	const uint8_t *group = other;

	if ((op == SSL_SECOP_CURVE_SUPPORTED || op == SSL_SECOP_CURVE_SHARED || op == SSL_SECOP_CURVE_CHECK) && group &&
	    group[0] == FFDHE_KIND && group[1] != FFDHE_2048)
		return 0;
	return judge_by_level(ssl, context, op, bits, nid, other, extra);
}

/* The library also supports groups of up to 8192 bits, which take a hundred times as long as a curve, and the peer chooses the group. */
static void refuse_slow_groups(SSL_CTX *ssl, const char *curve)
{
	bool is_chosen = !is_empty(curve) && !is_curve_word(curve, "auto") && !is_curve_word(curve, "none");

	if (is_chosen)
		return;
	judge_by_level = SSL_CTX_get_security_callback(ssl);
	SSL_CTX_set_security_callback(ssl, judge_group);
}

static bool is_auto(const char *word)
{
	return is_empty(word) || text_equal_fold(word, "auto");
}

static bool apply_dh(SSL_CTX *ssl, const char *word)
{
	if (is_auto(word))
		return SSL_CTX_set_dh_auto(ssl, 1) == 1;
	if (text_equal_fold(word, "legacy"))
		return SSL_CTX_set_dh_auto(ssl, 2) == 1;	/* 1024 bits, independent of the certificate's key */
	return text_equal_fold(word, "none");
}

#define DH_MOST "ffdhe3072"
#define DH_MOST_STRENGTH 128		/* bits of security */

/* "auto" chooses a group as strong as the certificate's key, which takes longer than the key operation if the key is large. */
bool tls_options_bound_dh(SSL_CTX *ssl, const struct tls_config *config)
{
	char name[] = DH_MOST;
	OSSL_PARAM parameters[] = { OSSL_PARAM_utf8_string(OSSL_PKEY_PARAM_GROUP_NAME, name, sizeof name - 1), OSSL_PARAM_END };
	const EVP_PKEY *own = SSL_CTX_get0_privatekey(ssl);
	EVP_PKEY_CTX *making;
	EVP_PKEY *group = NULL;
	bool made;

	if (!config->server_side || !is_auto(config->dh_params) || !own || EVP_PKEY_get_security_bits(own) <= DH_MOST_STRENGTH)
		return true;
	making = EVP_PKEY_CTX_new_from_name(NULL, "DH", NULL);
	made = making && EVP_PKEY_fromdata_init(making) == 1 && EVP_PKEY_fromdata(making, &group, EVP_PKEY_KEY_PARAMETERS, parameters) == 1;
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

bool tls_options_apply(SSL_CTX *ssl, const struct tls_config *config, char *why, size_t why_size)
{
	int chosen = parse_protocols(config->protocols);
	const char *kind = NULL, *value = NULL;

	if (!chosen)
		kind = "protocols", value = config->protocols;
	else if (!apply_ciphers(ssl, config->ciphers, is_curve_word(config->ecdh_curve, "none")))
		kind = "ciphers", value = config->ciphers;
	else if (!apply_tls13_ciphers(ssl, config->tls13_ciphers))
		kind = "TLS 1.3 ciphers", value = config->tls13_ciphers;
	else if (!apply_curve(ssl, config->ecdh_curve))
		kind = "ECDH curve", value = config->ecdh_curve;
	else if (!apply_dh(ssl, config->dh_params))
		kind = "DH parameters", value = config->dh_params;
	ERR_clear_error();
	if (kind) {
		snprintf(why, why_size, "unknown %s \"%s\"", kind, value ? value : "");
		return false;
	}
	apply_protocols(ssl, chosen);
	refuse_slow_groups(ssl, config->ecdh_curve);
	return true;
}
