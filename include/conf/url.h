#ifndef CONF_URL_H
#define CONF_URL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A URL of the setting patroni: http://host:port or https://host:port. */
#define URL_MOST 16			/* URLs of one list */
struct conf_url {
	char host[256];			/* a name or an IP address, without brackets */
	uint16_t port;
	bool is_secure;			/* https */
	char text[280];			/* "http://[::1]:8008" */
};
enum conf_url_verdict { CONF_URL_END, CONF_URL_OK, CONF_URL_BAD };
/* Cuts the next URL off a list with commas or blanks between. *list may be NULL. CONF_URL_BAD with
   a text in `why` that names the URL, the fault, and how to write it; the text never contains a
   password. */
enum conf_url_verdict conf_url_next(const char **list, struct conf_url *url, char *why,
				    size_t why_size);
/* Whether a list has a fault, with a text in `why`: a wrong URL, the same URL twice, no URL, or
   more than URL_MOST. */
bool conf_url_list_fault(const char *list, char *why, size_t why_size);

#endif
