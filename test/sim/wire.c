/*
 * The network of a simulated world: the socket calls that pgweir makes, over buffers in memory.
 *
 * A wire has two ends: the pooler's, a descriptor with a number that no real descriptor has, and an actor's. Bytes written at one end are available
 * at the other end at once, up to the size of the buffer; the actors add the delays. At random, a call transfers less than it could, or fails with
 * EAGAIN or EINTR. As on Linux, data before a reset can still be read, and the first write to a closed peer may succeed.
 *
 * Invariant: a wire lives until both ends have closed it.
 */
#include "base/assert.h"
#include "base/mem.h"
#include "chance.h"
#include "machine.h"
#include "sim.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#define WIRES_MOST 4096
#define ROOM 16384
#define LOCAL_ROOM 262144		/* the longest message fits */

enum connecting { CONNECTING_NOT, CONNECTING_NOW, CONNECTING_DONE };

struct wire {
	int fd;				/* the pooler's; -1: closed by it, or not accepted yet */
	uint8_t connecting;		/* enum connecting */
	bool hushed, gone, reset;	/* the actor: says no more, has closed, with a reset */
	bool pooler_gone, pooler_hushed, pooler_reset;
	bool was_full, is_local;
	int error;			/* of a connect that failed */
	struct bytes to_pooler, to_actor;
	size_t room_to_pooler, room_to_actor;
	struct actor *actor;		/* NULL: gone, or not there yet */
	struct actor dialling;
	enum reception reception;
	struct sockaddr_in address;
	struct wire *next_waiting;
};

struct wire_faults wire_faults;
uint64_t wire_faults_played;

static struct {
	const struct wire_hosts *hosts;
	struct wire *by_fd[WIRES_MOST];
	int lowest_free, open;
	struct wire *first_waiting, *last_waiting;
} net;

static bool plays(const struct wire *wire, uint32_t one_in)
{
	if (wire->is_local || one_in == 0 || !chance_one_in(one_in))
		return false;
	wire_faults_played++;
	return true;
}

/* ---- descriptors ---- */

static int new_fd(struct wire *wire)
{
	int i = net.lowest_free;

	while (i < WIRES_MOST && net.by_fd[i])
		i++;
	SIM_CHECK(i < WIRES_MOST, "out of simulated descriptors");
	net.by_fd[i] = wire;
	net.lowest_free = i + 1;
	net.open++;
	wire->fd = i + SIM_FD;
	return wire->fd;
}

static struct wire *wire_of(int fd)
{
	return fd >= SIM_FD && fd < SIM_FD + WIRES_MOST ? net.by_fd[fd - SIM_FD] : NULL;
}

static void dialled(struct actor *actor);

static struct wire *wire_new(void)
{
	struct wire *wire = mem_must(sizeof(*wire));

	wire->fd = -1;
	wire->room_to_pooler = wire->room_to_actor = ROOM;
	actor_init(&wire->dialling, dialled, 0);
	return wire;
}

static void free_if_over(struct wire *wire)
{
	if (!wire->pooler_gone || !wire->gone)
		return;
	bytes_free(&wire->to_pooler);
	bytes_free(&wire->to_actor);
	mem_free(wire);
}

static void notice_pooler(struct wire *wire)
{
	if (wire->fd >= 0)
		loop_may_be_ready(wire->fd);
}

int wire_open_ends(void)
{
	return net.open;
}

short wire_ready(int fd, short want)
{
	struct wire *w = wire_of(fd);
	short ready = 0;

	if (w->connecting)
		return w->connecting == CONNECTING_DONE ? want & (EV_READ | EV_WRITE) : 0;
	if (bytes_size(&w->to_pooler) > 0 || w->hushed || w->gone || w->reset)
		ready |= EV_READ;
	if (bytes_size(&w->to_actor) < w->room_to_actor || w->gone || w->reset)
		ready |= EV_WRITE;
	return ready & want;
}

