/* The header of the PROXY protocol, in both versions: cut at every byte, malformed, and at its limits. */
#include "net/proxy_header.h"

#include <string.h>

#include "base/mem.h"
#include "unit.h"

#define V2 "\r\n\r\n\0\r\nQUIT\n"
#define TCP4 "\x11\x00\x0c" "\xc0\x00\x02\x07" "\x0a\x00\x00\x01" "\xc8\x2c" "\x19\x20"
#define TCP6 "\x21\x00\x24" "\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x07" "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01" "\xc8\x2c" "\x19\x20"
#define MAPPED "\x21\x00\x24" "\0\0\0\0\0\0\0\0\0\0\xff\xff\xc0\x00\x02\x07" "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01" "\xc8\x2c" "\x19\x20"

static const struct good { const char *bytes; size_t size; const char *client; } goods[] = {
#define GOOD(bytes, client) { bytes, sizeof(bytes) - 1, client }
	GOOD("PROXY TCP4 192.0.2.7 10.0.0.1 51244 6432\r\n", "192.0.2.7:51244"),
	GOOD("PROXY TCP6 2001:db8::7 ::1 0 65535\r\n", "[2001:db8::7]:0"),
	GOOD("PROXY TCP6 ::ffff:192.0.2.7 ::1 7 8\r\n", "192.0.2.7:7"),
	GOOD("PROXY TCP6 ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 65535 65535\r\n",
	     "[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:65535"),
	GOOD("PROXY UNKNOWN\r\n", ""),
	GOOD("PROXY UNKNOWN ffff::1 whatever 1 2\r\n", ""),
	GOOD(V2 "\x21" TCP4, "192.0.2.7:51244"),
	GOOD(V2 "\x21" TCP6, "[2001:db8::7]:51244"),
	GOOD(V2 "\x21" MAPPED, "192.0.2.7:51244"),
	/* with TLVs */
	GOOD(V2 "\x21\x11\x00\x13" "\xc0\x00\x02\x07" "\x0a\x00\x00\x01" "\xc8\x2c" "\x19\x20" "\x02\x00\x04" "name", "192.0.2.7:51244"),
	GOOD(V2 "\x20\x00\x00\x00", ""),
	GOOD(V2 "\x20" TCP4, ""),
	GOOD(V2 "\x21\x00\x00\x03" "abc", ""),
	GOOD(V2 "\x21\x31\x00\x00", ""),
};

static const char *name_of(const struct proxy_header *h, char *buf, size_t size)
{
	return h->has_client ? brief_address_and_port(&h->client, buf, size) : "";
}

TEST(headers_are_read)
{
	char buf[80];
	struct proxy_header h;

	for (size_t i = 0; i < sizeof(goods) / sizeof(*goods); i++) {
		const struct good *g = &goods[i];
		const uint8_t *bytes = (const uint8_t *)g->bytes;

		CHECK_INT(proxy_header_read(bytes, g->size, &h), PROXY_OK);
		CHECK_INT(h.size, g->size);
		CHECK_TEXT(name_of(&h, buf, sizeof(buf)), g->client);
		CHECK(proxy_header_is_signed(bytes, g->size));
	}
}

/* A part of a header asks only for bytes of the header, or gives the result of the whole header. */
TEST(parts_ask_for_no_more_than_the_rest)
{
	char buf[80];
	struct proxy_header h;

	for (size_t i = 0; i < sizeof(goods) / sizeof(*goods); i++)
		for (size_t n = 1; n < goods[i].size; n++) {
			/* of its exact size, so that a sanitizer sees a read beyond it */
			uint8_t *part = memcpy(mem_try(n), goods[i].bytes, n);

			if (proxy_header_read(part, n, &h) == PROXY_MORE) {
				CHECK(h.more >= 1 && n + h.more <= goods[i].size);
			} else {
				CHECK(h.fault == NULL);
				CHECK_INT(h.size, goods[i].size);
				CHECK_TEXT(name_of(&h, buf, sizeof(buf)), goods[i].client);
			}
			mem_free(part);
		}
}

