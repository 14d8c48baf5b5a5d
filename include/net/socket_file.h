#ifndef NET_SOCKET_FILE_H
#define NET_SOCKET_FILE_H

#include "net/address.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * The file of a listening Unix socket. `path` is its name in the file system; it is "" for an abstract socket, which has no
 * file.
 */
struct socket_file {
	bool ours;			/* this process created the file with this inode: */
	dev_t device;
	ino_t inode;
};

/* Removes the file of a socket that no process listens on. Returns NULL if the address can be bound now, otherwise why not. */
const char *socket_file_remove_stale(const struct address *address);
/* Records that this process created the file. */
void socket_file_own(struct socket_file *file, const char *path);
bool socket_file_is_still_ours(const struct socket_file *file, const char *path);
/* Sets the mode, and the group by name or number (NULL, "": unchanged). False with a text in `why`. */
bool socket_file_dress(const char *path, int mode, const char *group, char *why, size_t why_size);
/* Whether this process may give a file to the group. False with a text in `why`. */
bool socket_file_check_group(const char *group, char *why, size_t why_size);
/* Returns the port of .../.s.PGSQL.<port>, 0 for any other name. */
uint16_t socket_file_port(const char *path);

#endif
