#ifndef CONF_METHODS_H
#define CONF_METHODS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Authentication methods that a server may ask for, with the words of libpq's require_auth (PostgreSQL 16). A list of methods
 * is one number: bit i means that method i is listed, METHODS_FORBIDDEN that the words have a `!` in front. The empty list is
 * CONF_UNSET.
 */
enum server_method { METHOD_PASSWORD, METHOD_MD5, METHOD_GSS, METHOD_SSPI, METHOD_SCRAM, METHOD_NONE, SERVER_METHODS };
#define METHODS_FORBIDDEN (1 << SERVER_METHODS)

/* Parses words separated by commas and blanks, in any case; "" is the empty list. Returns false, and leaves *list unchanged,
   for an unknown word, a duplicate, an empty word, or a mixture of words with and without `!`. */
bool methods_read(const char *text, int64_t *list);
/* Writes the list in the format of methods_read to buf. Returns buf. */
const char *methods_text(int64_t list, char *buf, size_t size);
/* Whether the list allows this method. The empty list allows every method; one that names `password` allows `none`. */
bool methods_allow(int list, enum server_method method);
/* Whether the list names this method as allowed, without a `!`. The empty list names no method. */
bool methods_name(int list, enum server_method method);

#define METHODS_ACCEPTED \
	"words out of password, md5, gss, sspi, scram-sha-256, none with commas between, all or none of them with a ! in front"

#endif
