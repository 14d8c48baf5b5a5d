/*
 * Peers that cause TLS work: records without data, and answers that are not read. OpenSSL plays one side and sends key updates on demand; messages
 * that OpenSSL never sends are built here with the keys of a TLS 1.2 session.
 */
#include "net/tls_context.h"
#include "secured.h"

#include <openssl/kdf.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

#define ABUSE "too many TLS messages without data"
#define FEW 25				/* number of messages of any kind that must not close a connection */
#define MANY 200

static int receives;
static bool full;			/* the socket buffers are full */

ssize_t recv(int fd, void *buffer, size_t size, int flags)
{
	receives++;
	return syscall(SYS_recvfrom, fd, buffer, size, flags, NULL, NULL);
}

ssize_t send(int fd, const void *data, size_t size, int flags)
{
	if (full) {
		errno = EAGAIN;
		return -1;
	}
	return syscall(SYS_sendto, fd, data, size, flags, NULL, 0);
}

static void flush(struct stream *stream)
{
	stream_write_bytes(stream, NULL, 0);
}

static void change_keys(struct stream *stream, int count, int kind)
{
	for (int i = 0; i < count; i++) {
		SSL_key_update(stream->ssl, kind);
		SSL_do_handshake(stream->ssl);
		flush(stream);
	}
}

static bool begin_13(void)
{
	if (!begin(&plain, false))
		return false;
	a.drain_reads = b.drain_reads = true;
	SETTLE;
	a.last = b.last = STREAM_AGAIN;
	return true;
}

/* ---- TLS 1.3 ---- */

static void check_key_updates(struct end *from, struct end *to, int kind)
{
	change_keys(&from->stream, MANY, kind);
	UNTIL(to->last < 0);
	CHECK_INT(to->last, STREAM_FAILED);
	CHECK_TEXT(stream_error(&to->stream), ABUSE);
	CHECK_TEXT(stream_abuse(&to->stream), ABUSE);
	CHECK_INT(stream_read(&to->stream, block, 1), STREAM_FAILED);
	CHECK(stream_unsent(&to->stream) < 4096);
}

TEST(endless_key_updates_fail)
{
	static const int kinds[] = { SSL_KEY_UPDATE_NOT_REQUESTED, SSL_KEY_UPDATE_REQUESTED };

	for (int i = 0; i < 2; i++) {
		REQUIRE(begin_13());
		check_key_updates(&a, &b, kinds[i]);
		end();
		/* a hostile server is treated alike */
		REQUIRE(begin_13());
		check_key_updates(&b, &a, kinds[i]);
		end();
	}
}

TEST(key_updates_between_data_are_allowed)
{
	REQUIRE(begin_13());
	for (int i = 1; i <= 10; i++) {
		change_keys(&a.stream, FEW, SSL_KEY_UPDATE_REQUESTED);
		REQUIRE(stream_write_bytes(&a.stream, block, 256));
		UNTIL(b.got == (size_t)i * 256 || b.last < 0);
		CHECK(b.last >= 0);
		REQUIRE(stream_write_bytes(&b.stream, block, 256));
		UNTIL(a.got == (size_t)i * 256 || a.last < 0);
		CHECK(a.last >= 0);
	}
	CHECK(!a.garbled && !b.garbled);
	CHECK(!stream_abuse(&a.stream) && !stream_abuse(&b.stream));
	end();
}

/* Data between the requests does not reset the count while answers are queued. */
TEST(unread_answers_are_limited)
{
	REQUIRE(begin_13());
	/* nothing reaches a any more, and a reads nothing */
	stream_set_reading(&a.stream, false);
	for (size_t i = 1; i <= 10 && b.last >= 0; i++) {
		change_keys(&a.stream, FEW, SSL_KEY_UPDATE_REQUESTED);
		REQUIRE(stream_write_bytes(&a.stream, block, 256));
		full = true;
		UNTIL(b.got == 256 * i || b.last < 0);
		full = false;
	}
	CHECK_INT(b.last, STREAM_FAILED);
	CHECK_TEXT(stream_error(&b.stream), ABUSE);
	CHECK(stream_unsent(&b.stream) < 4096);
	end();
}

