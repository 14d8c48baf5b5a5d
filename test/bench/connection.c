/*
 * The client's end of a connection.
 *
 * In an answer, only authentication requests, errors and ReadyForQuery matter; all other messages are skipped by length, in one shared read buffer. A
 * connection keeps only the beginning of an incomplete message, so ten thousand connections are small.
 *
 * A connection reads at most one read buffer before other connections have their turn. Over TLS more bytes may then be decrypted than fitted: that
 * connection is visited again without an event.
 *
 * A callback may close the connection and reconnect while its last bytes are still being parsed; `generation` shows this, and the old bytes are
 * dropped.
 *
 * The keys of SCRAM-SHA-256 are derived once for each salt, not for each login, because the work of the pooler is measured.
 */
#include "connection.h"
#include "derive.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <openssl/rand.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "pg/build.h"
#include "pg/frame.h"
#include "pg/scram.h"

#define READ_SIZE ((size_t)256 * 1024)
#define EVENTS 512
#define MESSAGE_MOST 0x7fffffffu
#define PROTOCOL (3u << 16)

static const struct connection_target *target;
static SSL_CTX *tls;
static int poller;
static struct connection *again;	/* to be read once more before waiting */
static uint8_t input[CARRY_MOST + READ_SIZE];

/* The keys of the one password, by the salt that the server asked with. */
static struct {
	bool known;
	uint32_t iterations;
	size_t salt_size;
	uint8_t salt[SCRAM_SALT_MAX], client_key[SCRAM_KEY], server_key[SCRAM_KEY];
} keys;

/* ---- Opening, closing, sending ---- */

static void shut(struct connection *c)
{
	wire_close(&c->wire);
	bytes_free(&c->startup);
	if (c->prover) {
		scram_prover_clear(c->prover);
		free(c->prover);
		c->prover = NULL;
	}
}

static void break_off(struct connection *c, const char *why)
{
	shut(c);
	target->broken(c, why);
}

void connection_send(struct connection *c, const struct bytes *bytes)
{
	if (!wire_write_all(&c->wire, bytes_front(bytes), bytes_size(bytes)))
		break_off(c, "connection closed");
}

static void send_and_free(struct connection *c, struct bytes *bytes)
{
	connection_send(c, bytes);
	bytes_free(bytes);
}

void connection_leave(struct connection *c)
{
	struct bytes out = BYTES_EMPTY;

	pg_build(&out, 'X', NULL, 0);
	/* whether it arrives does not matter any more */
	wire_write_all(&c->wire, bytes_front(&out), bytes_size(&out));
	bytes_free(&out);
	shut(c);
}

static void log_in(struct connection *c)
{
	struct bytes startup = c->startup;

	c->startup = (struct bytes)BYTES_EMPTY;
	c->phase = LOGGING_IN;
	send_and_free(c, &startup);
}

/* Which port it is, is found when it connects: one address then has a range of ports for each address that it connects to. */
static bool bind_to(int fd, const char *from)
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	int on = 1;

	if (!from)
		return true;
	setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof(on));
	return inet_pton(AF_INET, from, &address.sin_addr) == 1 && bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0;
}

void connection_dial(struct connection *c, const char *user, const char *database)
{
	const char *const pairs[] = { "user", user, "database", database };
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(target->port)) };
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = c };
	struct bytes out = BYTES_EMPTY;
	int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	c->wire = (struct wire){ .fd = fd };
	c->generation++;
	c->skip = 0;
	c->carried = 0;
	if (inet_pton(AF_INET, target->host, &address.sin_addr) != 1 || fd < 0 || !bind_to(fd, target->from) ||
	    connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0) {
		break_off(c, strerror(errno));
		return;
	}
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	fcntl(fd, F_SETFL, O_NONBLOCK);
	epoll_ctl(poller, EPOLL_CTL_ADD, fd, &event);
	pg_build_startup(&c->startup, PROTOCOL, pairs, 4);
	if (!tls) {
		log_in(c);
		return;
	}
	c->phase = ASKING_TLS;
	pg_build(&out, 0, PG_SSL_REQUEST, sizeof(PG_SSL_REQUEST) - 1);
	send_and_free(c, &out);
}

/* ---- TLS ---- */

static int on_ticket(SSL *ssl, SSL_SESSION *ticket)
{
	struct connection *c = SSL_get_app_data(ssl);

	SSL_SESSION_free(c->ticket);
	c->ticket = ticket;
	return 1;
}

