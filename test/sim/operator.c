/*
 * The operator: one actor with two connections to the console. Commands that may wait (PAUSE, SUSPEND, WAIT_CLOSE, KILL) are sent on the first, and
 * after a while the second sends the command that ends the wait.
 *
 * Invariant: each command is answered, at the latest after the second connection's command.
 */
#include "base/mem.h"
#include "chance.h"
#include "client.h"
#include "machine.h"
#include "pg/build.h"
#include "prove.h"
#include "core/lifecycle.h"
#include "sim.h"

#include <stdio.h>
#include <string.h>

struct console_end {
	struct actor actor;
	struct wire *wire;
	bool is_ready, is_busy;
	struct prover prover;
	struct bytes out, come;
	char next[64];			/* to be said when it is ready; "": nothing */
};

static struct {
	struct console_end ends[2];
	struct actor actor;
	struct world *world;
	char undo[64];			/* the next command of the second connection */
	int calm_step;
} op;

/* ---- a connection ---- */

static void end_close(struct console_end *e)
{
	wire_close(&e->wire, false);
	bytes_free(&e->out);
	bytes_free(&e->come);
	prove_clear(&e->prover);
	e->is_ready = e->is_busy = false;
	actor_rest(&e->actor);
}

static void put_out(struct console_end *e)
{
	if (bytes_size(&e->out) > 0)
		bytes_consume(&e->out, wire_put(e->wire, bytes_front(&e->out), bytes_size(&e->out)));
}

static void say_next(struct console_end *e)
{
	if (!e->is_ready || e->is_busy || !*e->next)
		return;
	SIM_TRACE("operator: %s", e->next);
	sim_counts.commands++;
	pg_build_string(&e->out, 'Q', e->next);
	e->next[0] = '\0';
	e->is_busy = true;
}

static void message(struct console_end *e, char type, const uint8_t *body, uint32_t size)
{
	if (type == 'R' && sim_u32(body) != 0)
		SIM_CHECK(prove(&e->prover, body, size, &e->out), "the operator is asked for %u", sim_u32(body));
	if (type == 'E')
		SIM_TRACE("operator is told %s", client_error_field(body, size, 'M'));
	if (type != 'Z') {
		SIM_CHECK(strchr("RSKTDCENZI", type), "the console says %c", type);
		return;
	}
	e->is_ready = true;
	e->is_busy = false;
}

static void end_act(struct actor *actor)
{
	struct console_end *e = SIM_OBJECT(actor, struct console_end, actor);
	size_t here, size;
	const uint8_t *at = wire_come(e->wire, &here);

	if (here > 0) {
		bytes_append(&e->come, at, here);
		wire_take(e->wire, here);
	}
	for (;;) {
		at = bytes_front(&e->come);
		here = bytes_size(&e->come);
		if (here < 5 || here < (size = sim_u32(at + 1) + 1))
			break;
		message(e, (char)*at, at + 5, (uint32_t)size - 5);
		bytes_consume(&e->come, size);
	}
	if (wire_has_ended(e->wire)) {
		end_close(e);
		return;
	}
	say_next(e);
	put_out(e);
}

static void end_open(struct console_end *e)
{
	const char *const pairs[] = { "user", "admin", "database", "pgbouncer" };

	e->wire = wire_call(&e->actor, 0, 1000);
	if (!e->wire)
		return;
	snprintf(e->prover.user, sizeof(e->prover.user), "admin");
	snprintf(e->prover.password, sizeof(e->prover.password), "adminpassword");
	pg_build_startup(&e->out, 3 << 16, pairs, 4);
	actor_at(&e->actor, loop_now());
}

/* Says it as soon as may be. */
static void say(struct console_end *e, const char *command)
{
	snprintf(e->next, sizeof(e->next), "%s", command);
	if (!e->wire)
		end_open(e);
	else
		actor_at(&e->actor, loop_now());
}

/* ---- commands ---- */

static void name_some(char *to, size_t size, const char *verb, const char *undo)
{
	int database = (int)chance_below((uint32_t)plan.databases);

	if (chance_one_in(3)) {
		snprintf(to, size, "%s", verb);
		snprintf(op.undo, sizeof(op.undo), "%s", undo);
		return;
	}
	snprintf(to, size, "%s d%d", verb, database);
	if (*undo)
		snprintf(op.undo, sizeof(op.undo), "%s d%d", undo, database);
}

