/*
 * The line of auth_hba_file for a client. It is chosen by the start-up packet and the client's
 * address only. If the line cannot be used, or its address cannot be checked, the client is refused
 * as if no line matched. The log has the number of the line, the client does not get it.
 */
#include "auth/auth_rule.h"

#include "base/log.h"
#include "conn/client.h"
#include "net/tls.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static enum hba_fit is_near(const struct hba_client *of, bool whole_net)
{
	struct brief_address a = { .family = of->ip_size == 4 ? AF_INET : AF_INET6 };
	int is_own;

	memcpy(a.u.ip, of->ip, of->ip_size);
	is_own = address_is_own(&a, whole_net);
	if (is_own < 0) {
		log_error("cannot list the network interfaces of this machine (samehost, samenet): "
			  "%s",
			  strerror(errno));
		return HBA_FIT_UNKNOWN;
	}
	return is_own ? HBA_FITS : HBA_FITS_NOT;
}

bool auth_certificate_fits(const struct client *c)
{
	const struct login *l = c->login;
	SSL *ssl = c->peer.stream.ssl;
	char name[256];

	if (!ssl || !tls_peer_is_verified(ssl) || !tls_peer_common_name(ssl, name, sizeof(name)))
		return false;
	return l->hba ? hba_map_allows(l->hba, l->rule->map, name, l->user)
		      : strcmp(name, l->user) == 0;
}

bool auth_rule_choose(struct client *c)
{
	const struct conf *conf = c->peer.world->conf;
	const struct brief_address *remote = &c->peer.remote;
	struct login *l = c->login;
	struct hba_client of = {
		.database = l->database,
		.user = l->user,
		.is_physical = l->replication == REPLICATION_PHYSICAL,
		.is_tls = c->peer.stream.ssl != NULL,
		.is_near = is_near,
	};
	bool has_certificate = true;
	char who[256];

	/* a line with one name of the console matches both names; the console does not replicate,
	   so `replication` cannot bypass its lines */
	if (name_is_console(l->database)) {
		of.alias = strcmp(l->database, "pgweir") == 0 ? "pgbouncer" : "pgweir";
		of.is_physical = false;
	}
	if (remote->family == AF_INET || remote->family == AF_INET6) {
		of.ip_size = remote->family == AF_INET ? 4 : 16;
		memcpy(of.ip, remote->u.ip, of.ip_size);
	}
	l->hba = conf->hba ? hba_hold(conf->hba) : NULL;
	l->rule = l->hba ? hba_find(l->hba, &of) : NULL;
	if (!l->rule || l->rule->is_faulty || l->rule->is_unknown) {
		client_end(c, REASON_NO_AUTH_METHOD, NULL);
		return false;
	}
	log_noise("%s matched %s:%d (%s)", client_text(c, who, sizeof(who)), l->rule->file,
		  l->rule->line, auth_methods[l->rule->method].keyword);
	if (l->rule->certificate == HBA_CERTIFICATE_VALID)
		has_certificate = c->peer.stream.ssl && tls_peer_is_verified(c->peer.stream.ssl);
	else if (l->rule->certificate == HBA_CERTIFICATE_OF_USER)
		has_certificate = auth_certificate_fits(c);
	if (!has_certificate) {
		client_end(c, REASON_CERT_FAILED, NULL);
		return false;
	}
	l->method = l->rule->method;
	return true;
}

bool auth_rule_text(const struct client *c, char *buf, size_t size)
{
	const struct login *l = c->login;

	if (!l->hba)
		return false;
	if (l->rule && l->rule->is_faulty)
		snprintf(buf, size, "refused by %s:%d, a line that cannot be used", l->rule->file,
			 l->rule->line);
	else if (l->rule && l->rule->is_unknown)
		snprintf(buf, size, "refused by %s:%d, a line whose address cannot be checked",
			 l->rule->file, l->rule->line);
	else if (l->rule)
		snprintf(buf, size, "matched %s:%d (%s)", l->rule->file, l->rule->line,
			 auth_methods[l->rule->method].keyword);
	else
		snprintf(buf, size, "no line of %s fits: tls=%s replication=%s",
			 c->peer.world->conf->settings.auth_hba_file,
			 c->peer.stream.ssl ? "yes" : "no",
			 l->replication == REPLICATION_PHYSICAL ? "physical" : "no");
	return true;
}
