/*
 * auth_type hba: the line that holds for a client, and the methods by which another party vouches for its name: TLS (cert) and
 * the kernel (peer). A line that cannot be used, or with an address that cannot be checked, refuses the client as if no line fitted.
 *
 * The line is chosen first, by the start-up packet and the client's address. The choice does not depend on whether the user or the database
 * exists, so a refusal does not reveal that. The console has two names, and a line that means it by one of them means it by the other. The
 * refused client does not get the number of the line; the log has it.
 */
#include "auth/auth.h"

#include "base/log.h"
#include "net/tls.h"

#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>

/* ---- the line ---- */

static enum hba_fit is_near(const struct hba_client *of, bool whole_net)
{
	struct brief_address a = { .family = of->ip_size == 4 ? AF_INET : AF_INET6 };
	int is_own;

	memcpy(a.u.ip, of->ip, of->ip_size);
	is_own = address_is_own(&a, whole_net);
	if (is_own < 0) {
		log_error("cannot list the network interfaces of this machine (samehost, samenet): %s", strerror(errno));
		return HBA_FIT_UNKNOWN;
	}
	return is_own ? HBA_FITS : HBA_FITS_NOT;
}

static const char *other_console_name(const char *database)
{
	if (strcmp(database, "pgbouncer") == 0)
		return "pgweir";
	return strcmp(database, "pgweir") == 0 ? "pgbouncer" : NULL;
}

static struct hba_client as_rules_see(const struct client *c)
{
	const struct login *l = c->login;
	const struct brief_address *remote = &c->peer.remote;
	struct hba_client of = {
		.database = l->database, .user = l->user, .alias = other_console_name(l->database),
		.is_physical = l->replication == REPLICATION_PHYSICAL, .is_tls = c->peer.stream.ssl != NULL, .is_near = is_near,
	};

	/* the console replicates nothing, and its lines are not got round by saying so */
	if (of.alias)
		of.is_physical = false;
	if (remote->family == AF_INET || remote->family == AF_INET6) {
		of.ip_size = remote->family == AF_INET ? 4 : 16;
		memcpy(of.ip, remote->u.ip, of.ip_size);
	}
	return of;
}

/* True when TLS has verified a certificate with a common name that may be the user, by the line's map or as it is. */
static bool has_certificate_of_user(const struct client *c)
{
	const struct login *l = c->login;
	char name[256];

	if (!c->peer.stream.ssl || !tls_peer_is_verified(c->peer.stream.ssl) ||
	    !tls_peer_common_name(c->peer.stream.ssl, name, sizeof(name)))
		return false;
	return l->hba ? hba_map_allows(l->hba, l->rule->map, name, l->user) : strcmp(name, l->user) == 0;
}

/* The client has the certificate that clientcert= on the line requires besides the method. */
static bool has_certificate_for_rule(const struct client *c)
{
	switch (c->login->rule->certificate) {
	case HBA_CERTIFICATE_NONE:
		return true;
	case HBA_CERTIFICATE_VALID:
		return c->peer.stream.ssl && tls_peer_is_verified(c->peer.stream.ssl);
	case HBA_CERTIFICATE_OF_USER:
		return has_certificate_of_user(c);
	}
	return false;
}

bool auth_choose_by_rule(struct client *c)
{
	const struct conf *conf = c->peer.world->conf;
	struct login *l = c->login;
	struct hba_client of = as_rules_see(c);
	char who[256];

	l->hba = conf->hba ? hba_hold(conf->hba) : NULL;
	l->rule = l->hba ? hba_find(l->hba, &of) : NULL;
	if (!l->rule || l->rule->is_faulty || l->rule->is_unknown) {
		client_end(c, REASON_NO_AUTH_METHOD, NULL);
		return false;
	}
	log_noise("%s matched %s:%d (%s)", client_text(c, who, sizeof(who)), l->rule->file, l->rule->line,
		  hba_method_name(l->rule->method));
	if (!has_certificate_for_rule(c)) {
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
		snprintf(buf, size, "refused by %s:%d, a line that cannot be used", l->rule->file, l->rule->line);
	else if (l->rule && l->rule->is_unknown)
		snprintf(buf, size, "refused by %s:%d, a line whose address cannot be checked", l->rule->file, l->rule->line);
	else if (l->rule)
		snprintf(buf, size, "matched %s:%d (%s)", l->rule->file, l->rule->line, hba_method_name(l->rule->method));
	else
		snprintf(buf, size, "no line of %s fits: tls=%s replication=%s", c->peer.world->conf->settings.auth_hba_file,
			 c->peer.stream.ssl ? "yes" : "no", l->replication == REPLICATION_PHYSICAL ? "physical" : "no");
	return true;
}

/* ---- cert and peer ---- */

void auth_ask_certificate(struct client *c)
{
	bool is_of_user = has_certificate_of_user(c);
	char who[256];

	if (is_of_user && c->login->stored) {
		auth_accept(c);
		return;
	}
	if (!is_of_user && c->peer.stream.ssl && tls_peer_is_verified(c->peer.stream.ssl))
		log_error("%s TLS certificate name mismatch", client_text(c, who, sizeof(who)));
	client_end(c, REASON_CERT_FAILED, NULL);
}

/* The system's name for the user of the client's process at a Unix socket. Where the system asks a directory server for its users, this
   waits for it; such a site is better off with a password. */
static bool peer_name(const struct client *c, char *name, size_t size)
{
	struct passwd entry, *found = NULL;
	char space[4096];

	if (c->peer.remote.family != AF_UNIX ||
	    getpwuid_r(c->peer.remote.u.peer.uid, &entry, space, sizeof(space), &found) != 0 || !found)
		return false;
	return (size_t)snprintf(name, size, "%s", entry.pw_name) < size;
}

void auth_ask_system(struct client *c)
{
	const struct login *l = c->login;
	char name[256];

	if (peer_name(c, name, sizeof(name)) && hba_map_allows(l->hba, l->rule->map, name, l->user) && l->stored)
		auth_accept(c);
	else
		client_end(c, REASON_UNIX_LOGIN_REJECTED, NULL);
}
