#ifndef WEB_WEB_SOCKETS_H
#define WEB_WEB_SOCKETS_H

#include "net/listen.h"

#include <stdbool.h>

/* For web.c only. */
struct conf;
struct conf_problems;
struct web;

/* Opens the sockets of the configuration and its TLS context, in addition to the present ones; new
   connections will be passed to accepted() with `web` as the context. False with problems: nothing
   has changed. */
bool web_sockets_prepare(struct web *web, const struct conf *conf, listen_accept *accepted,
			 struct conf_problems *problems);
/* After web_sockets_prepare: with `is_used` the prepared sockets and context are in force, and
   sockets that they do not include are closed. Otherwise the new ones are closed. */
void web_sockets_exchange(struct web *web, bool is_used);
/* Whether the open sockets accept connections; meanwhile new ones wait in the queue of the
   kernel. */
void web_sockets_set_accepting(struct web *web, bool on);
/* Closes the open sockets and drops the TLS context. */
void web_sockets_close(struct web *web);

#endif
