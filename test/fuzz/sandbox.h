#ifndef SANDBOX_H
#define SANDBOX_H

#include "base/clock.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The world around a fuzz target: a clock that does not advance by itself, deterministic randomness, and no files except those of the input. The
 * linker's --wrap replaces the functions that pgweir calls (FUZZ_LINK in Makefile.am), only between begin and end. OpenSSL's own randomness is
 * deterministic as well, from another source, so that pgweir's random bytes do not depend on it; OpenSSL has its own clock, so a target compares the
 * decrypted data, not the TLS records.
 */

/* The clock at its beginning, the randomness too, no files; the log goes nowhere, but every line of it is made;
   with FUZZ_LOG in the environment it goes to standard error. */
void sandbox_begin(void);
void sandbox_end(void);
/* Advances the clock by this time. */
void sandbox_sleep(usec_t time);
usec_t sandbox_now(void);
/* Restarts the randomness as after sandbox_begin. */
void sandbox_rewind(void);
/* OpenSSL's random bytes from here on belong to the target (true), so that pgweir's are the same whatever the target does. */
void sandbox_draw_apart(bool on);
/* The bytes that RAND_bytes gives next, without taking them. */
void sandbox_foresee(uint8_t *to, size_t size);

#define SANDBOX_MAIN "main"		/* the file that a text is up to its first "== NAME" */

/*
 * Makes files from a text: the part before the first line "== NAME" is SANDBOX_MAIN, and each such line begins the file of that name. "/", "./" and
 * similar prefixes of a name are ignored: there is one directory.
 */
void sandbox_files(const char *text, size_t size);
/* Adds a file, or replaces the file of this name. */
void sandbox_file(const char *name, const void *data, size_t size);

#endif
