/*
 * Creates TLS contexts from settings: room net knows no settings, and room conf knows no TLS.
 *
 * The meaning of sslmode: towards clients, disable refuses SSLRequest; allow, prefer and require accept it and verify a
 * certificate only if the client sends one; verify-ca and verify-full require a certificate. Towards servers, prefer and
 * require encrypt without verification, verify-ca verifies the chain, verify-full the host name too (dial.c).
 */
#include "core/tls_setup.h"

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
