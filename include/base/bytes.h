#ifndef BASE_BYTES_H
#define BASE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A growable buffer with a read position. Bytes are appended at the end and consumed from the front. An append without memory
 * sets `failed`, and later appends do nothing: the caller checks once, at the end.
 */
struct bytes {
	uint8_t *data;
	size_t start;		/* first unread byte */
	size_t end;		/* after the last byte */
	size_t capacity;
	bool failed;
};

#define BYTES_EMPTY { NULL, 0, 0, 0, false }

static inline size_t bytes_size(const struct bytes *b) { return b->end - b->start; }
static inline uint8_t *bytes_front(const struct bytes *b) { return b->data + b->start; }
/* Makes room for `more` bytes at the end and returns its address (NULL and failed = true: no memory). Does not move `end`, but
   may move the unread bytes: a pointer from bytes_front is invalid after any append. */
uint8_t *bytes_reserve(struct bytes *b, size_t more);
void bytes_append(struct bytes *b, const void *data, size_t size);
/* Copies `data` into an empty buffer, with a capacity of exactly this size. */
void bytes_fit(struct bytes *b, const void *data, size_t size);
/* Appends the text without its NUL. */
void bytes_append_text(struct bytes *b, const char *text);
/* Appends the text and its NUL. */
void bytes_append_string(struct bytes *b, const char *text);
void bytes_append_format(struct bytes *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Network byte order. */
void bytes_append_u8(struct bytes *b, uint8_t value);
void bytes_append_u16(struct bytes *b, uint16_t value);
void bytes_append_u32(struct bytes *b, uint32_t value);
/* Removes the first `size` unread bytes. If no bytes are left, start and end become 0. */
void bytes_consume(struct bytes *b, size_t size);
/* Frees the memory; the buffer is BYTES_EMPTY again. */
void bytes_free(struct bytes *b);
/* As bytes_free, wiping first. */
void bytes_wipe(struct bytes *b);

#endif
