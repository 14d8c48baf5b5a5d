/* Server names in TLS: the requested name, and the certificates that match it. */
#include "secured.h"

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

UNIT_MAIN