TEST(queued_answer_is_sent)
{
	REQUIRE(begin_13());
	/* OpenSSL answers the first request when it reads the second */
	change_keys(&a.stream, 2, SSL_KEY_UPDATE_REQUESTED);
	full = true;
	UNTIL(stream_unsent(&b.stream) > 0);
	full = false;
	CHECK(b.stream.armed & EV_WRITE);
	UNTIL(b.drained == 1);
	CHECK_INT(stream_unsent(&b.stream), 0);
	CHECK(!(b.stream.armed & EV_WRITE));
	REQUIRE(stream_write_bytes(&b.stream, block, 100));
	UNTIL(a.got == 100);
	CHECK(!a.garbled);
	end();
}

TEST(queued_answer_to_a_closed_peer)
{
	REQUIRE(begin_13());
	/* OpenSSL answers the first request when it reads the second */
	change_keys(&a.stream, 2, SSL_KEY_UPDATE_REQUESTED);
	full = true;
	UNTIL(stream_unsent(&b.stream) > 0);
	full = false;
	reset(&a.stream);
	UNTIL(b.last < 0 && b.drained == 1);
	CHECK_INT(b.last, STREAM_FAILED);
	CHECK(!stream_abuse(&b.stream));
	end();
}

/* ---- one call ---- */

static int large_ticket(SSL *ssl, void *context)
{
	(void)context;
	return SSL_SESSION_set1_ticket_appdata(SSL_get_session(ssl), block, 60000);
}

TEST(records_per_call_are_limited)
{
	enum { TICKETS = 5, LEAST = TICKETS * 60000 };
	int room = LEAST, left = 0;

	REQUIRE(make_contexts(&plain));
	REQUIRE(SSL_CTX_set_session_ticket_cb(accepting->ssl, large_ticket, NULL, NULL) == 1);
	REQUIRE(shake(&plain, false));
	stream_set_reading(&a.stream, false);
	REQUIRE(setsockopt(a.stream.fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof room) == 0);
	for (int i = 0; i < TICKETS; i++) {
		SSL_new_session_ticket(b.stream.ssl);
		SSL_do_handshake(b.stream.ssl);
		flush(&b.stream);
	}
	alarm(20);
	while (left < LEAST) {
		SETTLE;
		REQUIRE(ioctl(a.stream.fd, FIONREAD, &left) == 0);
	}
	alarm(0);
	receives = 0;
	CHECK_INT(stream_read(&a.stream, block + 1000, 1000), STREAM_AGAIN);
	CHECK(receives <= 3);
	REQUIRE(ioctl(a.stream.fd, FIONREAD, &left) == 0);
	CHECK(left > LEAST / 3);
	/* the loop comes back for the rest */
	a.drain_reads = true;
	stream_set_reading(&a.stream, true);
	REQUIRE(stream_write_bytes(&b.stream, block, 100));
	UNTIL(a.got == 100 || a.last < 0);
	CHECK(!a.garbled && !stream_abuse(&a.stream));
	end();
}

/* ---- TLS 1.2, by hand ---- */

/* The write keys of one of the ends, as in RFC 5246 section 6.3 and RFC 5288 for AES-128-GCM, from its second record on. */
static struct { uint8_t key[16], salt[4]; uint64_t sequence; int fd; } writer;

static bool write_as(const struct stream *stream)
{
	SSL *ssl = stream->ssl;
	int accepts = SSL_is_server(ssl);
	uint8_t master[48], seed[13 + 64], keys[40];
	EVP_PKEY_CTX *context = EVP_PKEY_CTX_new_id(EVP_PKEY_TLS1_PRF, NULL);
	size_t size = sizeof keys;
	bool ok;

	memcpy(seed, "key expansion", 13);
	SSL_get_server_random(ssl, seed + 13, 32);
	SSL_get_client_random(ssl, seed + 13 + 32, 32);
	SSL_SESSION_get_master_key(SSL_get_session(ssl), master, sizeof master);
	ok = EVP_PKEY_derive_init(context) == 1 && EVP_PKEY_CTX_set_tls1_prf_md(context, EVP_sha256()) == 1 &&
	     EVP_PKEY_CTX_set1_tls1_prf_secret(context, master, sizeof master) == 1 &&
	     EVP_PKEY_CTX_add1_tls1_prf_seed(context, seed, sizeof seed) == 1 && EVP_PKEY_derive(context, keys, &size) == 1;
	EVP_PKEY_CTX_free(context);
	memcpy(writer.key, keys + 16 * accepts, 16);
	memcpy(writer.salt, keys + 32 + 4 * accepts, 4);
	writer.sequence = 1;
	writer.fd = stream->fd;
	return ok;
}

