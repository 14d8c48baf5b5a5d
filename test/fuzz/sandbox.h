#ifndef SANDBOX_H
#define SANDBOX_H

#include "base/clock.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The world around a fuzz target: a clock that stands still, randomness that repeats itself, and no files
 * but those of the input. It replaces, by the linker's --wrap, what pgweir calls for that (FUZZ_LINK in
 * Makefile.am), only between begin and end. OpenSSL's own randomness repeats itself as well, from another
 * source, so that what pgweir draws doesn't depend on it; it has its own clock, so a target that compares what
 * TLS has made compares what was said in it.
 */

/* The clock at its beginning, the randomness too, no files; the log goes nowhere, but every line of it is made;
   with FUZZ_LOG in the environment it goes to standard error. */
void sandbox_begin(void);
void sandbox_end(void);
/* The clock goes on by so much. */
void sandbox_sleep(usec_t time);
usec_t sandbox_now(void);
/* Randomness from here on as behind sandbox_begin. */
void sandbox_rewind(void);
/* What OpenSSL draws from here on is the target's own (true), so that pgweir's is the same whatever the target does. */
void sandbox_draw_apart(bool on);
/* The bytes that RAND_bytes gives next, without taking them. */
void sandbox_foresee(uint8_t *to, size_t size);

#define SANDBOX_MAIN "main"		/* the file that a text is up to its first "== NAME" */

/* Files of a text: what stands before the first line "== NAME" is SANDBOX_MAIN, and each such line begins the file
   of that name. "/", "./" and the like before a name do not count: there is one directory. */
void sandbox_files(const char *text, size_t size);
/* One file more, in place of one of this name. */
void sandbox_file(const char *name, const void *data, size_t size);

#endif
