/* The reader of HTTP requests: room web. */
#include "unit.h"
#include "web/http.h"

static struct http_request r;
static int status;

static enum http_verdict read_text(const char *text)
{
	return http_read(text, strlen(text), &r, &status);
}

/* The status of the refusal; 200: the request is good, 0: more is needed. */
static int verdict(const char *text)
{
	switch (read_text(text)) {
	case HTTP_READ_OK:
		return 200;
	case HTTP_READ_MORE:
		return 0;
	case HTTP_READ_BAD:
		break;
	}
	return status;
}

static const char whole[] = "POST /api/a%20b+c?x=1&db=sh%6Fp+x&y HTTP/1.1\r\nHost: localhost:80\r\nconnection: Keep-Alive, foo\r\n"
	"Accept: text/plain;q=0.1, application/openmetrics-text;version=1.0.0 ;q=0.9\r\nAuthorization: Basic dTpw\r\nX-Pgweir: 1\r\n"
	"Origin: http://localhost:80\r\nContent-Length: 4\r\n\r\nbodyNEXT";

TEST(a_request)
{
	char value[16];

	CHECK_INT(verdict(whole), 200);
	CHECK_INT(r.method, HTTP_METHOD_POST);
	CHECK_TEXT(r.path, "/api/a b+c");
	CHECK(!r.is_old && r.keeps_alive && r.wants_openmetrics && r.is_marked);
	CHECK_INT(r.size, sizeof(whole) - 1 - 4);
	CHECK_TEXT(r.host, "localhost:80");
	CHECK(http_parameter(&r, "db", value, sizeof(value)));
	CHECK_TEXT(value, "shop x");
	CHECK(http_parameter(&r, "x", value, sizeof(value)));
	CHECK_TEXT(value, "1");
	CHECK(http_parameter(&r, "y", value, sizeof(value)));
	CHECK_TEXT(value, "");
	CHECK(!http_parameter(&r, "z", value, sizeof(value)));
	CHECK(!http_parameter(&r, "db", value, 5));
	CHECK(r.is_same_origin && r.is_host_plain);
}

TEST(each_cut_asks_for_more)
{
	for (size_t size = 0; size < sizeof(whole) - 1 - 4; size++)
		CHECK_INT(http_read(whole, size, &r, &status), HTTP_READ_MORE);
}

TEST(versions_and_connections)
{
	CHECK_INT(verdict("GET / HTTP/1.0\r\n\r\n"), 200);
	CHECK(r.is_old && !r.keeps_alive);
	CHECK_INT(verdict("GET / HTTP/1.0\nConnection: keep-alive\n\n"), 200);
	CHECK(r.keeps_alive);
	CHECK_INT(verdict("GET / HTTP/1.1\nHost:\nConnection: close\nConnection: keep-alive\n\n"), 200);
	CHECK(!r.keeps_alive);
	CHECK_INT(verdict("\r\n\r\nHEAD / HTTP/1.9\r\nHost: a\r\n\r\n"), 200);
	CHECK_INT(r.method, HTTP_METHOD_HEAD);
	CHECK_INT(verdict("GET / HTTP/1.1\r\nHost:\ta\t\r\nX-!#$%&'*+-.^_`|~0: \xc3\xa4\tb\r\n\r\n"), 200);
}

