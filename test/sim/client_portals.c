/*
 * Portals with names: a client reads several of them in turn, some rows of each, within a batch and, in a transaction, over several.
 *
 * Invariant: a name is bound only while nothing is bound to it; and a portal that has been read to its end is closed or left alone.
 */
#include "chance.h"
#include "client.h"
#include "sim.h"

static void open_portal(struct guest *c, int portal)
{
	struct ask ask = client_draw_rows(c);

	client_send_parse(c, -1, &ask);
	client_send_bind(c, -1, &ask, portal);
	if (chance_one_in(4))
		client_send_named(c, 'D', 'P', -1, &ask, portal);
	sim_counts.portals++;
}

static void read_on(struct guest *c, int portal)
{
	const struct held *held = &c->planned.portals[portal];
	uint32_t left = held->ask.a - held->row;

	if (left > 1 && chance_one_in(2))
		client_send_execute(c, portal, 1 + chance_below(left - 1));
	else
		client_send_execute(c, portal, 0);
}

void client_ask_portals(struct guest *c)
{
	for (uint32_t i = 2 + chance_below(6); i > 0; i--) {
		int portal = 1 + (int)chance_below(PORTALS - 1);
		const struct held *held = &c->planned.portals[portal];
		struct ask ask = held->ask;

		if (!held->is_there)
			open_portal(c, portal);
		else if (held->row < held->ask.a && !chance_one_in(4))
			read_on(c, portal);
		else
			client_send_named(c, 'C', 'P', -1, &ask, portal);
	}
}
