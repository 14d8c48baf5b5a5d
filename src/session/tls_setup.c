/*
 * From settings to TLS contexts: the room net knows no settings, the room conf knows no TLS.
 *
 * What sslmode means. Towards clients: disable refuses SSLRequest; allow, prefer and require accept it and check a certificate
 * only where one is shown; verify-ca and verify-full demand one. Towards servers: prefer and require encrypt without
 * checking, verify-ca checks the chain, verify-full the name too (dial.c).
 */
#include "session/tls_setup.h"

#include <stddef.h>

static const char *const dh_words[] = { "auto", "none", "legacy" };

static struct tls_config client_config(const struct settings *s)
{
	return (struct tls_config){
		.server_side = true,
		.ca_file = s->client_tls_ca_file, .cert_file = s->client_tls_cert_file, .key_file = s->client_tls_key_file,
		.protocols = s->client_tls_protocols, .ciphers = s->client_tls_ciphers, .tls13_ciphers = s->client_tls13_ciphers,
		.ecdh_curve = s->client_tls_ecdhcurve, .dh_params = dh_words[s->client_tls_dheparams],
		.verify_peer = s->client_tls_sslmode >= SSLMODE_VERIFY_CA,
		.request_peer = s->client_tls_ca_file != NULL,
	};
}

static struct tls_config server_config(const struct settings *s)
{
	return (struct tls_config){
		.ca_file = s->server_tls_ca_file, .cert_file = s->server_tls_cert_file, .key_file = s->server_tls_key_file,
		.protocols = s->server_tls_protocols, .ciphers = s->server_tls_ciphers, .tls13_ciphers = s->server_tls13_ciphers,
		.verify_peer = s->server_tls_sslmode >= SSLMODE_VERIFY_CA,
	};
}

static void bring(struct tls_context **place, bool wanted, const struct tls_config *config, bool may_keep, struct conf_problems *problems)
{
	struct tls_context *fresh;
	char why[512];

	if (*place && (!wanted || tls_context_differs(*place, config))) {
		fresh = wanted ? tls_context_new(config, why, sizeof(why)) : NULL;
	} else if (!*place && wanted) {
		fresh = tls_context_new(config, why, sizeof(why));
	} else {
		return;
	}
	if (wanted && !fresh) {
		conf_problem_add_tls(problems, may_keep && *place, NULL, 0, "%s (TLS with %s)", why,
				     config->server_side ? "clients" : "servers");
		return;
	}
	if (*place)
		tls_context_drop(place);
	*place = fresh;
}

void tls_setup_both(struct tls_context **client, struct tls_context **server, const struct settings *s, bool may_keep,
		    struct conf_problems *problems)
{
	struct tls_config of_client = client_config(s), of_server = server_config(s);

	bring(client, s->client_tls_sslmode != SSLMODE_DISABLE, &of_client, may_keep, problems);
	bring(server, s->server_tls_sslmode != SSLMODE_DISABLE, &of_server, may_keep, problems);
}
