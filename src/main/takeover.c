/*
 * Online restart: how the two processes find and greet each other.
 *
 * A running process listens on an abstract Unix socket whose name follows from its pidfile (device and inode, so two paths to the
 * same file are the same), or, without one, from its Unix socket for clients. An abstract name needs no directory that the
 * process may write to, is in nobody's way, and is gone with the process. Anybody on the machine may connect to it, or sit on it
 * before; so each side asks the kernel who the other one is, and talks to its own user only.
 */
#include "main/takeover.h"

#include "base/pack.h"
#include "base/version.h"
#include "net/address.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME "pgweir"			/* the name of the program in HELLO: others might use the same name for their socket */

static bool name_file(const char *path, char *text, size_t size, char *why, size_t why_size)
{
	struct stat file;

	if (stat(path, &file) != 0) {
		snprintf(why, why_size, "\"%s\": %s", path, strerror(errno));
		return false;
	}
	snprintf(text, size, "file-%llx-%llx", (unsigned long long)file.st_dev, (unsigned long long)file.st_ino);
	return true;
}

static bool name_process(const struct settings *s, char *text, size_t size, char *why, size_t why_size)
{
	char path[256];

	if (s->pidfile && *s->pidfile)
		return name_file(s->pidfile, text, size, why, why_size);
	if (!s->unix_socket_dir || !*s->unix_socket_dir) {
		snprintf(why, why_size, "neither pidfile nor unix_socket_dir is set");
		return false;
	}
	snprintf(path, sizeof(path), "%s/.s.PGSQL.%u", s->unix_socket_dir, (unsigned)s->listen_port);
	if (path[0] != '@')
		return name_file(path, text, size, why, why_size);
	snprintf(text, size, "%s", path + 1);
	return true;
}

bool takeover_address(const struct settings *settings, struct sockaddr_un *address, socklen_t *size, char *why, size_t why_size)
{
	char name[256];
	int length;

	if (!name_process(settings, name, sizeof(name), why, why_size))
		return false;
	memset(address, 0, sizeof(*address));
	address->sun_family = AF_UNIX;
	/* the first byte is NUL: an abstract name */
	length = snprintf(address->sun_path + 1, sizeof(address->sun_path) - 1, "pgweir-takeover/%s", name);
	if (length < 0 || (size_t)length >= sizeof(address->sun_path) - 1) {
		snprintf(why, why_size, "the name of the Unix socket is too long");
		return false;
	}
	*size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
	return true;
}

bool takeover_say_hello(struct records *records, int patience)
{
	struct bytes out = BYTES_EMPTY;
	bool said;

	pack_text(&out, NAME);
	bytes_append_u32(&out, HANDOVER_VERSION);
	pack_text(&out, PGWEIR_VERSION);
	said = records_send(records, HANDOVER_HELLO, &out, -1, patience);
	bytes_free(&out);
	return said;
}

bool takeover_read_hello(const struct record *record, char *why, size_t why_size)
{
	struct unpack in = unpack_of(record->body, record->size);
	const char *name = unpack_text(&in), *version;
	uint32_t handover = unpack_u32(&in);

	version = unpack_text(&in);
	/* what a later version may add behind it is its own business: it is refused below */
	if (record->type != HANDOVER_HELLO || in.bad || !name || !version || strcmp(name, NAME) != 0) {
		snprintf(why, why_size, "the other process is no pgweir");
		return false;
	}
	if (handover == HANDOVER_VERSION)
		return true;
	snprintf(why, why_size, "pgweir %.32s hands over in version %u, pgweir " PGWEIR_VERSION " in version %d", version,
		 (unsigned)handover, HANDOVER_VERSION);
	return false;
}

bool takeover_is_our_user(int fd, int32_t *pid)
{
	uint32_t uid;

	return address_unix_peer(fd, pid, &uid) && uid == geteuid();
}
