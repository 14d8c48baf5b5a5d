/*
 * Requests to the HTTP endpoint: http_read, and the values of a request.
 *
 * Input: the bytes of the connection. Properties: each beginning of a request asks for more, and a refused beginning stays refused with the same
 * status; what follows a request does not change it; values end in a NUL within their buffers.
 */
#include "fuzz.h"
#include "web/http.h"

#include <stdlib.h>
#include <string.h>

#define CUTS_MOST 400			/* longer inputs are cut at fewer places */

static const char *const parameters[] = { "db", "user", "since", "most", "pools", "key", "value", "id" };

static void check_values(const struct http_request *r)
{
	char user[HTTP_TEXT_MOST], password[HTTP_TEXT_MOST], value[8];

	FUZZ_CHECK(r->path[0] == '/' && strlen(r->path) < HTTP_TEXT_MOST && strlen(r->query) < HTTP_TEXT_MOST);
	if (http_credentials(r, user, password))
		FUZZ_CHECK(!strchr(user, ':') && strlen(user) + strlen(password) < HTTP_TEXT_MOST);
	for (size_t i = 0; i < sizeof(parameters) / sizeof(parameters[0]); i++)
		if (http_parameter(r, parameters[i], value, sizeof(value)))
			FUZZ_CHECK(strlen(value) < sizeof(value));
}

/* A head that was accepted has a CR only before an LF, and no other control character but the tab. */
static void check_head(const uint8_t *data, size_t size)
{
	bool has_begun = false;
	size_t in_line = 0;

	for (size_t i = 0; i < size; i++) {
		if (data[i] == '\n') {
			if (has_begun && in_line == 0)
				return;
			has_begun |= in_line > 0;
			in_line = 0;
		} else if (data[i] == '\r') {
			FUZZ_CHECK(i + 1 < size && data[i + 1] == '\n');
		} else {
			FUZZ_CHECK(data[i] == '\t' || (data[i] >= ' ' && data[i] != 0x7f));
			in_line++;
		}
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct http_request whole, part;
	int status, status_of_part;
	uint8_t *copy = fuzz_copy(data, size);
	enum http_verdict verdict = http_read((const char *)copy, size, &whole, &status);
	size_t step = size / CUTS_MOST + 1;

	FUZZ_CHECK(verdict != HTTP_READ_BAD || status >= 400);
	FUZZ_CHECK(verdict != HTTP_READ_MORE || size < HTTP_HEAD_MOST + HTTP_BODY_MOST);
	if (verdict == HTTP_READ_OK) {
		FUZZ_CHECK(whole.size <= size);
		check_head(copy, whole.size);
		check_values(&whole);
	}
	for (size_t end = 0; end < size; end += step) {
		uint8_t *begin = fuzz_copy(data, end);
		enum http_verdict verdict_of_part = http_read((const char *)begin, end, &part, &status_of_part);

		if (verdict_of_part == HTTP_READ_BAD)
			FUZZ_CHECK(verdict == HTTP_READ_BAD && status == status_of_part);
		else if (verdict_of_part == HTTP_READ_OK)
			FUZZ_CHECK(verdict == HTTP_READ_OK && whole.size == part.size && strcmp(whole.path, part.path) == 0);
		free(begin);
	}
	free(copy);
	return 0;
}
