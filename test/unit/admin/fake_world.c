/* The world of the console's tests: see fake_world.h. */
#include "fake_world.h"

struct fake_world fake;

/* ---- the session room ---- */

bool client_send(struct client *c, const struct bytes *bytes)
{
	struct fake_client *f = fake_of(c);

	if (peer_is_stopped(&c->peer))
		return false;
	if (f->is_broken || bytes->failed) {
		client_end(c, bytes->failed ? REASON_NO_MEMORY : REASON_CLIENT_EOF, NULL);
		return false;
	}
	bytes_append(&f->got, bytes->data + bytes->start, bytes_size(bytes));
	return true;
}

void client_end(struct client *c, enum close_reason why, const char *detail)
{
	(void)detail;
	if (peer_is_stopped(&c->peer))
		return;
	fake_of(c)->why = why;
	pool_client_become(fake.world.pools, &c->pooled, CLIENT_DEAD, fake.world.now);
	bytes_free(&c->peer.stream.out);
	list_remove(&c->peer.node);
	c->peer.fate = PEER_ENDS;
	list_append(&fake.world.peers.ending, &c->peer.node);
}

const char *client_text(const struct client *c, char *buf, size_t size)
{
	snprintf(buf, size, "C-0x%" PRIx64 ":", c->peer.id);
	return buf;
}

const char *server_text(const struct server *s, char *buf, size_t size)
{
	snprintf(buf, size, "S-%d", (int)s->peer.id);
	return buf;
}

void server_end(struct server *s, enum close_reason why, const char *detail)
{
	(void)s, (void)why, (void)detail;
}

void world_suspend(struct world *w, bool on)
{
	(void)w;
	*(on ? &fake.suspended : &fake.resumed) += 1;
}

size_t world_unflushed(struct world *w, bool drop)
{
	(void)w;
	fake.dropped += drop;
	fake.is_flushed |= drop;
	return !fake.is_flushed;
}

const char *pool_login_error(const struct pool *pool)
{
	return pool->login_failed ? "role does not exist" : NULL;
}

struct peer_count peers_count(const struct cancels *all, int id)
{
	(void)all;
	return id == 7 ? (struct peer_count){ .connecting = 1, .handed_over = 2 } : (struct peer_count){ .queued = 0 };
}

void world_drain_clients(struct world *w)
{
	(void)w;
	fake.drained++;
}

size_t world_drain_left(const struct world *w) { return w->drain.step == DRAIN_WAIT_CLIENTS ? 3 : 0; }

/* ---- the pool room's wishes ---- */

void fake_server_dies(struct pool_server *p)
{
	struct pool_client *c = p->link;

	if (c) {
		pool_unlink(p, SERVER_DEAD, true, fake.world.now);
		client_end(client_of(c), REASON_ADMIN_KILL, NULL);
	} else {
		pool_server_become(p, SERVER_DEAD, fake.world.now);
	}
	list_remove(&server_of(p)->peer.node);
	list_append(&fake.world.peers.ending, &server_of(p)->peer.node);
}

static void on_drop(struct pool_server *p, enum close_reason why)
{
	(void)why;
	fake_server_dies(p);
}

static void on_refuse(struct pool_client *p, enum close_reason why) { client_end(client_of(p), why, NULL); }
static bool on_yield(struct pool *pool) { (void)pool; return false; }
static void on_pool_end(struct pool *pool) { (void)pool; }

static const struct pool_ops fake_ops = { .drop = on_drop, .refuse = on_refuse, .pool_end = on_pool_end, .yield = on_yield };

/* ---- main ---- */

static bool on_reload(void *context, struct conf_problems *problems)
{
	(void)context;
	fake.reloads++;
	conf_problem_add(problems, true, "x.ini", 3, "listen_port needs a restart");
	for (int i = 1; fake.fails && i <= 7; i++)
		conf_problem_add(problems, false, i == 1 ? NULL : "x.ini", i == 2 ? 0 : 10 + i, "fault %d", i);
	return !fake.fails;
}

