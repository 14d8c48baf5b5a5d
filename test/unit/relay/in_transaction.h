#ifndef IN_TRANSACTION_H
#define IN_TRANSACTION_H

/* A client in a transaction, and its server. near and far are the test's ends of their connections. */
#include "relay/relay.h"

#include "unit.h"
#include "whole.h"

static struct house_end *near, *far;
static struct client *client;
static struct server *server;

static inline bool begin_in_transaction(const char *ini)
{
	whole_open(ini);
	client = whole_in_transaction(&near, &far);
	server = whole_last_server();
	whole_server_got(far);
	return client && server;
}

/* The client has asked for a role. Returns whether it has a request. */
static inline bool begin_with_role(const char *ini)
{
	if (!begin_in_transaction(ini))
		return false;
	client->pooled.role = TARGET_PRIMARY;
	client_prepare_request(client);
	return client->request;
}

static inline void end_with_role(void)
{
	client->pooled.role = TARGET_ANY;
	pool_client_seek(&client->pooled, false);
	whole.holds_answers = false;
	house_settle(&whole);
	whole_close();
}

#endif
