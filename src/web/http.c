/*
 * HTTP requests: RFC 9112 (syntax), RFC 9110 (fields), RFC 7617 (Basic).
 *
 * libevent's evhttp is not used: it ends the process when getnameinfo() fails, reads without limit
 * while it writes an answer, and neither counts connections nor limits the time of a request. Here
 * a request is a bounded number of bytes, so everything that a client can cause is bounded.
 *
 * An ambiguous request is refused, because a proxy may understand it in the other way: spaces
 * around the name of a field, folded lines, two lengths, a length and chunks, a CR without an LF,
 * control characters, a malformed name, a version without a digit. Bodies in chunks are refused (no
 * request needs a body).
 */
#include "web/http.h"

#include "base/mem.h"
#include "base/text.h"
#include "pg/scram.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

struct http_span { const char *at; size_t size; };

static bool span_is(struct http_span s, const char *text)
{
	char copy[64];

	if (s.size >= sizeof(copy))
		return false;
	memcpy(copy, s.at, s.size);
	copy[s.size] = '\0';
	return strlen(copy) == s.size && text_equal_fold(copy, text);
}

static bool span_copy(struct http_span s, char *to, size_t size)
{
	if (s.size >= size || memchr(s.at, 0, s.size))
		return false;
	memcpy(to, s.at, s.size);
	to[s.size] = '\0';
	return true;
}

static bool http_is_blank(char c)
{
	return c == ' ' || c == '\t';
}

/* Whether the comma-separated list has this word; parameters after a semicolon are ignored. */
static bool list_has(struct http_span list, const char *word)
{
	const char *at = list.at, *end = list.at + list.size;

	while (at < end) {
		const char *stop = memchr(at, ',', (size_t)(end - at)), *last;

		stop = stop ? stop : end;
		last = memchr(at, ';', (size_t)(stop - at));
		last = last ? last : stop;
		while (at < last && http_is_blank(*at))
			at++;
		while (last > at && http_is_blank(last[-1]))
			last--;
		if (span_is((struct http_span){ at, (size_t)(last - at) }, word))
			return true;
		at = stop + (stop < end);
	}
	return false;
}

/* Whether the text is a token of RFC 9110, 5.6.2: the name of a method or of a field. */
static bool is_token(struct http_span s)
{
	static const char marks[] = "!#$%&'*+-.^_`|~";

	for (size_t i = 0; i < s.size; i++) {
		char c = s.at[i], lower = c | 0x20;

		if ((lower < 'a' || lower > 'z') && (c < '0' || c > '9') &&
		    !memchr(marks, c, sizeof(marks) - 1))
			return false;
	}
	return s.size > 0;
}

/* Whether the line, without its end, has a control character other than a tab: a CR is not followed
   by LF then. */
static bool has_control(struct http_span line)
{
	for (size_t i = 0; i < line.size; i++) {
		unsigned char c = (unsigned char)line.at[i];

		if ((c < ' ' && c != '\t') || c == 0x7f)
			return true;
	}
	return false;
}

