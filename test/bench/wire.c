/*
 * The bytes of nullpg and loadpg, plain or over TLS.
 *
 * Read-ahead is on, and every read continues until nothing is left or the caller's buffer is full, so a large result needs few system calls here:
 * these two programs share a CPU, and the less they use, the more load the pooler gets.
 */
#include "wire.h"

#include <errno.h>
#include <openssl/err.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define READ_AHEAD ((size_t)64 * 1024)

/* Handles an operation without effect: it is repeated later, or the connection has ended. */
static ssize_t nothing_done(struct wire *w, int result)
{
	int error = SSL_get_error(w->ssl, result);

	ERR_clear_error();
	return error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE ? WIRE_LATER : WIRE_ENDED;
}

static ssize_t plain_result(ssize_t result)
{
	if (result >= 0)
		return result;
	return errno == EAGAIN || errno == EINTR ? WIRE_LATER : WIRE_ENDED;
}

static ssize_t tls_read(struct wire *w, char *to, size_t size)
{
	size_t have = 0, more;

	while (have < size) {
		int result = SSL_read_ex(w->ssl, to + have, size - have, &more);

		if (result <= 0)
			return have > 0 ? (ssize_t)have : nothing_done(w, result);
		have += more;
	}
	return (ssize_t)have;
}

ssize_t wire_read(struct wire *w, void *to, size_t size)
{
	return w->ssl ? tls_read(w, to, size) : plain_result(recv(w->fd, to, size, MSG_DONTWAIT));
}

ssize_t wire_write(struct wire *w, const void *from, size_t size)
{
	size_t done;
	int result;

	if (!w->ssl)
		return plain_result(send(w->fd, from, size, MSG_NOSIGNAL | MSG_DONTWAIT));
	result = SSL_write_ex(w->ssl, from, size, &done);
	return result > 0 ? (ssize_t)done : nothing_done(w, result);
}

bool wire_write_all(struct wire *w, const void *from, size_t size)
{
	const char *at = from;

	while (size > 0) {
		ssize_t done = wire_write(w, at, size);

		if (done == WIRE_ENDED)
			return false;
		if (done == WIRE_LATER) {
			struct pollfd room = { .fd = w->fd, .events = POLLOUT };

			poll(&room, 1, -1);
			continue;
		}
		at += done;
		size -= (size_t)done;
	}
	return true;
}

void wire_start_tls(struct wire *w, SSL_CTX *context, bool as_server, SSL_SESSION *session)
{
	w->ssl = SSL_new(context);
	if (!w->ssl || SSL_set_fd(w->ssl, w->fd) != 1)
		abort();
	if (as_server) {
		SSL_set_accept_state(w->ssl);
		return;
	}
	if (session)
		SSL_set_session(w->ssl, session);
	SSL_set_connect_state(w->ssl);
}

ssize_t wire_handshake(struct wire *w)
{
	int result = SSL_do_handshake(w->ssl);

	return result == 1 ? 1 : nothing_done(w, result);
}

void wire_close(struct wire *w)
{
	if (w->ssl) {
		SSL_shutdown(w->ssl);
		SSL_free(w->ssl);
		ERR_clear_error();
	}
	if (w->fd >= 0)
		close(w->fd);
	*w = (struct wire){ .fd = -1 };
}

SSL_CTX *wire_context(const char *cert_file, const char *key_file)
{
	SSL_CTX *context = SSL_CTX_new(cert_file ? TLS_server_method() : TLS_client_method());

	if (!context || (cert_file && (SSL_CTX_use_certificate_chain_file(context, cert_file) != 1 ||
				       SSL_CTX_use_PrivateKey_file(context, key_file, SSL_FILETYPE_PEM) != 1))) {
		ERR_print_errors_fp(stderr);
		exit(1);
	}
	SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
			 SSL_MODE_RELEASE_BUFFERS);
	SSL_CTX_set_read_ahead(context, 1);
	SSL_CTX_set_default_read_buffer_len(context, READ_AHEAD);
	return context;
}

void wire_many_descriptors(void)
{
	struct rlimit limit;

	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}