static void big_endian(uint8_t *to, uint64_t value, int size)
{
	while (size-- > 0) {
		to[size] = (uint8_t)value;
		value >>= 8;
	}
}

/* Sends any record as that end would send it. */
static void send_record(uint8_t type, const void *data, int size)
{
	uint8_t record[5 + 8 + 512 + 16] = { type, 3, 3 }, nonce[12], extra[13];
	EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
	int done;

	big_endian(record + 3, (uint64_t)(8 + size + 16), 2);
	big_endian(record + 5, writer.sequence, 8);
	memcpy(nonce, writer.salt, 4);
	memcpy(nonce + 4, record + 5, 8);
	big_endian(extra, writer.sequence++, 8);
	memcpy(extra + 8, record, 3);
	big_endian(extra + 11, (uint64_t)size, 2);
	EVP_EncryptInit_ex(context, EVP_aes_128_gcm(), NULL, writer.key, nonce);
	EVP_EncryptUpdate(context, NULL, &done, extra, sizeof extra);
	EVP_EncryptUpdate(context, record + 13, &done, data, size);
	EVP_EncryptFinal_ex(context, record + 13 + size, &done);
	EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_GCM_GET_TAG, 16, record + 13 + size);
	EVP_CIPHER_CTX_free(context);
	if (write(writer.fd, record, (size_t)(13 + size + 16)) != 13 + size + 16)
		UNIT_FAIL("the socket is full");
}

static bool begin_12(const struct end *playing)
{
	static const struct scene old = { .name = "db.test", .protocols = "tlsv1.2", .ciphers = "ECDHE-ECDSA-AES128-GCM-SHA256" };

	if (!begin(&old, false) || !write_as(&playing->stream))
		return false;
	a.drain_reads = playing != &a;
	b.drain_reads = playing != &b;
	return true;
}

/* The header of a ClientHello is sufficient for a refusal. */
static const uint8_t hello[] = { SSL3_MT_CLIENT_HELLO, 0, 0, 0 };
static const uint8_t warning[] = { SSL3_AL_WARNING, SSL_AD_UNRECOGNIZED_NAME };

TEST(renegotiation_is_refused_a_limited_number_of_times)
{
	REQUIRE(begin_12(&a));
	for (int i = 0; i < FEW; i++)
		send_record(SSL3_RT_HANDSHAKE, hello, sizeof hello);
	send_record(SSL3_RT_APPLICATION_DATA, block, 100);
	UNTIL(b.got == 100 || b.last < 0);
	CHECK(b.last >= 0 && !stream_abuse(&b.stream));
	for (int i = 0; i < MANY; i++)
		send_record(SSL3_RT_HANDSHAKE, hello, sizeof hello);
	UNTIL(b.last < 0);
	CHECK_INT(b.last, STREAM_FAILED);
	CHECK_TEXT(stream_error(&b.stream), ABUSE);
	end();
}

/* OpenSSL ends a connection after some consecutive warnings or empty records; records between them would reset its count. */
TEST(alternating_warnings_and_empty_records_fail)
{
	REQUIRE(begin_12(&a));
	for (int i = 0; i < MANY; i++) {
		send_record(SSL3_RT_ALERT, warning, sizeof warning);
		send_record(SSL3_RT_APPLICATION_DATA, "", 0);
		send_record(SSL3_RT_HANDSHAKE, hello, sizeof hello);
	}
	UNTIL(b.last < 0);
	CHECK_INT(b.last, STREAM_FAILED);
	CHECK_TEXT(stream_error(&b.stream), ABUSE);
	end();
}

TEST(endless_renegotiation_by_the_server_fails)
{
	static const uint8_t request[] = { SSL3_MT_HELLO_REQUEST, 0, 0, 0 };

	REQUIRE(begin_12(&b));
	for (int i = 0; i < MANY; i++)
		send_record(SSL3_RT_HANDSHAKE, request, sizeof request);
	UNTIL(a.last < 0);
	CHECK_INT(a.last, STREAM_FAILED);
	CHECK_TEXT(stream_error(&a.stream), ABUSE);
	end();
}

UNIT_ALONE