TEST(refused)
{
	static const struct { int status; const char *text; } cases[] = {
		{ 400, "GET /\r\n" }, { 400, "GET / HTTP/1\r\n" }, { 505, "GET / HTTP/2.0\r\n" }, { 501, "BREW / HTTP/1.1\r\n" },
		{ 400, "GET x HTTP/1.1\r\n" }, { 400, "GET /% HTTP/1.1\r\n" }, { 400, "GET /%0 HTTP/1.1\r\n" }, { 400, "GET /%00 HTTP/1.1\r\n" },
		{ 400, "GET / HTTP/1.1\r\n\r\n" }, { 400, "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n" }, { 400, "GET / HTTP/1.1\r\nHost : a\r\n" },
		{ 400, "GET / HTTP/1.1\r\n Host: a\r\n" }, { 400, "GET / HTTP/1.1\r\n: a\r\n" }, { 400, "GET / HTTP/1.1\r\nHost\r\n" },
		{ 400, "GET / HTTP/1.1\r\nContent-Length: x\r\n" }, { 400, "GET / HTTP/1.1\r\nContent-Length: +1\r\n" },
		{ 400, "GET / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1\r\n" }, { 413, "GET / HTTP/1.1\r\nContent-Length: 4097\r\n" },
		{ 400, "GET / HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n" }, { 501, "GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n" },
		{ 400, "GET / HTTP/1.1\r\nAuthorization: a\r\nAuthorization: b\r\n" },
		{ 400, "GET / HTTP/1.Z\r\n" }, { 400, "GET / HTTP/1.\x80\r\n" },
		{ 400, "GET / HTTP/X.1\r\n" }, { 400, "GET / HTTP/1-1\r\n" }, { 400, "G(T / HTTP/1.1\r\n" },
		{ 400, " / HTTP/1.1\r\n" }, { 400, "GET /\t HTTP/1.1\r\n" },
		{ 400, "GET /\x01 HTTP/1.1\r\n" }, { 400, "GET / HTTP/1.1\r\r\n" }, { 400, "\rGET / HTTP/1.1\r\n" },
		{ 400, "GET / HTTP/1.1\rHost: a\r\n" }, { 400, "GET / HTTP/1.1\r\nHost: a\rX: b\r\n" },
		{ 400, "GET / HTTP/1.1\r\nHost: a\r\r\n" }, { 400, "GET / HTTP/1.1\r\nHost: a\r\n\r\r\n" },
		{ 400, "GET / HTTP/1.1\r\nA\x01: a\r\n" }, { 400, "GET / HTTP/1.1\r\nA\x7f: a\r\n" },
		{ 400, "GET / HTTP/1.1\r\nA\tB: a\r\n" }, { 400, "GET / HTTP/1.1\r\nA\xc3\xa4: a\r\n" },
		{ 400, "GET / HTTP/1.1\r\nA(b): a\r\n" }, { 400, "GET / HTTP/1.1\r\nA: a\x1b\r\n" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (verdict(cases[i].text) != cases[i].status)
			UNIT_FAIL("%s: %d", cases[i].text, verdict(cases[i].text));
	}
}

TEST(long_requests)
{
	char text[HTTP_HEAD_MOST + 100];

	memset(text, 'a', sizeof(text));
	memcpy(text, "GET /", 5);
	CHECK_INT(http_read(text, sizeof(text), &r, &status), HTTP_READ_BAD);
	CHECK_INT(status, 431);
	CHECK_INT(http_read(text, HTTP_HEAD_MOST, &r, &status), HTTP_READ_MORE);
	memcpy(text + 600, " HTTP/1.1\r\n", 11);
	CHECK_INT(http_read(text, sizeof(text), &r, &status), HTTP_READ_BAD);
	CHECK_INT(status, 414);
	text[5] = '?';
	CHECK_INT(http_read(text, sizeof(text), &r, &status), HTTP_READ_BAD);
	CHECK_INT(status, 414);
	/* a NUL in the head */
	CHECK_INT(http_read("GET / HTTP/1.1\r\nHo\0st: a\r\n\r\n", 29, &r, &status), HTTP_READ_BAD);
}

TEST(credentials)
{
	char user[HTTP_TEXT_MOST], password[HTTP_TEXT_MOST];

	read_text("GET / HTTP/1.0\r\nAuthorization: Basic YWRtaW46YTpi\r\n\r\n");
	CHECK(http_credentials(&r, user, password));
	CHECK_TEXT(user, "admin");
	CHECK_TEXT(password, "a:b");
	read_text("GET / HTTP/1.0\r\nAuthorization: basic  dTo=\r\n\r\n");
	CHECK(http_credentials(&r, user, password));
	CHECK_TEXT(password, "");
	read_text("GET / HTTP/1.0\r\nAuthorization: Basic YWRtaW4=\r\n\r\n");		/* no colon */
	CHECK(!http_credentials(&r, user, password));
	read_text("GET / HTTP/1.0\r\nAuthorization: Basic dToAcA==\r\n\r\n");		/* a NUL */
	CHECK(!http_credentials(&r, user, password));
	read_text("GET / HTTP/1.0\r\nAuthorization: Bearer dTpw\r\n\r\n");
	CHECK(!http_credentials(&r, user, password));
}

static const char *plain(const char *host)
{
	char text[200];

	snprintf(text, sizeof(text), "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", host);
	read_text(text);
	return r.is_host_plain ? "plain" : "name";
}

TEST(hosts)
{
	CHECK_PAIRS(plain, { "", "plain" }, { "LocalHost", "plain" }, { "127.0.0.1:8080", "plain" }, { "[::1]:80", "plain" }, { "[::1", "name" },
		    { "[evil.example]", "name" }, { "evil.example", "name" }, { "127.0.0.1.evil.example", "name" }, { "[]", "name" },
		    { "a.very.long.name.of.a.host.with.more.characters.than.an.address.has.example", "name" });
}

static const char *origin(const char *origin)
{
	char text[200];

	snprintf(text, sizeof(text), "POST / HTTP/1.1\r\nHost: a:80\r\nOrigin: %s\r\n\r\n", origin);
	read_text(text);
	return r.is_same_origin ? "same" : "other";
}

TEST(origins)
{
	CHECK_PAIRS(origin, { "", "same" }, { "http://a:80", "same" }, { "https://A:80", "same" }, { "http://a", "other" }, { "null", "other" },
		    { "http://b:80", "other" });
	CHECK_TEXT(http_reason(200), "OK");
	CHECK_TEXT(http_reason(299), "Unknown");
}

UNIT_MAIN
