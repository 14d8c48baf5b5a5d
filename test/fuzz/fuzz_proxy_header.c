/*
 * The header of the PROXY protocol, which any machine may send as the first bytes of a connection.
 *
 * Input: the bytes of the connection. Properties: a part of a header gives the result of the whole header or PROXY_MORE; the further bytes that PROXY_MORE
 * asks for belong to the header; the address of a client has a known family.
 */
#include "fuzz.h"
#include "net/proxy_header.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct proxy_header whole, part;
	enum proxy_verdict verdict, early;

	if (size == 0)
		return 0;
	verdict = proxy_header_read(data, size, &whole);
	FUZZ_CHECK((verdict == PROXY_BAD) == (whole.fault != NULL));
	FUZZ_CHECK(verdict != PROXY_MORE || whole.more > 0);
	if (verdict == PROXY_OK) {
		FUZZ_CHECK(whole.size > 0 && whole.size <= 65551 && proxy_header_is_signed(data, size));
		FUZZ_CHECK(!whole.has_client || whole.client.family == AF_INET || whole.client.family == AF_INET6);
	}
	for (size_t n = 1; n < size && n < 300; n++) {
		/* of its exact size, so that a read beyond it is noticed */
		uint8_t *copy = malloc(n);

		FUZZ_CHECK(copy);
		memcpy(copy, data, n);
		early = proxy_header_read(copy, n, &part);
		free(copy);
		if (early == PROXY_MORE) {
			FUZZ_CHECK(part.more > 0);
			FUZZ_CHECK(verdict != PROXY_OK || n + part.more <= whole.size);
			continue;
		}
		FUZZ_CHECK(early == verdict);
		FUZZ_CHECK(early == PROXY_BAD || (part.size == whole.size && part.has_client == whole.has_client &&
						  memcmp(&part.client, &whole.client, sizeof(part.client)) == 0));
	}
	return 0;
}