static void shake_hands(struct connection *c)
{
	ssize_t result = wire_handshake(&c->wire);

	if (result == WIRE_ENDED)
		break_off(c, "the TLS handshake failed");
	else if (result != WIRE_LATER)
		log_in(c);
}

static void on_tls_answer(struct connection *c)
{
	char answer = 0;
	ssize_t got = wire_read(&c->wire, &answer, 1);

	if (got == WIRE_LATER)
		return;
	if (got == WIRE_ENDED || answer != 'S') {
		break_off(c, got == WIRE_ENDED ? "connection closed" : "the server has no TLS");
		return;
	}
	c->phase = SHAKING_HANDS;
	wire_start_tls(&c->wire, tls, false, target->offers_ticket ? c->ticket : NULL);
	SSL_set_app_data(c->wire.ssl, c);
	shake_hands(c);
}

/* ---- SCRAM-SHA-256 ---- */

static bool keys_for(void *context, const uint8_t *salt, size_t salt_size, uint32_t iterations,
		     uint8_t client_key[SCRAM_KEY], uint8_t server_key[SCRAM_KEY])
{
	(void)context;
	if (!keys.known || keys.iterations != iterations || keys.salt_size != salt_size ||
	    memcmp(keys.salt, salt, salt_size) != 0)
		return false;
	memcpy(client_key, keys.client_key, SCRAM_KEY);
	memcpy(server_key, keys.server_key, SCRAM_KEY);
	return true;
}

static void keep_keys(const struct scram_prover *p)
{
	keys.known = true;
	keys.iterations = p->iterations;
	keys.salt_size = p->salt_size;
	memcpy(keys.salt, p->salt, p->salt_size);
	memcpy(keys.client_key, p->client_key, SCRAM_KEY);
	memcpy(keys.server_key, p->server_key, SCRAM_KEY);
}

static struct scram_prover *prover_new(void)
{
	struct scram_prover *prover = calloc(1, sizeof(*prover));
	uint8_t nonce[SCRAM_NONCE_RAW];

	if (!prover || RAND_bytes(nonce, sizeof(nonce)) != 1)
		abort();
	scram_prover_init(prover, nonce);
	prover->may_derive = true;
	return prover;
}

static void derive(struct scram_prover *p)
{
	uint8_t stored_key[SCRAM_KEY];

	if (!scram_keys_derive(target->password, p->salt, p->salt_size, p->iterations, p->client_key, stored_key, p->server_key))
		abort();
	p->have_keys = true;
}

/* Sends the next message of the exchange; `message` is the server's data, without the code. */
static void prove(struct connection *c, const uint8_t *message, size_t size)
{
	struct bytes answer = BYTES_EMPTY, out = BYTES_EMPTY;
	bool is_first = !c->prover;
	const char *why = NULL;
	enum scram_result result;

	if (!target->password) {
		break_off(c, "the server asks for a password: set PGPASSWORD");
		return;
	}
	if (is_first)
		c->prover = prover_new();
	result = scram_prover_step(c->prover, is_first ? NULL : (const char *)message, size, keys_for, NULL, &answer, &why);
	if (result == SCRAM_PENDING) {
		derive(c->prover);
		result = scram_prover_step(c->prover, (const char *)message, size, keys_for, NULL, &answer, &why);
	}
	if (result == SCRAM_CONTINUE) {
		if (is_first)
			pg_build_sasl_initial(&out, "SCRAM-SHA-256", bytes_front(&answer), bytes_size(&answer));
		else
			pg_build(&out, 'p', bytes_front(&answer), bytes_size(&answer));
		send_and_free(c, &out);
	} else if (result == SCRAM_DONE) {
		keep_keys(c->prover);
	} else {
		break_off(c, why);
	}
	bytes_free(&answer);
}

/* ---- Messages ---- */

static void on_authentication(struct connection *c, const struct pg_frame *frame)
{
	struct pg_cursor body = pg_cursor_of(frame->body, frame->size);

	switch (pg_read_u32(&body)) {
	case 0:
		return;
	case 10:	/* SASL, and how it continues and ends */
	case 11:
	case 12:
		prove(c, body.at, (size_t)(body.end - body.at));
		return;
	default:
		break_off(c, "the server asks for another proof than SCRAM-SHA-256");
	}
}

