#ifndef WEB_WEB_H
#define WEB_WEB_H

#include "conf/problem.h"

#include <stdbool.h>

/* The HTTP endpoint: metrics, health checks, the rows of SHOW as JSON, and the page. */
#define WEB_SPARES_MOST 8	/* connections beyond http_max_connections: for health checks */
struct conf;
struct web;
struct world;

/* SET of the console: changes a setting or "database.key". False with problems; warnings
   otherwise. */
typedef bool web_set(void *context, const char *name, const char *value,
		     struct conf_problems *problems);
/* At the start: opens the sockets of world->conf. If this process replaces another one, the
   endpoint tries again until that process has closed its sockets. `version` must outlive the
   endpoint. NULL with problems. */
struct web *web_open(struct world *world, const char *version, web_set *set, bool replaces,
		     struct conf_problems *problems);
/* Closes everything. Sets *web to NULL; *web may be NULL. */
void web_free(struct web **web);

/* Opens the sockets of the next configuration, in addition to the present ones. False with
   problems: a socket cannot be opened, and nothing has changed. */
bool web_prepare(struct web *web, const struct conf *conf, struct conf_problems *problems);
/* After web_prepare: with `is_used` the configuration is in force, and sockets that it does not
   name are closed; otherwise the new sockets are closed. */
void web_decide(struct web *web, bool is_used);

#endif