/* ---- the pooler's calls ---- */

int __real_socket(int family, int type, int protocol);
int __wrap_socket(int family, int type, int protocol);
int __wrap_socket(int family, int type, int protocol)
{
	struct wire *wire;

	if (family != AF_INET)
		return __real_socket(family, type, protocol);
	wire = wire_new();
	wire->gone = true;		/* there is no far end yet */
	return new_fd(wire);
}

static void dialled(struct actor *actor)
{
	struct wire *wire = SIM_OBJECT(actor, struct wire, dialling);

	wire->connecting = CONNECTING_DONE;
	wire->error = ECONNREFUSED;
	if (wire->reception == RECEPTION_ACCEPTED) {
		wire->gone = false;
		wire->actor = net.hosts->connected(&wire->address, wire);
		if (wire->actor)
			wire->error = 0;
		else
			wire->gone = true;
	}
	notice_pooler(wire);
}

int __real_connect(int fd, const struct sockaddr *address, socklen_t size);
int __wrap_connect(int fd, const struct sockaddr *address, socklen_t size);
int __wrap_connect(int fd, const struct sockaddr *address, socklen_t size)
{
	struct wire *wire = wire_of(fd);
	usec_t delay = 0;

	if (!wire)
		return __real_connect(fd, address, size);
	memcpy(&wire->address, address, sizeof(wire->address));
	wire->connecting = CONNECTING_NOW;
	wire->reception = net.hosts->asked(&wire->address, &delay);
	if (wire->reception != RECEPTION_SILENCE)
		actor_at(&wire->dialling, loop_now() + delay);
	errno = EINPROGRESS;
	return -1;
}

ssize_t __real_recv(int fd, void *buffer, size_t size, int flags);
ssize_t __wrap_recv(int fd, void *buffer, size_t size, int flags);
ssize_t __wrap_recv(int fd, void *buffer, size_t size, int flags)
{
	struct wire *wire = wire_of(fd);
	size_t here;

	if (!wire)
		return __real_recv(fd, buffer, size, flags);
	here = bytes_size(&wire->to_pooler);
	if (here == 0 && wire->reset) {
		errno = ECONNRESET;
		return -1;
	}
	if (here == 0 && (wire->hushed || wire->gone))
		return 0;
	if (here == 0 || plays(wire, wire_faults.again)) {
		errno = EAGAIN;
		return -1;
	}
	if (plays(wire, wire_faults.interrupted)) {
		errno = EINTR;
		return -1;
	}
	if (here > size)
		here = size;
	if (here > 1 && plays(wire, wire_faults.cut))
		here = (size_t)chance_spread(1, (int64_t)here - 1);
	memcpy(buffer, bytes_front(&wire->to_pooler), here);
	bytes_consume(&wire->to_pooler, here);
	loop_progress();
	actor_notice(wire->actor);
	return (ssize_t)here;
}

/* Returns the number of the `size` bytes that fit; -1 with errno. */
static ssize_t room_for(struct wire *wire, size_t size)
{
	size_t room;

	if (wire->gone && !wire->reset && chance_one_in(2)) {
		/* the RST in answer to this write makes the next write fail */
		wire->reset = true;
		notice_pooler(wire);
		return (ssize_t)size;
	}
	if (wire->gone || wire->reset) {
		errno = chance_one_in(2) ? EPIPE : ECONNRESET;
		return -1;
	}
	room = bytes_size(&wire->to_actor) < wire->room_to_actor ? wire->room_to_actor - bytes_size(&wire->to_actor) : 0;
	if (room == 0 || plays(wire, wire_faults.again)) {
		wire->was_full = true;
		errno = EAGAIN;
		return -1;
	}
	if (room > size)
		room = size;
	if (room > 1 && plays(wire, wire_faults.cut))
		room = (size_t)chance_spread(1, (int64_t)room - 1);
	wire->was_full |= room < size;
	return (ssize_t)room;
}

