#ifndef MAIN_TOP_CONNECTION_H
#define MAIN_TOP_CONNECTION_H

#include <stdbool.h>
#include <stddef.h>

/*
 * A client of the console of a pgweir, for `pgweir top`: blocking, with a time limit for each
 * answer. It speaks to Unix sockets and TCP without TLS, and logs in with a password in clear text,
 * MD5 or SCRAM-SHA-256.
 */
struct console_address {
	char host[256];			/* a directory with a socket, a name or an address */
	char port[16];
	char user[256], password[256], database[256];
};
/* Reads a connection string of libpq (key=value pairs or a URI), or the path of a configuration
   file: listen_port and unix_socket_dir or listen_addr are read there. PGUSER, PGPASSWORD, PGHOST
   and PGPORT apply as in libpq. False: `why` has the reason. */
bool console_address_read(struct console_address *address, const char *argument, char *why,
			  size_t size);

/* Rows of an answer: `cells` has count * columns texts; the first `columns` texts in `names`. */
struct console_rows {
	char **names, **cells;
	size_t columns, count;
};

struct console_connection;
/* Sends a command; *connection NULL: connects first. False: `why` has the reason, and *connection
   is NULL. */
bool console_ask(struct console_connection **connection, const struct console_address *address,
		 const char *command, struct console_rows *rows, char *why, size_t size);
/* Sets *connection to NULL; NULL is allowed. */
void console_disconnect(struct console_connection **connection);

#endif