/* The value of two hexadecimal digits, or -1. */
static int hex_value(const char *at)
{
	int value = 0;

	for (int i = 0; i < 2; i++) {
		char c = at[i];
		int digit = c >= '0' && c <= '9'		     ? c - '0'
			    : (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? (c | 0x20) - 'a' + 10
								     : -1;

		if (digit < 0)
			return -1;
		value = value * 16 + digit;
	}
	return value;
}

/* Decodes %XX, and with `is_form` a plus sign as a blank. False: malformed, a NUL, or too long. */
static bool http_decode(struct http_span from, bool is_form, char *to, size_t size)
{
	size_t used = 0;

	for (size_t i = 0; i < from.size; i++) {
		int value = (unsigned char)from.at[i];

		if (value == '%') {
			value = i + 2 < from.size ? hex_value(from.at + i + 1) : -1;
			i += 2;
		} else if (value == '+' && is_form) {
			value = ' ';
		}
		if (value <= 0 || used + 1 >= size)
			return false;
		to[used++] = (char)value;
	}
	to[used] = '\0';
	return true;
}

/* ---- the request line ---- */

/* Returns 0, or the status of the answer. */
static int http_read_line(struct http_span line, struct http_request *r)
{
	static const char *const methods[] = {
		[HTTP_METHOD_GET] = "GET", [HTTP_METHOD_HEAD] = "HEAD", [HTTP_METHOD_POST] = "POST"
	};
	const char *end = line.at + line.size, *first = memchr(line.at, ' ', line.size), *second,
		   *mark;
	struct http_span method, target, version;

	second = first ? memchr(first + 1, ' ', (size_t)(end - first - 1)) : NULL;
	if (!second)
		return 400;
	method = (struct http_span){ line.at, (size_t)(first - line.at) };
	target = (struct http_span){ first + 1, (size_t)(second - first - 1) };
	version = (struct http_span){ second + 1, (size_t)(end - second - 1) };
	if (version.size != 8 || memcmp(version.at, "HTTP/", 5) != 0 || version.at[6] != '.' ||
	    version.at[5] < '0' || version.at[5] > '9' || version.at[7] < '0' ||
	    version.at[7] > '9' || !is_token(method) || memchr(target.at, '\t', target.size))
		return 400;
	if (version.at[5] != '1')
		return 505;
	r->is_old = version.at[7] == '0';
	r->keeps_alive = !r->is_old;
	r->method = HTTP_METHOD_GET;
	while (strlen(methods[r->method]) != method.size ||
	       memcmp(methods[r->method], method.at, method.size) != 0)
		if (++r->method > HTTP_METHOD_POST)
			return 501;
	mark = memchr(target.at, '?', target.size);
	if (target.size == 0 || target.at[0] != '/')
		return 400;
	if (mark &&
	    !span_copy((struct http_span){ mark + 1, (size_t)(target.at + target.size - mark - 1) },
		       r->query, sizeof(r->query)))
		return 414;
	target.size = mark ? (size_t)(mark - target.at) : target.size;
	return http_decode(target, false, r->path, sizeof(r->path)) ? 0
	       : target.size >= sizeof(r->path)			    ? 414
								    : 400;
}

/* ---- fields ---- */

/* The fields so far. */
struct fields {
	int64_t body;			/* Content-Length; -1: none */
	bool has_host, closes;
};

static int read_field(struct http_span line, struct http_request *r, struct fields *had)
{
	const char *end = line.at + line.size, *colon = memchr(line.at, ':', line.size);
	struct http_span name, value;
	char number[24];

	if (!colon)
		return 400;
	name = (struct http_span){ line.at, (size_t)(colon - line.at) };
	if (!is_token(name))
		return 400;
	for (colon++; colon < end && http_is_blank(*colon); colon++)
		;
	while (end > colon && http_is_blank(end[-1]))
		end--;
	value = (struct http_span){ colon, (size_t)(end - colon) };
	if (span_is(name, "Host")) {
		if (had->has_host || !span_copy(value, r->host, sizeof(r->host)))
			return 400;
		had->has_host = true;
	} else if (span_is(name, "Connection")) {
		had->closes |= list_has(value, "close");
		r->keeps_alive = (r->keeps_alive || list_has(value, "keep-alive")) && !had->closes;
	} else if (span_is(name, "Accept")) {
		r->wants_openmetrics |= list_has(value, "application/openmetrics-text");
	} else if (span_is(name, "Authorization")) {
		return r->authorization[0] ||
				       !span_copy(value, r->authorization, sizeof(r->authorization))
			       ? 400
			       : 0;
	} else if (span_is(name, "Origin")) {
		return span_copy(value, r->origin, sizeof(r->origin)) ? 0 : 400;
	} else if (span_is(name, "X-Pgweir")) {
		r->is_marked = true;
	} else if (span_is(name, "Transfer-Encoding")) {
		return 501;
	} else if (span_is(name, "Content-Length")) {
		if (had->body >= 0 || !span_copy(value, number, sizeof(number)) ||
		    strspn(number, "0123456789") != value.size ||
		    !text_to_int64(number, &had->body))
			return 400;
		if (had->body > HTTP_BODY_MOST)
			return 413;
	}
	return 0;
}

static bool has_plain_host(const struct http_request *r)
{
	bool has_brackets = r->host[0] == '[';
	size_t size = strcspn(r->host, has_brackets ? "]" : ":");
	char name[INET6_ADDRSTRLEN];
	struct in6_addr any;

	if (size >= sizeof(name) || (has_brackets && r->host[size] != ']'))
		return false;
	snprintf(name, sizeof(name), "%.*s", (int)(size - has_brackets), r->host + has_brackets);
	if (has_brackets)
		return inet_pton(AF_INET6, name, &any) == 1;
	return name[0] == '\0' || text_equal_fold(name, "localhost") ||
	       inet_pton(AF_INET, name, &any) == 1;
}

static bool has_same_origin(const struct http_request *r)
{
	const char *host = strstr(r->origin, "://");

	return r->origin[0] == '\0' || (host && text_equal_fold(host + 3, r->host));
}

enum http_verdict http_read(const char *input, size_t size, struct http_request *r, int *status)
{
	struct fields had = { .body = -1 };
	const char *at = input, *end = input + size, *stop;
	bool is_first = true;

	*r = (struct http_request){ .size = 0 };
	*status = 0;
	if (size == 0)
		return HTTP_READ_MORE;
	while (*status == 0 && (stop = memchr(at, '\n', (size_t)(end - at))) != NULL) {
		struct http_span line = { at, (size_t)(stop - at) };

		at = stop + 1;
		if (line.size > 0 && line.at[line.size - 1] == '\r')
			line.size--;
		if ((size_t)(at - input) > HTTP_HEAD_MOST) {
			*status = 431;
		} else if (has_control(line)) {
			*status = 400;
		} else if (is_first && line.size == 0) {
			continue;	/* an empty line before a request is allowed */
		} else if (line.size > 0) {
			*status = is_first ? http_read_line(line, r) : read_field(line, r, &had);
			is_first = false;
		} else if (!r->is_old && !had.has_host) {
			*status = 400;
		} else {
			r->size = (size_t)(at - input) + (had.body > 0 ? (size_t)had.body : 0);
			r->is_host_plain = has_plain_host(r);
			r->is_same_origin = has_same_origin(r);
			return r->size <= size ? HTTP_READ_OK : HTTP_READ_MORE;
		}
	}
	if (*status == 0 && size > HTTP_HEAD_MOST)
		*status = 431;
	return *status ? HTTP_READ_BAD : HTTP_READ_MORE;
}

/* ---- values ---- */

bool http_parameter(const struct http_request *r, const char *name, char *value, size_t size)
{
	const char *at = r->query;

	while (*at) {
		size_t length = strcspn(at, "&"), label = strcspn(at, "=&");

		if (label == strlen(name) && memcmp(at, name, label) == 0) {
			label += label < length;
			return http_decode((struct http_span){ at + label, length - label }, true,
					   value, size);
		}
		at += length;
		at += *at == '&';
	}
	return false;
}

bool http_credentials(const struct http_request *r, char *user, char *password)
{
	const char *at = r->authorization;
	char text[HTTP_TEXT_MOST], *colon;
	size_t size;
	bool is_good;

	if (!text_starts(at, "Basic ") && !text_starts(at, "basic "))
		return false;
	at += strlen("Basic ");
	at += strspn(at, " ");
	is_good = base64_decode(text, sizeof(text) - 1, &size, at, strlen(at)) &&
		  !memchr(text, 0, size);
	if (is_good) {
		text[size] = '\0';
		colon = strchr(text, ':');
		is_good = colon != NULL;
		if (colon) {
			*colon = '\0';
			text_copy(user, HTTP_TEXT_MOST, text);
			text_copy(password, HTTP_TEXT_MOST, colon + 1);
		}
	}
	mem_wipe(text, sizeof(text));
	return is_good;
}

const char *http_reason(int status)
{
	static const struct { int status; const char *reason;
	} reasons[] = {
		{ 200, "OK" },
		{ 303, "See Other" },
		{ 400, "Bad Request" },
		{ 401, "Unauthorized" },
		{ 403, "Forbidden" },
		{ 404, "Not Found" },
		{ 405, "Method Not Allowed" },
		{ 409, "Conflict" },
		{ 413, "Content Too Large" },
		{ 414, "URI Too Long" },
		{ 431, "Request Header Fields Too Large" },
		{ 500, "Internal Server Error" },
		{ 501, "Not Implemented" },
		{ 503, "Service Unavailable" },
		{ 505, "HTTP Version Not Supported" },
	};

	for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++)
		if (reasons[i].status == status)
			return reasons[i].reason;
	return "Unknown";
}
