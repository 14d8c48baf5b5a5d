#ifndef CONF_METHODS_H
#define CONF_METHODS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Authentication methods that a server may ask for, by the words of libpq's require_auth (PostgreSQL 16). A list of them
 * is one number: bit i says that method i is listed, METHODS_FORBIDDEN that the words have a `!` in front. The empty list
 * is CONF_UNSET.
 */
enum server_method { METHOD_PASSWORD, METHOD_MD5, METHOD_GSS, METHOD_SSPI, METHOD_SCRAM, METHOD_NONE, SERVER_METHODS };
#define METHODS_FORBIDDEN (1 << SERVER_METHODS)

/* Reads words with commas between, blanks around them passed over, in any case; "" is the empty list. False, *list
   untouched: an unknown word, a word twice, an empty one, or words with and without a `!`. */
bool methods_read(const char *text, int64_t *list);
/* The list as text that methods_read reads: buf. */
const char *methods_text(int64_t list, char *buf, size_t size);
/* The list allows this method. The empty one allows every method. */
bool methods_allow(int list, enum server_method method);
/* The list names this method as allowed, without a `!`. The empty one names none. */
bool methods_name(int list, enum server_method method);

#define METHODS_ACCEPTED \
	"words out of password, md5, gss, sspi, scram-sha-256, none with commas between, all or none of them with a ! in front"

#endif