static bool on_set(void *context, const char *name, const char *value, struct conf_problems *problems)
{
	(void)context;
	fake.sets++;
	snprintf(fake.set_name, sizeof(fake.set_name), "%s", name);
	snprintf(fake.set_value, sizeof(fake.set_value), "%s", value);
	if (fake.fails)
		conf_problem_add(problems, false, NULL, 0, "unknown setting");
	return !fake.fails;
}

static void on_shutdown(void *context, enum world_drain how)
{
	(void)context;
	fake.shutdown = how;
	fake.world.drain.step = how;
}

/* ---- life ---- */

struct conf *fake_conf(const char *ini)
{
	struct conf_problems problems = { NULL, 0, 0 };
	char path[] = "/tmp/pgweir-test-XXXXXX";
	int fd = mkstemp(path);
	struct conf *conf;

	if (fd < 0 || write(fd, ini, strlen(ini)) != (ssize_t)strlen(ini))
		abort();
	close(fd);
	conf = conf_load(path, &problems);
	for (size_t i = 0; i < problems.count; i++)
		if (!problems.items[i].is_warning)
			fprintf(stderr, "%d: %s\n", problems.items[i].line, problems.items[i].text);
	conf_problems_free(&problems);
	unlink(path);
	if (!conf)
		abort();
	return conf;
}

void fake_start(const char *ini)
{
	static const struct control control = {
		.reload = on_reload, .set = on_set, .shutdown = on_shutdown, .version = "PgBouncer 1.25.2 (pgweir 0.0.0)",
	};
	struct dns_config dns = { .max_ttl = USEC };
	struct world *w = &fake.world;
	char why[256];

	memset(&fake, 0, sizeof(fake));
	setenv("TZ", "UTC", 1);
	fake.base = event_base_new();
	w->base = fake.base;
	w->now = 1000 * USEC;
	w->now_wall = 1600000000 * USEC;
	w->alarms = alarms_new();
	w->logins.addresses = client_addresses_new();		/* no address has a connection */
	w->logins.derivations = &fake.derivations;
	w->logins.secrets = &fake.secrets;
	w->conf = fake_conf(ini);
	w->shared = shared_new();
	w->pools = pools_new(&fake_ops, w->shared, w->conf, w->now);
	w->params = params_table_new(NULL);
	w->statements = statements_new(w->params);
	w->logins.verifiers = verifiers_new(fake.base, &(struct verify_limits){ 1, 1 });
	fake.derivations.derivers = verifiers_new(fake.base, &(struct verify_limits){ 1, 1 });
	w->dns = dns_open(fake.base, &dns, why, sizeof(why));
	list_init(&w->peers.clients);
	list_init(&w->peers.servers);
	list_init(&w->peers.ending);
	list_init(&w->peers.again);
	fake.is_flushed = true;
	fake.console = console_new(w, &control);
}

struct client *fake_client_new(const char *database, const char *user)
{
	struct fake_client *f = calloc(1, sizeof(*f));
	struct client *c = &f->client;
	struct world *w = &fake.world;
	struct user *login_user = user_get(w->pools, user);

	fake.clients[fake.client_count++] = f;
	c->peer.world = w;
	c->peer.is_client = true;
	c->peer.id = ++w->peers.last_id;
	c->peer.stream.fd = -1;
	c->peer.connected_at = w->now_wall;
	c->peer.remote = (struct brief_address){ .family = AF_INET, .port = 40000, .u.ip = { 127, 0, 0, 1 } };
	list_init(&c->peer.again);
	list_init(&c->peer.node);
	list_append(&w->peers.clients, &c->peer.node);
	pool_client_init(w->pools, &c->pooled, w->now);
	pool_client_join(&c->pooled, pool_get(database_get(w->pools, database, true, w->now), login_user, false, w->now), login_user);
	pool_client_become(w->pools, &c->pooled, CLIENT_IDLE, w->now);
	return c;
}

