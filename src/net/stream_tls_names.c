/*
 * Names in TLS: the server name that a connecting side sends (RFC 6066, section 3), and the check that the certificate contains
 * this name (RFC 6125).
 */
#include "net/stream_tls.h"

#include <arpa/inet.h>
#include <openssl/x509v3.h>
#include <string.h>

#include "base/mem.h"
#include "net/tls.h"
#include "net/tls_sessions.h"

static bool is_ip(const char *name)
{
	struct in6_addr any;

	return inet_pton(AF_INET, name, &any) == 1 || inet_pton(AF_INET6, name, &any) == 1;
}

/* OpenSSL's macro for this removes const in a way that compilers warn about. */
static bool send_server_name(SSL *ssl, const char *name)
{
	return SSL_ctrl(ssl, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name, (void *)(uintptr_t)name) == 1;
}

bool stream_tls_set_peer(struct stream *stream, const char *server_name, bool verify_name, SSL_SESSION *session)
{
	bool named = server_name && *server_name, ip = named && is_ip(server_name);

	if (named && !ip && !send_server_name(stream->ssl, server_name))
		return stream_tls_no_memory(stream);
	if (verify_name) {
		SSL_set_verify(stream->ssl, SSL_VERIFY_PEER, NULL);
		SSL_set_hostflags(stream->ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
		if (!named) {
			stream_set_reason(stream, "no server name to verify");
			return false;
		}
		/* Checked after the handshake, because the common name of the certificate is used if there are no alternative names. */
		if (ip && !(stream->verify_ip = mem_copy_string(server_name)))
			return stream_tls_no_memory(stream);
		if (!ip && !SSL_set1_host(stream->ssl, server_name))
			return stream_tls_no_memory(stream);
	}
	if (named)
		tls_sessions_use(stream->ssl, server_name, verify_name);
	if (session)
		SSL_set_session(stream->ssl, session);
	return true;
}

/* Looks for an address among the addresses of the certificate, or in the common name if the certificate has no alternative
   names: many certificates of PostgreSQL servers have only a common name. */
bool stream_tls_is_made_out_to(const struct stream *stream, const char *ip)
{
	X509 *certificate = SSL_get1_peer_certificate(stream->ssl);
	char common_name[256];
	bool matches;

	if (!certificate)
		return false;
	matches = X509_check_ip_asc(certificate, ip, 0) == 1;
	if (!matches && X509_get_ext_by_NID(certificate, NID_subject_alt_name, -1) < 0)
		matches = tls_peer_common_name(stream->ssl, common_name, sizeof common_name) && strcmp(common_name, ip) == 0;
	X509_free(certificate);
	return matches;
}
