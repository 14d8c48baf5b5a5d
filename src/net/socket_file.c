/*
 * The file of a listening Unix socket.
 *
 * The file remains when its process is killed. To find out whether a process listens, pgweir connects: if the connection is
 * refused, the file is stale and is replaced. When pgweir ends, it removes the file only if pgweir created it: another process
 * may have replaced it.
 */
#include "net/socket_file.h"

#include <errno.h>
#include <grp.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"

const char *socket_file_remove_stale(const struct address *a)
{
	const char *path = a->u.local.sun_path;
	struct stat file;
	int fd, error;

	if (lstat(path, &file) != 0)
		return errno == ENOENT ? NULL : strerror(errno);
	if (!S_ISSOCK(file.st_mode))
		return "a file that is not a socket has this name";
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return strerror(errno);
	error = connect(fd, &a->u.any, a->size) == 0 ? 0 : errno;
	close(fd);
	if (error != ECONNREFUSED)
		return "socket is in use";
	return unlink(path) == 0 || errno == ENOENT ? NULL : strerror(errno);
}

void socket_file_own(struct socket_file *f, const char *path)
{
	struct stat file;

	if (!*path || stat(path, &file) != 0)
		return;
	f->ours = true;
	f->device = file.st_dev;
	f->inode = file.st_ino;
}

bool socket_file_is_still_ours(const struct socket_file *f, const char *path)
{
	struct stat file;

	return f->ours && stat(path, &file) == 0 && file.st_dev == f->device && file.st_ino == f->inode;
}

static bool group_id(const char *group, gid_t *gid)
{
	const struct group *entry = getgrnam(group);
	int64_t number;

	if (entry) {
		*gid = entry->gr_gid;
		return true;
	}
	if (!text_to_int64(group, &number) || number < 0 || number >= UINT32_MAX)
		return false;
	*gid = (gid_t)number;
	return true;
}

/* Without root privileges, a process may give its files only to its own groups. */
static bool is_in_group(gid_t gid)
{
	gid_t groups[1024];
	int count = getgroups((int)(sizeof(groups) / sizeof(groups[0])), groups);

	if (geteuid() == 0 || getegid() == gid || count < 0)
		return true;
	for (int i = 0; i < count; i++)
		if (groups[i] == gid)
			return true;
	return false;
}

bool socket_file_check_group(const char *group, char *why, size_t why_size)
{
	gid_t gid;

	if (!group || !*group)
		return true;
	if (!group_id(group, &gid)) {
		snprintf(why, why_size, "group \"%s\" does not exist", group);
		return false;
	}
	if (is_in_group(gid))
		return true;
	snprintf(why, why_size, "cannot give it to group \"%s\": %s", group, strerror(EPERM));
	return false;
}

bool socket_file_dress(const char *path, int mode, const char *group, char *why, size_t why_size)
{
	gid_t gid;

	if (group && *group) {
		if (!group_id(group, &gid)) {
			snprintf(why, why_size, "group \"%s\" does not exist", group);
			return false;
		}
		if (chown(path, (uid_t)-1, gid) != 0) {
			snprintf(why, why_size, "cannot give \"%s\" to group \"%s\": %s", path, group, strerror(errno));
			return false;
		}
	}
	/* after chown, which may clear mode bits */
	if (chmod(path, (mode_t)mode) != 0) {
		snprintf(why, why_size, "cannot set the mode of \"%s\": %s", path, strerror(errno));
		return false;
	}
	return true;
}

uint16_t socket_file_port(const char *path)
{
	const char *mark = strstr(path, ".s.PGSQL.");
	int64_t port;

	return mark && text_to_int64(mark + strlen(".s.PGSQL."), &port) && port > 0 && port <= UINT16_MAX ? (uint16_t)port : 0;
}
