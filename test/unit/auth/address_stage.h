/* Clients that log in from several addresses, and the world that counts them. */
#ifndef TEST_ADDRESS_STAGE_H
#define TEST_ADDRESS_STAGE_H

#include "auth/client_address.h"
#include "auth/login_state.h"
#include "unit.h"

#include <string.h>

#define CLIENTS 64

static struct {
	struct world world;
	struct conf conf;
	struct client clients[CLIENTS];
	struct login logins[CLIENTS];
	int count;
} scene;

static void begin(int max_login_clients)
{
	memset(&scene, 0, sizeof(scene));
	list_init(&scene.world.peers.clients);
	scene.conf.settings.max_login_clients = max_login_clients;
	scene.world.conf = &scene.conf;
	scene.world.now = 100 * USEC;
	scene.world.logins.addresses = client_addresses_new();
}

/* Adds a client that begins to log in. */
static struct client *come_from(const struct brief_address *address)
{
	struct client *c = &scene.clients[scene.count];
	struct login *l = &scene.logins[scene.count++];

	c->peer.world = &scene.world;
	c->peer.remote = *address;
	c->login = l;
	l->client = c;
	list_init(&l->address_node);
	list_init(&l->waited_for_node);
	list_init(&l->refusal_node);
	list_append(&scene.world.peers.clients, &c->peer.node);
	CHECK(client_address_enter(c));
	client_addresses_check(&scene.world);
	return c;
}

/* Adds a client from 10.0.0.`host`. */
static struct client *come(int host)
{
	return come_from(&(struct brief_address){ .family = AF_INET, .u.ip = { 10, 0, 0, (uint8_t)host } });
}

/* Adds a client from its own /64 network in the /48 network of this site. */
__attribute__((unused)) static struct client *come_from_site(int site, int network)
{
	return come_from(&(struct brief_address){ .family = AF_INET6, .u.ip = { 0x20, 0x01, 0x0d, 0xb8, 0, (uint8_t)site, 0, (uint8_t)network, [15] = 1 } });
}

static void leave(struct client *c)
{
	client_address_leave(c);
	list_remove(&c->peer.node);
	client_addresses_check(&scene.world);
}

static void end(void)
{
	for (int i = 0; i < scene.count; i++)
		leave(&scene.clients[i]);
	CHECK(!scene.world.logins.addresses->by_key && !scene.world.logins.addresses->sites);
	client_addresses_free(&scene.world.logins.addresses);
}

#endif
