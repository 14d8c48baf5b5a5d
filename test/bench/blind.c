/*
 * blind - forwards bytes between each client and its own server connection, without reading them: blind LISTEN-PORT SERVER-PORT
 *
 * One thread, one epoll, one recv and one send for each piece in each direction. No pooler that moves bytes between two sockets can do less, so the
 * CPU time of this program for a query is the limit for pgweir.
 *
 * The program is neither fair nor careful: it waits in a loop for a peer that does not read, and it exits when it cannot listen on its only port. A
 * measurement in which both ends always read is not affected.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define PIECE ((size_t)256 * 1024)
#define DESCRIPTORS (1 << 20)
#define EVENTS 256

static int other_end[DESCRIPTORS];	/* of each descriptor; 0: closed */
static char piece[PIECE];
static int poller;

static struct sockaddr_in loopback(const char *port)
{
	return (struct sockaddr_in){
		.sin_family = AF_INET,
		.sin_port = htons((uint16_t)atoi(port)),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
}

static void no_delay(int fd)
{
	int on = 1;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

static void watch(int fd)
{
	struct epoll_event event = { .events = EPOLLIN, .data.fd = fd };

	epoll_ctl(poller, EPOLL_CTL_ADD, fd, &event);
}

static void join(int client, const char *server_port)
{
	struct sockaddr_in address = loopback(server_port);
	int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (server < 0 || connect(server, (struct sockaddr *)&address, sizeof(address)) != 0) {
		perror("blind: connect");
		close(client);
		close(server);
		return;
	}
	no_delay(server);
	other_end[client] = server;
	other_end[server] = client;
	watch(client);
	watch(server);
}

static void part(int fd)
{
	int other = other_end[fd];

	other_end[fd] = other_end[other] = 0;
	close(fd);
	close(other);
}

static void forward(int fd)
{
	ssize_t size = recv(fd, piece, sizeof(piece), MSG_DONTWAIT);

	if (size < 0 && errno == EAGAIN)
		return;
	if (size <= 0) {
		part(fd);
		return;
	}
	for (ssize_t sent = 0; sent < size; ) {
		ssize_t now = send(other_end[fd], piece + sent, (size_t)(size - sent), MSG_NOSIGNAL);

		if (now < 0 && errno != EAGAIN) {
			part(fd);
			return;
		}
		if (now > 0)
			sent += now;
	}
}

static int listen_on(const char *port)
{
	struct sockaddr_in address = loopback(port);
	int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	no_delay(fd);
	if (bind(fd, (struct sockaddr *)&address, sizeof(address)) != 0 || listen(fd, 1024) != 0) {
		perror("blind: listen");
		exit(1);
	}
	return fd;
}

static void more_descriptors(void)
{
	struct rlimit limit;

	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = limit.rlim_max < DESCRIPTORS ? limit.rlim_max : DESCRIPTORS;
	setrlimit(RLIMIT_NOFILE, &limit);
}

int main(int argc, char **argv)
{
	struct epoll_event events[EVENTS];
	int listener, client;

	if (argc != 3) {
		fprintf(stderr, "usage: blind LISTEN-PORT SERVER-PORT\n");
		return 2;
	}
	more_descriptors();
	poller = epoll_create1(EPOLL_CLOEXEC);
	listener = listen_on(argv[1]);
	watch(listener);
	for (;;) {
		int count = epoll_wait(poller, events, EVENTS, -1);

		for (int i = 0; i < count; i++) {
			int fd = events[i].data.fd;

			if (fd != listener) {
				if (other_end[fd])
					forward(fd);
				continue;
			}
			while ((client = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0)
				join(client, argv[2]);
		}
	}
}
