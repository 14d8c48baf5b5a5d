#ifndef NET_SOCKET_FILE_H
#define NET_SOCKET_FILE_H

#include "net/address.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * The file of a listening Unix socket. `path` is its name in the file system, "" that of an abstract socket, which has none.
 */
struct socket_file {
	bool ours;			/* of our making; this one: */
	dev_t device;
	ino_t inode;
};

/* NULL when the address may be bound once the file is gone, which it then is; else why not. */
const char *socket_file_remove_stale(const struct address *address);
/* The file that is there now is of our making. */
void socket_file_own(struct socket_file *file, const char *path);
bool socket_file_is_still_ours(const struct socket_file *file, const char *path);
/* Mode, and group by name or number (NULL, "": stays). False with a text in `why`. */
bool socket_file_dress(const char *path, int mode, const char *group, char *why, size_t why_size);
/* False, with a text in `why`: a file of this process cannot be given to the group. */
bool socket_file_may_have_group(const char *group, char *why, size_t why_size);
/* The port in .../.s.PGSQL.<port>, 0 when the name is another one. */
uint16_t socket_file_port(const char *path);

#endif