static void draw_client(char *to, size_t size)
{
	uint32_t skip = chance_below(8);

	LIST_EACH(node, &op.world->peers.clients) {
		const struct client *c = LIST_OBJECT(node, struct client, peer.node);

		if (!c->console.is_connected && skip-- == 0) {
			snprintf(to, size, "KILL_CLIENT %llu", (unsigned long long)c->peer.id);
			return;
		}
	}
}

static void draw_command(char *to, size_t size)
{
	static const char *const shows[] = {
		"CLIENTS", "SERVERS", "POOLS", "STATS", "STATS_TOTALS", "STATS_AVERAGES", "TOTALS", "LISTS", "DATABASES", "USERS", "SOCKETS",
		"ACTIVE_SOCKETS", "CONFIG", "MEM", "STATE", "REASONS", "PEERS", "PEER_POOLS", "FDS", "DNS_HOSTS", "DNS_ZONES", "VERIFIERS", "HELP",
	};

	switch (chance_below(14)) {
	case 0: case 1: case 2:
		snprintf(to, size, "SHOW %s", CHANCE_OF(shows));
		return;
	case 3: case 4:
		snprintf(to, size, "RELOAD");
		sim_counts.reloads++;
		return;
	case 5: case 6:
		name_some(to, size, "PAUSE", "RESUME");
		return;
	case 7:
		name_some(to, size, "RECONNECT", "");
		return;
	case 8:
		name_some(to, size, "KILL", "RESUME");
		return;
	case 9:
		draw_client(to, size);
		return;
	case 10:
		snprintf(to, size, "SUSPEND");
		snprintf(op.undo, sizeof(op.undo), "RESUME");
		return;
	case 11:
		name_some(to, size, "WAIT_CLOSE", "");
		return;
	case 12:
		snprintf(to, size, "DISABLE d%u", chance_below((uint32_t)plan.databases));
		snprintf(op.undo, sizeof(op.undo), "ENABLE %s", to + strlen("DISABLE "));
		return;
	default:
		snprintf(to, size, "SET query_wait_timeout = %u", 1 + chance_below(100));
	}
}

static void act(struct actor *actor)
{
	char command[64] = "";

	(void)actor;
	if (sim_is_calm)
		return;
	/* nothing is done that might not be undone, because no client is let in any more */
	if (!op.ends[1].is_ready) {
		if (!op.ends[1].wire)
			end_open(&op.ends[1]);
	} else if (*op.undo) {
		say(&op.ends[1], op.undo);
		op.undo[0] = '\0';
	} else if (!op.ends[0].is_busy) {
		draw_command(command, sizeof(command));
		if (*command)
			say(&op.ends[0], command);
	} else if (chance_one_in(20)) {
		/* gives up waiting */
		end_close(&op.ends[0]);
	}
	actor_at(&op.actor, loop_now() + chance_spread(USEC / 100, *op.undo ? 30 * USEC : 300 * USEC));
}

void operator_begin(struct world *world)
{
	memset(&op, 0, sizeof(op));
	op.world = world;
	actor_init(&op.actor, act, 0);
	for (int i = 0; i < 2; i++)
		actor_init(&op.ends[i].actor, end_act, plan.slowness);
	if (plan.operator)
		actor_at(&op.actor, loop_now() + chance_spread(0, 300 * USEC));
}

/* Undoes everything, on the second end, one after the other. */
bool operator_is_done(void)
{
	struct console_end *e = &op.ends[1];
	char command[64] = "";

	if (*e->next && !e->wire)
		end_open(e);
	if (e->is_busy || *e->next)
		return false;
	if (op.calm_step == 0)
		snprintf(command, sizeof(command), "RESUME");
	else if (op.calm_step <= plan.databases)
		snprintf(command, sizeof(command), "RESUME d%d", op.calm_step - 1);
	else if (op.calm_step <= 2 * plan.databases)
		snprintf(command, sizeof(command), "ENABLE d%d", op.calm_step - 1 - plan.databases);
	if (!*command || !plan.operator) {
		end_close(&op.ends[0]);
		end_close(&op.ends[1]);
		return true;
	}
	op.calm_step++;
	say(e, command);
	return false;
}

void operator_calm(void)
{
	op.undo[0] = '\0';
	op.ends[1].next[0] = '\0';
	/* a login has to end within client_login_timeout, which may be a second */
	for (int i = 0; i < 2; i++)
		op.ends[i].actor.slowness = 0;
}

void operator_say(const char *command)
{
	say(&op.ends[1], command);
}

void operator_end(void)
{
	actor_rest(&op.actor);
	end_close(&op.ends[0]);
	end_close(&op.ends[1]);
}
