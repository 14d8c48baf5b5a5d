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