static void deliver(struct wire *wire, const void *data, size_t size)
{
	if (wire->gone || wire->reset)
		return;
	bytes_append(&wire->to_actor, data, size);
	if (wire->actor && net.hosts->sent)
		net.hosts->sent(wire->actor, data, size);
	loop_progress();
	actor_notice(wire->actor);
}

ssize_t __real_send(int fd, const void *data, size_t size, int flags);
ssize_t __wrap_send(int fd, const void *data, size_t size, int flags);
ssize_t __wrap_send(int fd, const void *data, size_t size, int flags)
{
	struct wire *wire = wire_of(fd);
	ssize_t taken;

	if (!wire)
		return __real_send(fd, data, size, flags);
	taken = room_for(wire, size);
	if (taken > 0)
		deliver(wire, data, (size_t)taken);
	return taken;
}

ssize_t __real_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags)
{
	struct wire *wire = wire_of(fd);
	size_t size = 0;
	ssize_t taken, left;

	if (!wire)
		return __real_sendmsg(fd, message, flags);
	for (size_t i = 0; i < message->msg_iovlen; i++)
		size += message->msg_iov[i].iov_len;
	left = taken = room_for(wire, size);
	for (size_t i = 0; left > 0; i++) {
		size_t piece = message->msg_iov[i].iov_len;

		if (piece > (size_t)left)
			piece = (size_t)left;
		deliver(wire, message->msg_iov[i].iov_base, piece);
		left -= (ssize_t)piece;
	}
	return taken;
}

int __real_shutdown(int fd, int how);
int __wrap_shutdown(int fd, int how);
int __wrap_shutdown(int fd, int how)
{
	struct wire *wire = wire_of(fd);

	if (!wire)
		return __real_shutdown(fd, how);
	wire->pooler_hushed = true;
	actor_notice(wire->actor);
	return 0;
}

int __real_close(int fd);
int __wrap_close(int fd);
int __wrap_close(int fd)
{
	struct wire *wire = wire_of(fd);

	if (!wire) {
		SIM_CHECK(fd < SIM_FD, "a descriptor was closed twice");
		return __real_close(fd);
	}
	actor_rest(&wire->dialling);
	net.by_fd[fd - SIM_FD] = NULL;
	if (fd - SIM_FD < net.lowest_free)
		net.lowest_free = fd - SIM_FD;
	net.open--;
	wire->fd = -1;
	wire->pooler_gone = true;
	wire->pooler_reset = bytes_size(&wire->to_pooler) > 0;
	actor_notice(wire->actor);
	free_if_over(wire);
	return 0;
}

int __real_getsockopt(int fd, int level, int name, void *value, socklen_t *size);
int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *size);
int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *size)
{
	struct wire *wire = wire_of(fd);

	if (!wire)
		return __real_getsockopt(fd, level, name, value, size);
	SIM_CHECK(level == SOL_SOCKET && name == SO_ERROR && wire->connecting == CONNECTING_DONE, "an unknown question to a socket");
	memcpy(value, &wire->error, sizeof(int));
	if (wire->error == 0)
		wire->connecting = CONNECTING_NOT;
	return 0;
}

int __real_setsockopt(int fd, int level, int name, const void *value, socklen_t size);
int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t size);
int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t size)
{
	return wire_of(fd) ? 0 : __real_setsockopt(fd, level, name, value, size);
}

int __real_getsockname(int fd, struct sockaddr *address, socklen_t *size);
int __wrap_getsockname(int fd, struct sockaddr *address, socklen_t *size);
int __wrap_getsockname(int fd, struct sockaddr *address, socklen_t *size)
{
	const struct sockaddr_in local = { .sin_family = AF_INET, .sin_port = htons(6432), .sin_addr = { htonl(INADDR_LOOPBACK) } };

	if (!wire_of(fd))
		return __real_getsockname(fd, address, size);
	memcpy(address, &local, sizeof(local));
	*size = sizeof(local);
	return 0;
}