struct client *fake_caller(const char *user, bool is_admin)
{
	struct client *c = fake_client_new("pgbouncer", user);

	c->console.is_connected = true;
	c->console.is_admin = is_admin;
	c->console.may_show = true;
	c->cancel_key.pid = 77;
	fake.world.console.ops->welcome(fake.world.console.context, c);
	bytes_free(&fake_of(c)->got);
	return c;
}

struct server *fake_server_new(const char *database, const char *user)
{
	struct world *w = &fake.world;
	struct server *s = calloc(1, sizeof(*s));
	struct pool *pool = pool_get(database_get(w->pools, database, true, w->now), user_get(w->pools, user), false, w->now);

	fake.servers[fake.server_count++] = s;
	s->peer.world = w;
	s->peer.id = ++w->peers.last_id;
	s->peer.stream.fd = -1;
	s->peer.connected_at = w->now_wall;
	s->peer.remote = (struct brief_address){ .family = AF_INET, .port = 5432, .u.ip = { 10, 0, 0, 5 } };
	s->backend_pid = 4242;
	list_init(&s->peer.node);
	list_append(&w->peers.servers, &s->peer.node);
	pool_server_init(&s->pooled, pool, false, w->now);
	pool_login_succeeded(pool);
	pool_server_become(&s->pooled, SERVER_IDLE, w->now);
	return s;
}

void fake_end(void)
{
	struct world *w = &fake.world;

	console_free(&fake.console);
	for (int i = 0; i < fake.server_count; i++) {
		if (fake.servers[i]->pooled.state != SERVER_DEAD)
			fake_server_dies(&fake.servers[i]->pooled);
	}
	for (int i = 0; i < fake.client_count; i++)
		client_end(&fake.clients[i]->client, REASON_CLIENT_EOF, NULL);
	for (int i = 0; i < fake.server_count; i++)
		free(fake.servers[i]);
	for (int i = 0; i < fake.client_count; i++) {
		bytes_free(&fake.clients[i]->got);
		bytes_free(&fake.clients[i]->client.peer.stream.out);
		free(fake.clients[i]);
	}
	pools_check(w->pools);
	pools_free(&w->pools);
	shared_free(&w->shared);
	mem_free(w->statements);
	params_table_free(&w->params);
	dns_close(&w->dns);
	conf_drop(&w->conf);
	verifiers_free(&w->logins.verifiers);
	verifiers_free(&fake.derivations.derivers);
	client_addresses_free(&w->logins.addresses);
	alarms_free(&w->alarms);
	event_base_free(fake.base);
}

/* ---- messages ---- */

void fake_message(struct client *c, uint8_t type, const void *body, size_t size)
{
	/* an allocation of the exact size, so that the sanitizer detects a read past the end */
	uint8_t *copy = malloc(size + 1);

	memcpy(copy + 1, body, size);
	fake.world.console.ops->message(fake.world.console.context, c, type, copy + 1, size);
	free(copy);
}

void fake_query(struct client *c, const char *text)
{
	fake_message(c, 'Q', text, strlen(text) + 1);
}

/* Ends clients as world_reap() does: no function of the console is on the stack. */
static void fake_reap(void)
{
	struct list *node;

	while ((node = list_first(&fake.world.peers.ending)) != NULL) {
		struct peer *peer = LIST_OBJECT(node, struct peer, node);
		struct client *c = LIST_OBJECT(peer, struct client, peer);

		list_remove(node);
		if (peer->is_client && c->console.is_connected && fake.world.console.ops)
			fake.world.console.ops->closed(fake.world.console.context, c);
	}
}