static void on_error(struct connection *c, const struct pg_frame *frame)
{
	struct pg_cursor body = pg_cursor_of(frame->body, frame->here);
	const char *message = "", *sqlstate = "";
	char text[CARRY_MOST];
	uint8_t field;

	while ((field = pg_read_u8(&body)) != 0) {
		const char *value = pg_read_string(&body);

		if (field == 'M')
			message = value;
		if (field == 'C')
			sqlstate = value;
	}
	snprintf(text, sizeof(text), "%s (%s)", message, sqlstate);
	target->error(c, text);
}

static void on_ready(struct connection *c)
{
	if (c->phase == LOGGED_IN) {
		target->ready(c);
		return;
	}
	c->phase = LOGGED_IN;
	target->logged_in(c, c->wire.ssl && SSL_session_reused(c->wire.ssl));
}

/* Handles the message. Returns true if it is complete as far as necessary. */
static bool handle(struct connection *c, const struct pg_frame *frame)
{
	if (frame->type != 'Z' && frame->type != 'R' && frame->type != 'E')
		return true;
	if (!pg_frame_is_whole(frame) && frame->size + PG_HEADER <= CARRY_MOST)
		return false;
	if (frame->type == 'Z')
		on_ready(c);
	else if (frame->type == 'R')
		on_authentication(c, frame);
	else
		on_error(c, frame);
	return true;
}

/* Walks the messages at `p`. Returns how many bytes are done with; the others are the beginning of a message. */
static size_t walk(struct connection *c, const uint8_t *p, size_t size)
{
	unsigned generation = c->generation;
	struct pg_frame frame;
	size_t at = 0;

	for (;;) {
		size_t piece = size - at < c->skip ? size - at : c->skip;
		enum pg_verdict verdict;

		at += piece;
		c->skip -= (uint32_t)piece;
		verdict = pg_frame_look(p + at, size - at, MESSAGE_MOST, &frame);
		if (verdict == PG_BAD)
			break_off(c, "not a message");
		if (verdict != PG_OK || !handle(c, &frame))
			return at;
		if (c->generation != generation || c->wire.fd < 0)
			return size;
		at += PG_HEADER;
		c->skip = frame.size;
	}
}

static void come_again(struct connection *c)
{
	if (c->is_again)
		return;
	c->is_again = true;
	c->next_again = again;
	again = c;
}

static void read_messages(struct connection *c, size_t most)
{
	unsigned generation = c->generation;
	size_t size = c->carried, done;
	ssize_t got;

	memcpy(input, c->carry, size);
	got = wire_read(&c->wire, input + size, most);
	if (got == WIRE_ENDED)
		break_off(c, "connection closed");
	if (got <= 0)
		return;
	target->received(c, (size_t)got);
	size += (size_t)got;
	done = walk(c, input, size);
	if (c->generation != generation || c->wire.fd < 0)
		return;
	c->carried = size - done;
	memcpy(c->carry, input + done, c->carried);
	if (c->wire.ssl && got == (ssize_t)READ_SIZE)
		come_again(c);
}

void connection_hold(struct connection *c)
{
	epoll_ctl(poller, EPOLL_CTL_DEL, c->wire.fd, NULL);
}

void connection_read(struct connection *c, size_t most)
{
	read_messages(c, most < READ_SIZE ? most : READ_SIZE);
}

static void on_readable(struct connection *c)
{
	switch (c->phase) {
	case ASKING_TLS:
		on_tls_answer(c);
		break;
	case SHAKING_HANDS:
		shake_hands(c);
		break;
	case LOGGING_IN:
	case LOGGED_IN:
		read_messages(c, READ_SIZE);
		break;
	}
}

void connections_begin(const struct connection_target *wanted)
{
	target = wanted;
	poller = epoll_create1(EPOLL_CLOEXEC);
	if (target->tls) {
		tls = wire_context(NULL, NULL);
		SSL_CTX_set_session_cache_mode(tls, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
		SSL_CTX_sess_set_new_cb(tls, on_ticket);
	}
}

void connections_wait(int milliseconds)
{
	struct connection *round = again;
	struct epoll_event events[EVENTS];
	int count;

	again = NULL;
	while (round) {
		struct connection *c = round;

		round = c->next_again;
		c->is_again = false;
		if (c->wire.fd >= 0)
			on_readable(c);
	}
	count = epoll_wait(poller, events, EVENTS, again ? 0 : milliseconds);

	for (int i = 0; i < count; i++) {
		struct connection *c = events[i].data.ptr;

		if (c->wire.fd >= 0)
			on_readable(c);
	}
}
