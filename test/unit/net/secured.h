#ifndef SECURED_H
#define SECURED_H

/*
 * For the tests of streams under TLS: two ends and the handshake between them.
 */
#include "certs.h"
#include "ends.h"
#include "net/tls.h"

/* The variable parts of a test; otherwise a server with `server`'s certificate and a client that trusts `ca`. */
struct scene {
	const struct cert *server, *client;
	const char *name, *server_ca, *client_ca, *protocols, *ciphers;
	bool verify, verify_name, verify_client, request_client;
};

static struct end a, b;			/* a connects, b accepts */
static struct tls_context *connecting, *accepting;
static char why[300];

static bool make_contexts(const struct scene *scene)
{
	const struct cert *own = scene->server ? scene->server : &server;
	struct tls_config in = { .server_side = true, .cert_file = own->cert_file, .key_file = own->key_file,
				 .ca_file = scene->client_ca, .protocols = scene->protocols, .ciphers = scene->ciphers,
				 .verify_peer = scene->verify_client, .request_peer = scene->request_client };
	struct tls_config out = { .ca_file = scene->server_ca ? scene->server_ca : ca.cert_file,
				  .protocols = scene->protocols, .ciphers = scene->ciphers, .verify_peer = scene->verify };

	if (scene->client) {
		out.cert_file = scene->client->cert_file;
		out.key_file = scene->client->key_file;
	}
	accepting = tls_context_new(&in, NULL, why, sizeof why);
	connecting = tls_context_new(&out, NULL, why, sizeof why);
	return accepting && connecting;
}

/* Runs a handshake between two new streams to its end on both sides, successful or not. */
static bool shake(const struct scene *scene, bool small)
{
	if (!two_ends(&a, &b, small) || !stream_secure_accept(&b.stream, accepting, NULL, 0) ||
	    !stream_secure_connect(&a.stream, connecting, scene->name, scene->verify_name, NULL))
		return false;
	CHECK_INT(a.secured + b.secured, 0);
	UNTIL(a.secured && b.secured);
	CHECK_INT(a.secured, 1);
	CHECK_INT(b.secured, 1);
	return true;
}

static bool begin(const struct scene *scene, bool small)
{
	return make_contexts(scene) && shake(scene, small);
}

static void end(void)
{
	two_ends_close(&a, &b);
	tls_context_drop(&connecting);
	tls_context_drop(&accepting);
}

#define BOTH_FINE (a.problem[0] == '\0' && b.problem[0] == '\0')

static const struct scene plain = { .name = "db.test" };

#endif