/* Resumes console clients as world_again() does. */
static void fake_again(void)
{
	struct list now, *node;

	list_init(&now);
	while ((node = list_first(&fake.world.peers.again)) != NULL) {
		list_remove(node);
		list_append(&now, node);
	}
	while ((node = list_first(&now)) != NULL) {
		struct client *c = LIST_OBJECT(node, struct client, peer.again);

		list_remove(node);
		if (!peer_is_stopped(&c->peer))
			fake.world.console.ops->go_on(fake.world.console.context, c);
	}
}

void fake_turn(void)
{
	fake_again();
	fake_reap();
	pools_schedule(fake.world.pools, fake.world.now);
	console_turn(fake.console);
	fake_reap();
}

static void put_text(struct bytes *out, const uint8_t *text, size_t size)
{
	for (size_t i = 0; i < size; i++)
		if (text[i] >= ' ' && text[i] < 0x7f)
			bytes_append_u8(out, text[i]);
		else
			bytes_append_format(out, "\\x%02x", text[i]);
}

static void put_columns(struct bytes *out, struct pg_cursor *c)
{
	uint16_t count = pg_read_u16(c);

	for (uint16_t i = 0; i < count; i++) {
		const char *name = pg_read_string(c);
		uint32_t oid;

		pg_read_bytes(c, 6);
		oid = pg_read_u32(c);
		pg_read_bytes(c, 6);
		bytes_append_format(out, "%s%s:%u/%u", i ? "," : "", name, oid, pg_read_u16(c));
	}
}

static void put_cells(struct bytes *out, struct pg_cursor *c)
{
	uint16_t count = pg_read_u16(c);

	for (uint16_t i = 0; i < count; i++) {
		uint32_t size = pg_read_u32(c);

		if (i > 0)
			bytes_append_text(out, "|");
		if (size == UINT32_MAX)
			bytes_append_text(out, "~");
		else
			put_text(out, pg_read_bytes(c, size), size);
	}
}

static void put_frame(struct bytes *out, const struct pg_frame *f)
{
	struct pg_cursor c = pg_cursor_of(f->body, f->size);
	struct pg_error error;

	bytes_append_format(out, "%s%c", bytes_size(out) ? " " : "", f->type);
	if (f->size == 0 || f->type == 'K')
		return;
	bytes_append_text(out, "(");
	switch (f->type) {
	case 'E':
	case 'N':
		CHECK_INT(pg_error_read(f->body, f->size, &error), PG_OK);
		bytes_append_format(out, "%s %s", error.sqlstate, error.message);
		if (*error.detail)
			bytes_append_format(out, "{%s}", error.detail);
		break;
	case 'S': {
		const char *name = pg_read_string(&c);

		bytes_append_format(out, "%s=%s", name, pg_read_string(&c));
		break;
	}
	case 'T':
		put_columns(out, &c);
		CHECK(c.at == c.end && !c.bad);
		break;
	case 'D':
		put_cells(out, &c);
		CHECK(c.at == c.end && !c.bad);
		break;
	case 't':
		bytes_append_format(out, "%u", pg_read_u16(&c));
		break;
	case 'Z':
		bytes_append_u8(out, pg_read_u8(&c));
		break;
	default:
		bytes_append_text(out, pg_read_string(&c));
	}
	bytes_append_text(out, ")");
}

const char *fake_transcript(struct client *client)
{
	static char text[400000];
	struct bytes *got = &fake_of(client)->got, out = BYTES_EMPTY;
	struct pg_frame f;

	while (bytes_size(got) > 0) {
		if (pg_frame_look(bytes_front(got), bytes_size(got), INT32_MAX, &f) != PG_OK || !pg_frame_is_whole(&f)) {
			UNIT_FAIL("half a message was sent");
			break;
		}
		put_frame(&out, &f);
		bytes_consume(got, PG_HEADER + f.size);
	}
	bytes_append_u8(&out, 0);
	snprintf(text, sizeof(text), "%s", (const char *)bytes_front(&out));
	bytes_free(&out);
	bytes_free(got);
	return text;
}

const char *fake_ask(struct client *c, const char *text)
{
	fake_query(c, text);
	return fake_transcript(c);
}