static const struct bad { const char *bytes; size_t size; const char *fault; } bads[] = {
#define BAD(bytes, fault) { bytes, sizeof(bytes) - 1, fault }
	BAD("\0\0\0\x08\x04\xd2\x16\x2f", "no header"),		/* an SSLRequest */
	BAD("\x16\x03\x01", "no header"),			/* TLS */
	BAD("GET / HTTP/1.1\r\n\r\n", "no header"),
	BAD("PROXy", "no header"),
	BAD("\r\n\r\n\0\r\nQUIT\r", "no header"),
	BAD("PROXY TCP4 192.0.2.7 10.0.0.1 51244 6432\n", "a malformed line"),
	BAD("PROXY TCP4 192.0.2.7 10.0.0.1 51244 65536\r\n", "a malformed line"),
	BAD("PROXY TCP4 192.0.2.7 10.0.0.1 051244 6432\r\n", "a malformed line"),
	BAD("PROXY TCP4 192.0.2.7 10.0.0.1 -1 6432\r\n", "a malformed line"),
	BAD("PROXY TCP4 192.0.2.7 10.0.0.1 51244\r\n", "a malformed line"),
	BAD("PROXY TCP4 192.0.2.7 10.0.0.1 51244 6432 \r\n", "a malformed line"),
	BAD("PROXY TCP4 192.0.2.7 10.0.0.1 51244 6432 x\r\n", "a malformed line"),
	BAD("PROXY TCP4  192.0.2.7 10.0.0.1 51244 6432\r\n", "a malformed line"),
	BAD("PROXY TCP4 2001:db8::7 ::1 51244 6432\r\n", "a malformed line"),
	BAD("PROXY TCP6 192.0.2.7 10.0.0.1 51244 6432\r\n", "a malformed line"),
	BAD("PROXY TCP4 192.0.2.7\0 10.0.0.1 51244 6432\r\n", "a malformed line"),
	BAD("PROXY tcp4 192.0.2.7 10.0.0.1 51244 6432\r\n", "a malformed line"),
	BAD("PROXY \r\n", "a malformed line"),
	BAD("PROXY UNKNOWN xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\r\n",
	    "a line of more than 107 bytes"),
	BAD(V2 "\x11" TCP4, "an unknown version or command"),
	BAD(V2 "\x22" TCP4, "an unknown version or command"),
	BAD(V2 "\x21\x12\x00\x0c" "\xc0\x00\x02\x07" "\x0a\x00\x00\x01" "\xc8\x2c" "\x19\x20", "an unknown family or transport"),
	BAD(V2 "\x21\x41\x00\x00", "an unknown family or transport"),
	BAD(V2 "\x21\x11\x00\x0b" "\xc0\x00\x02\x07" "\x0a\x00\x00\x01" "\xc8\x2c" "\x19", "too short for its addresses"),
	BAD(V2 "\x21\x21\x00\x0c" "\xc0\x00\x02\x07" "\x0a\x00\x00\x01" "\xc8\x2c" "\x19\x20", "too short for its addresses"),
};

TEST(malformed_headers_are_refused)
{
	struct proxy_header h;

	for (size_t i = 0; i < sizeof(bads) / sizeof(*bads); i++) {
		int verdict = proxy_header_read((const uint8_t *)bads[i].bytes, bads[i].size, &h);

		if (verdict != PROXY_BAD || strcmp(h.fault, bads[i].fault) != 0)
			UNIT_FAIL("%zu: %d %s, want %s", i, verdict, h.fault ? h.fault : "", bads[i].fault);
	}
}

/* The longest header of version 2 has 65,551 bytes; only its addresses must have arrived. */
TEST(size_counts_bytes_that_have_not_arrived)
{
	static const char bytes[] = V2 "\x21\x11\xff\xff" "\xc0\x00\x02\x07" "\x0a\x00\x00\x01" "\xc8\x2c" "\x19\x20";
	struct proxy_header h;

	CHECK_INT(proxy_header_read((const uint8_t *)bytes, sizeof(bytes) - 1, &h), PROXY_OK);
	CHECK_INT(h.size, 65551);
}

TEST(only_a_whole_signature_is_one)
{
	CHECK(!proxy_header_is_signed((const uint8_t *)"PROXY", 5));
	CHECK(!proxy_header_is_signed((const uint8_t *)V2, 11));
	CHECK(!proxy_header_is_signed((const uint8_t *)"", 0));
}

UNIT_MAIN
