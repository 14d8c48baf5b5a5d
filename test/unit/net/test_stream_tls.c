/* Streams with TLS: bulk transfers, single bytes, client certificates, resumption, and every kind of connection end. */
#include "secured.h"

#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

static int epoll_ctls, receives;

int epoll_ctl(int epfd, int op, int fd, struct epoll_event *event)
{
	epoll_ctls++;
	return (int)syscall(SYS_epoll_ctl, epfd, op, fd, event);
}

ssize_t recv(int fd, void *buffer, size_t size, int flags)
{
	receives++;
	return syscall(SYS_recvfrom, fd, buffer, size, flags, NULL, NULL);
}

TEST(handshake_and_text)
{
	char text[80];

	REQUIRE(begin(&plain, false));
	CHECK_TEXT(a.problem, "");
	CHECK_TEXT(b.problem, "");
	CHECK_TEXT(stream_tls_text(&a.stream, text, sizeof text), "TLSv1.3/TLS_AES_256_GCM_SHA384");
	CHECK_TEXT(SSL_get_servername(b.stream.ssl, TLSEXT_NAMETYPE_host_name), "db.test");
	CHECK(!tls_peer_is_verified(b.stream.ssl));
	end();
	CHECK_TEXT(stream_tls_text(&a.stream, text, sizeof text), "");
}

TEST(steady_state)
{
	char buffer[100];

	REQUIRE(begin(&plain, false));
	SETTLE;
	stream_read(&a.stream, buffer, sizeof buffer);	/* the session ticket */
	SETTLE;
	b.readable = epoll_ctls = receives = 0;
	for (int i = 1; i <= 50; i++) {
		struct iovec pieces[3] = { { block, 5 }, { block + 5, 10 }, { block + 15, 20 } };

		REQUIRE(stream_write(&a.stream, pieces, 3));
		UNTIL(b.readable == i);
		CHECK_INT(stream_read(&b.stream, buffer, sizeof buffer), 35);
		CHECK(memcmp(buffer, block, 35) == 0);
		CHECK(!stream_has_buffered(&b.stream));
	}
	CHECK_INT(epoll_ctls, 0);
	CHECK_INT(receives, 50);	/* header and body of a record take one read */
	CHECK(!a.stream.out.data);
	end();
}

TEST(one_byte_at_a_time)
{
	char c;
	int got = 0;

	REQUIRE(begin(&plain, false));
	REQUIRE(stream_write_bytes(&a.stream, block, 100));
	UNTIL(b.readable > 0);
	SETTLE;
	b.readable = 0;
	CHECK_INT(stream_read(&b.stream, &c, 1), 1);
	/* The socket has no unread data; TLS has 99 decrypted bytes. */
	SETTLE;
	CHECK_INT(b.readable, 0);
	CHECK(stream_has_buffered(&b.stream));
	stream_set_reading(&b.stream, true);
	CHECK_INT(b.readable, 0);
	UNTIL(b.readable == 1);
	/* A change of the registration keeps the pending notification. */
	stream_set_reading(&b.stream, true);
	while (stream_unsent(&b.stream) == 0)
		REQUIRE(stream_write_bytes(&b.stream, block, 65536));
	CHECK(b.stream.armed & EV_WRITE);
	UNTIL(b.readable == 2);
	for (got = 1; stream_has_buffered(&b.stream); got++) {
		REQUIRE(stream_read(&b.stream, &c, 1) == 1);
		CHECK_INT((unsigned char)c, got);
	}
	CHECK_INT(got, 100);
	CHECK_INT(stream_read(&b.stream, &c, 1), STREAM_AGAIN);
	end();
}