/* ---- the actors' ends ---- */

struct wire *wire_call(struct actor *actor, int address, uint16_t port)
{
	struct wire *wire;

	if (!sim_has_listener())
		return NULL;
	wire = wire_new();
	wire->actor = actor;
	wire->address = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons(port),
		.sin_addr = { htonl(INADDR_LOOPBACK + (uint32_t)address) } };
	if (net.last_waiting)
		net.last_waiting->next_waiting = wire;
	else
		net.first_waiting = wire;
	net.last_waiting = wire;
	return wire;
}

int wire_pair(struct actor *actor, struct wire **place)
{
	struct wire *wire = wire_new();

	wire->is_local = true;
	wire->actor = actor;
	wire->room_to_pooler = wire->room_to_actor = LOCAL_ROOM;
	*place = wire;
	return new_fd(wire);
}

static struct wire *first_waiting(void)
{
	struct wire *wire = net.first_waiting;

	if (!wire)
		return NULL;
	net.first_waiting = wire->next_waiting;
	if (!net.first_waiting)
		net.last_waiting = NULL;
	return wire;
}

int wire_accept(uint16_t port, struct sockaddr_in *peer)
{
	struct wire *wire = first_waiting();

	(void)port;
	if (!wire)
		return -1;
	*peer = wire->address;
	return new_fd(wire);
}

void wire_refuse_waiting(void)
{
	struct wire *wire;

	while ((wire = first_waiting()) != NULL) {
		wire->pooler_gone = wire->pooler_reset = true;
		actor_notice(wire->actor);
		free_if_over(wire);
	}
}

size_t wire_put(struct wire *wire, const void *data, size_t size)
{
	size_t room = bytes_size(&wire->to_pooler) < wire->room_to_pooler ? wire->room_to_pooler - bytes_size(&wire->to_pooler) : 0;

	if (wire->pooler_gone || wire->hushed)
		return size;		/* it goes nowhere */
	if (room > size)
		room = size;
	if (room > 1 && plays(wire, wire_faults.cut))
		room = (size_t)chance_spread(1, (int64_t)room - 1);
	bytes_append(&wire->to_pooler, data, room);
	notice_pooler(wire);
	return room;
}

const uint8_t *wire_come(const struct wire *wire, size_t *size)
{
	*size = bytes_size(&wire->to_actor);
	return *size > 0 ? bytes_front(&wire->to_actor) : NULL;
}

void wire_take(struct wire *wire, size_t size)
{
	bytes_consume(&wire->to_actor, size);
	notice_pooler(wire);
}

bool wire_is_gone(const struct wire *wire)
{
	return wire->pooler_gone;
}

bool wire_has_ended(const struct wire *wire)
{
	return wire->pooler_gone || wire->pooler_hushed;
}

void wire_hush(struct wire *wire)
{
	wire->hushed = true;
	notice_pooler(wire);
}

void wire_close(struct wire **place, bool reset)
{
	struct wire *wire = *place;

	*place = NULL;
	if (!wire)
		return;
	wire->actor = NULL;
	wire->gone = true;
	/* an end that closes with bytes unread resets, too */
	wire->reset = reset || bytes_size(&wire->to_actor) > 0;
	if (reset)
		bytes_free(&wire->to_pooler);
	bytes_free(&wire->to_actor);
	notice_pooler(wire);
	free_if_over(wire);
}

void wire_set_room(struct wire *wire, size_t to_pooler, size_t to_actor)
{
	wire->room_to_pooler = to_pooler;
	wire->room_to_actor = to_actor;
	notice_pooler(wire);
}

bool wire_was_full(const struct wire *wire)
{
	return wire->was_full;
}

void wire_begin(const struct wire_hosts *hosts)
{
	memset(&net, 0, sizeof(net));
	net.hosts = hosts;
}

bool wire_end(void)
{
	return net.open == 0 && !net.first_waiting;
}
