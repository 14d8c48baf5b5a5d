#ifndef CONF_HOST_LIST_H
#define CONF_HOST_LIST_H

#include "conf/conf.h"

/*
 * The keys `host` and `port` of a database: "a*3,b" and "5432,5433".
 */

/* Reads a list of ports, and stores the first `most` of them in `ports`. Returns how many the text
   has; 0: one is not a number from 1 to 65535. */
unsigned ports_read(const char *text, int *ports, unsigned most);
/* Makes database->hosts. A missing port and a wrong weight get the value 0, for hosts_check().
   False: no memory. */
bool hosts_make(struct conf_database *database, struct arena *arena);
/* Adds problems of the keys host, port and patroni. Examples: the number of ports is neither 1 nor
   the number of hosts; a weight or a list of URLs is wrong; a host occurs twice in a list of hosts
   with roles; keys about roles have no effect. */
void hosts_check(const struct conf *conf, const struct conf_database *database,
		 struct conf_problems *problems);

#endif