/* Keeps both directions full; every reader takes little at a time. */
static void pump(size_t total, size_t step, size_t at_once)
{
	size_t sent_a = 0, sent_b = 0;
	unsigned char buffer[32768];

	alarm(120);
	while (a.got < total || b.got < total) {
		struct end *const ends[] = { &a, &b };
		size_t *const sent[] = { &sent_a, &sent_b };

		for (int i = 0; i < 2; i++) {
			struct end *e = ends[i];
			ssize_t got = stream_read(&e->stream, buffer, at_once);

			if (got > 0)
				take(e, buffer, (size_t)got);
			else if (got != STREAM_AGAIN)
				REQUIRE(got == STREAM_AGAIN);
			if (*sent[i] < total && stream_unsent(&e->stream) == 0) {
				/* Two pieces, so that records are combined. */
				struct iovec pieces[2] = { { block, 7 }, { block + 7, step - 7 } };

				REQUIRE(stream_write(&e->stream, pieces, 2));
				*sent[i] += step;
			}
			CHECK(stream_unsent(&e->stream) <= step + 2048);
		}
		event_base_loop(base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
	}
	alarm(0);
	CHECK_INT(sent_a, total);
	CHECK_INT(sent_b, total);
}

TEST(fifty_megabytes_both_ways_to_slow_readers)
{
	REQUIRE(begin(&plain, false));
	pump(50 * 1024 * 1024, 128 * 1024, 20000);
	CHECK_INT(a.got, 50 * 1024 * 1024);
	CHECK_INT(b.got, 50 * 1024 * 1024);
	CHECK(!a.garbled && !b.garbled);
	UNTIL(stream_unsent(&a.stream) + stream_unsent(&b.stream) == 0);
	CHECK(!a.stream.out.data && !b.stream.out.data);
	end();
}

TEST(bulk_transfer_with_events_only)
{
	size_t sent = 0;

	REQUIRE(begin(&plain, true));
	b.drain_reads = true;
	b.limit = 5000;
	while (sent < 2 * 1024 * 1024) {
		UNTIL(stream_unsent(&a.stream) == 0);
		REQUIRE(stream_write_bytes(&a.stream, block, 65536));
		sent += 65536;
	}
	UNTIL(b.got == sent);
	CHECK(!b.garbled);
	end();
}

TEST(cleartext_bytes_are_sent_before_the_handshake)
{
	size_t total = 0;

	REQUIRE(make_contexts(&plain) && two_ends(&a, &b, true));
	for (; stream_unsent(&b.stream) == 0; total += 4096)
		REQUIRE(stream_write_bytes(&b.stream, block, 4096));
	REQUIRE(stream_secure_accept(&b.stream, accepting, NULL, 0));
	CHECK(!stream_write_bytes(&b.stream, block, 1));	/* no other bytes may come between */
	CHECK(stream_unsent(&b.stream) > 0);
	a.drain_reads = true;
	UNTIL(a.got == total);
	CHECK_INT(b.secured, 0);
	REQUIRE(stream_secure_connect(&a.stream, connecting, "db.test", false, NULL));
	UNTIL(a.secured && b.secured);
	CHECK(BOTH_FINE);
	CHECK(!a.garbled);
	CHECK_INT(a.got, total);
	end();
}

/* The accepting side asks before each expensive step and waits until it may continue. The first step is granted. */
static void check_steps(const char *protocols, bool wants_certificate, int asked)
{
	const struct scene scene = { .name = "db.test", .protocols = protocols, .client = wants_certificate ? &client : NULL,
				     .client_ca = wants_certificate ? ca.cert_file : NULL, .request_client = wants_certificate };

	REQUIRE(make_contexts(&scene) && two_ends(&a, &b, false) && stream_secure_accept(&b.stream, accepting, NULL, 0) &&
		stream_secure_connect(&a.stream, connecting, "db.test", false, NULL));
	b.holds_steps = true;
	for (int steps = 0; steps < asked; steps++) {
		UNTIL(b.asked > steps);
		SETTLE;
		CHECK_INT(b.asked, steps + 1);
		CHECK_INT(b.secured, 0);
		CHECK_INT(b.stream.armed, 0);
		stream_secure_go_on(&b.stream);
	}
	UNTIL(a.secured && b.secured);
	CHECK(BOTH_FINE);
	CHECK_INT(a.asked, 0);
	CHECK_INT(b.asked, asked);
	stream_secure_go_on(&b.stream);
	end();
}

/* Clients that began before a RELOAD keep the old context, and their handshakes are measured too. */
TEST(time_of_handshakes_is_counted_over_all_contexts)
{
	struct tls_context *old;
	usec_t before = tls_accepting_spent, after;

	REQUIRE(begin(&plain, false));
	old = tls_context_hold(accepting);
	after = tls_accepting_spent;
	CHECK(after > before);
	end();
	REQUIRE(make_contexts(&plain));
	CHECK_INT(tls_accepting_spent, after);
	tls_context_drop(&accepting);
	accepting = old;
	REQUIRE(shake(&plain, false));
	CHECK(tls_accepting_spent > after);
	end();
}

TEST(expensive_handshake_steps_wait_for_permission)
{
	/* the first step has nothing to read yet; the ClientHello is the second */
	check_steps("tlsv1.3", false, 1);
	check_steps("tlsv1.2", false, 2);
	/* reading and verifying a certificate takes time too */
	check_steps("tlsv1.3", true, 2);
	check_steps("tlsv1.2", true, 2);
}

TEST(client_certificates)
{
	char name[20];

	REQUIRE(begin(&(struct scene){ .client = &client, .client_ca = ca.cert_file, .verify_client = true }, false));
	CHECK(BOTH_FINE);
	CHECK(tls_peer_is_verified(b.stream.ssl));
	CHECK(tls_peer_common_name(b.stream.ssl, name, sizeof name));
	CHECK_TEXT(name, "alice");
	CHECK(!tls_peer_common_name(b.stream.ssl, name, 5));
	end();
	REQUIRE(begin(&(struct scene){ .client = &odd_name, .client_ca = ca.cert_file, .verify_client = true }, false));
	CHECK(BOTH_FINE);
	CHECK(!tls_peer_common_name(b.stream.ssl, name, sizeof name));
	end();
	REQUIRE(begin(&(struct scene){ .client_ca = ca.cert_file, .verify_client = true }, false));
	CHECK_TEXT(b.problem, "peer did not return a certificate");
	/* In TLS 1.3 the client has finished by then and gets the alert with its next read. */
	a.drain_reads = true;
	UNTIL(a.last == STREAM_FAILED);
	CHECK(strstr(stream_error(&a.stream), "certificate required"));
	end();
	REQUIRE(begin(&(struct scene){ .client_ca = ca.cert_file, .request_client = true }, false));
	CHECK(BOTH_FINE);
	CHECK(!tls_peer_is_verified(b.stream.ssl));
	CHECK(!tls_peer_common_name(b.stream.ssl, name, sizeof name));
	end();
	REQUIRE(begin(&(struct scene){ .client = &client, .client_ca = other_ca.cert_file, .request_client = true }, false));
	CHECK(strstr(b.problem, "certificate verify failed: "));
	end();
}

TEST(old_protocol_versions_must_be_enabled_explicitly)
{
	char text[80];

	REQUIRE(begin(&(struct scene){ .protocols = "tlsv1.0", .ciphers = "DEFAULT:@SECLEVEL=0" }, false));
	CHECK(BOTH_FINE);
	CHECK(strncmp(stream_tls_text(&a.stream, text, sizeof text), "TLSv1/", 6) == 0);
	end();
}

TEST(other_alpn_protocols_are_refused)
{
	static const unsigned char web[] = "\002h2";

	REQUIRE(make_contexts(&plain) && two_ends(&a, &b, false));
	REQUIRE(stream_secure_accept(&b.stream, accepting, NULL, 0));
	REQUIRE(stream_secure_connect(&a.stream, connecting, "db.test", false, NULL));
	SSL_set_alpn_protos(a.stream.ssl, web, sizeof web - 1);
	UNTIL(a.secured && b.secured);
	CHECK(a.problem[0] && b.problem[0]);
	end();
}

/* ---- resumption ---- */

/* Makes three connections with the same contexts and checks whether the later ones resume the session. */
static void check_resumed(const struct scene *scene, bool resumes)
{
	for (int i = 0; i < 3; i++) {
		REQUIRE(shake(scene, false));
		CHECK(BOTH_FINE);
		CHECK_INT(SSL_session_reused(a.stream.ssl), resumes && i > 0);
		CHECK_INT(SSL_session_reused(b.stream.ssl), resumes && i > 0);
		/* The verification of the first handshake still applies. */
		CHECK(tls_peer_is_verified(a.stream.ssl));
		CHECK_INT(tls_peer_is_verified(b.stream.ssl), scene->client != NULL);
		/* The ticket is a record without data for the reader. */
		a.drain_reads = b.drain_reads = true;
		REQUIRE(stream_write_bytes(&b.stream, block, 1));
		UNTIL(a.got == 1);
		two_ends_close(&a, &b);
	}
}

static void check_resumption(const char *protocols)
{
	struct scene scene = { .name = "db.test", .protocols = protocols, .verify = true };

	REQUIRE(make_contexts(&scene));
	check_resumed(&scene, true);
	/* No resumption for another server name, nor if the first handshake did not verify the name. */
	scene.name = "other.test";
	REQUIRE(shake(&scene, false));
	CHECK(!SSL_session_reused(a.stream.ssl));
	two_ends_close(&a, &b);
	scene.name = "db.test";
	scene.verify_name = true;
	REQUIRE(shake(&scene, false));
	CHECK(BOTH_FINE);
	CHECK(!SSL_session_reused(a.stream.ssl));
	end();
}

TEST(sessions_are_resumed)
{
	check_resumption("tlsv1.3");
	check_resumption("tlsv1.2");
}

/* A ticket would outlive the certificate and its CA. */
TEST(sessions_with_client_certificates_are_not_resumed)
{
	static const char *const protocols[] = { "tlsv1.3", "tlsv1.2" };

	for (int i = 0; i < 4; i++) {
		struct scene scene = { .name = "db.test", .protocols = protocols[i % 2], .verify = true, .client = &client,
				       .client_ca = ca.cert_file, .verify_client = i < 2, .request_client = i >= 2 };

		REQUIRE(make_contexts(&scene));
		check_resumed(&scene, false);
		tls_context_drop(&connecting);
		tls_context_drop(&accepting);
		/* a requested certificate, and no certificate */
		scene.client = NULL;
		if (scene.verify_client)
			continue;
		REQUIRE(make_contexts(&scene));
		check_resumed(&scene, true);
		tls_context_drop(&connecting);
		tls_context_drop(&accepting);
	}
}

/* ---- ends ---- */

TEST(close_notify_ends_the_stream)
{
	int waiting = 0;

	REQUIRE(begin(&plain, false));
	b.drain_reads = true;
	stream_set_reading(&b.stream, false);
	REQUIRE(stream_write_bytes(&a.stream, block, 10));
	SSL_shutdown(a.stream.ssl);
	stream_write_bytes(&a.stream, NULL, 0);	/* reads all pending bytes */
	/* One recv reads both records: no further event reports the end. */
	UNTIL(ioctl(b.stream.fd, FIONREAD, &waiting) == 0 && waiting >= 32 + 24);
	stream_set_reading(&b.stream, true);
	UNTIL(b.last == STREAM_EOF);
	CHECK_INT(b.got, 10);
	CHECK_INT(stream_read(&b.stream, block, 1), STREAM_EOF);
	end();
}

TEST(end_without_close_notify)
{
	REQUIRE(begin(&plain, false));
	b.drain_reads = true;
	REQUIRE(stream_write_bytes(&a.stream, block, 10));
	shutdown(a.stream.fd, SHUT_WR);
	UNTIL(b.last < 0);
	CHECK_INT(b.last, STREAM_EOF);
	CHECK_INT(b.got, 10);
	CHECK_INT(stream_read(&b.stream, block, 1), STREAM_EOF);
	end();
}

TEST(end_within_a_record)
{
	/* A header without body, a partial header, and a header with part of its body. */
	static const unsigned char record[] = { 23, 3, 3, 0, 50, 1, 2, 3 };
	static const size_t cuts[] = { 5, 3, 8 };

	for (int i = 0; i < 3; i++) {
		REQUIRE(begin(&plain, false));
		b.drain_reads = true;
		REQUIRE(write(a.stream.fd, record, cuts[i]) == (ssize_t)cuts[i]);
		SETTLE;
		CHECK_INT(b.last, STREAM_AGAIN);
		CHECK(!stream_has_buffered(&b.stream));
		shutdown(a.stream.fd, SHUT_WR);
		UNTIL(b.last < 0);
		CHECK_INT(b.last, STREAM_FAILED);
		CHECK_TEXT(stream_error(&b.stream), "the connection ended within a TLS record");
		CHECK_INT(stream_read(&b.stream, block, 1), STREAM_FAILED);
		end();
	}
}

TEST(a_forged_record_fails)
{
	static const unsigned char record[25] = { 23, 3, 3, 0, 20 };

	REQUIRE(begin(&plain, false));
	b.drain_reads = true;
	REQUIRE(stream_write_bytes(&a.stream, block, 10));
	REQUIRE(write(a.stream.fd, record, sizeof record) == sizeof record);
	UNTIL(b.last < 0);
	CHECK_INT(b.last, STREAM_FAILED);
	CHECK_INT(b.got, 10);
	CHECK(strstr(stream_error(&b.stream), "bad record mac"));
	end();
}

TEST(reset_with_output_pending)
{
	REQUIRE(begin(&plain, true));
	while (stream_unsent(&a.stream) == 0)
		REQUIRE(stream_write_bytes(&a.stream, block, 65536));
	a.drained = 0;
	reset(&b.stream);
	UNTIL(a.drained == 1);
	CHECK(!stream_write_bytes(&a.stream, block, 1));
	a.drain_reads = true;
	UNTIL(a.last == STREAM_FAILED);
	CHECK(a.stream.error == ECONNRESET || a.stream.error == EPIPE);
	end();
}

TEST(peer_without_tls)
{
	REQUIRE(make_contexts(&plain) && two_ends(&a, &b, false));
	REQUIRE(stream_secure_accept(&b.stream, accepting, NULL, 0));
	REQUIRE(stream_write_bytes(&a.stream, "Q\0\0\0\015select 1", 14));
	UNTIL(b.secured);
	CHECK(b.problem[0]);
	CHECK_TEXT(stream_error(&b.stream), b.problem);
	SETTLE;
	CHECK_INT(b.secured, 1);
	end();
}

TEST(peer_closes_during_the_handshake)
{
	REQUIRE(make_contexts(&plain) && two_ends(&a, &b, false));
	REQUIRE(stream_secure_connect(&a.stream, connecting, "db.test", false, NULL));
	UNTIL(b.readable > 0);
	REQUIRE(stream_read(&b.stream, block + 1000, 60000) > 0);
	shutdown(b.stream.fd, SHUT_WR);
	UNTIL(a.secured);
	CHECK_TEXT(a.problem, "the peer closed the connection during the TLS handshake");
	end();

	REQUIRE(make_contexts(&plain) && two_ends(&a, &b, false));
	REQUIRE(stream_secure_accept(&b.stream, accepting, NULL, 0));
	reset(&a.stream);
	UNTIL(b.secured);
	CHECK_TEXT(b.problem, strerror(ECONNRESET));
	end();

	/* The owner may close in the middle of a handshake. */
	REQUIRE(make_contexts(&plain) && two_ends(&a, &b, false));
	REQUIRE(stream_secure_accept(&b.stream, accepting, NULL, 0));
	REQUIRE(stream_secure_connect(&a.stream, connecting, "db.test", false, NULL));
	event_base_loop(base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
	end();
	CHECK_INT(a.secured + b.secured, 0);
}

/* ---- server names: the requested name, and the certificates that match it ---- */

TEST(an_address_is_not_sent_as_a_name)
{
	REQUIRE(begin(&(struct scene){ .name = "127.0.0.1" }, false));
	CHECK(BOTH_FINE);
	CHECK(!SSL_get_servername(b.stream.ssl, TLSEXT_NAMETYPE_host_name));
	end();
}

static void check_names(const struct scene *scene, const char *problem)
{
	REQUIRE(begin(scene, false));
	CHECK_TEXT(a.problem, problem);
	if (*problem) {
		CHECK_TEXT(stream_error(&a.stream), problem);
		CHECK(!stream_write_bytes(&a.stream, block, 1));
		CHECK_INT(stream_read(&a.stream, block, 1), STREAM_FAILED);
		CHECK_INT(a.stream.armed, 0);
	} else {
		CHECK(tls_peer_is_verified(a.stream.ssl));
	}
	end();
}

TEST(names_in_certificates)
{
#define NAME(n, ...) &(struct scene){ .name = n, .verify = true, .verify_name = true, __VA_ARGS__ }
	check_names(NAME("db.test", .server = NULL), "");
	check_names(NAME("x.wild.test", .server = NULL), "");
	check_names(NAME("127.0.0.1", .server = NULL), "");
	check_names(NAME("::1", .server = NULL), "");
	check_names(NAME("127.0.0.1", .server = &ip_in_name), "");
	/* A certificate with alternative names: the common name is ignored. */
	check_names(NAME("server.test", .server = NULL), "certificate verify failed: hostname mismatch");
	check_names(NAME("x.y.wild.test", .server = NULL), "certificate verify failed: hostname mismatch");
	check_names(NAME("127.0.0.2", .server = NULL), "certificate verify failed: IP address mismatch");
	check_names(NAME("127.0.0.2", .server = &ip_in_name), "certificate verify failed: IP address mismatch");
	check_names(NAME("db.test", .server = &expired), "certificate verify failed: certificate has expired");
	check_names(NAME("db.test", .server_ca = other_ca.cert_file),
		    "certificate verify failed: unable to get local issuer certificate");
	/* verify-ca: any name; the CA is checked. */
	check_names(&(struct scene){ .name = "other.test", .verify = true }, "");
	check_names(&(struct scene){ .name = "db.test", .verify = true, .server_ca = other_ca.cert_file },
		    "certificate verify failed: unable to get local issuer certificate");
	/* A given name is verified whatever the context says. */
	check_names(&(struct scene){ .name = "other.test", .verify_name = true }, "certificate verify failed: hostname mismatch");
	REQUIRE(make_contexts(&plain) && two_ends(&a, &b, false));
	CHECK(!stream_secure_connect(&a.stream, connecting, NULL, true, NULL));
	end();
}

UNIT_ALONE
