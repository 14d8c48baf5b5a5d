/*
 * TLS contexts from settings: room net knows no settings, and room conf knows no TLS.
 *
 * At the start and in a RELOAD, tls_contexts_make() makes the contexts of a configuration: for
 * clients, for servers, and for the servers of each database with values of its own. Unchanged
 * values keep the same objects, so that sessions can be resumed after a RELOAD. If a file cannot be
 * read, the old context stays. After the exchange tls_contexts_retire_changed() marks the servers
 * with a changed context.
 *
 * The meaning of sslmode: towards clients, disable refuses SSLRequest; allow, prefer and require
 * accept it and verify a certificate only if the client sends one; verify-ca and verify-full
 * require a certificate. Towards servers, prefer and require encrypt without verification,
 * verify-ca verifies the chain, verify-full the host name too (dial.c).
 */
#include "core/tls_setup.h"

#include "base/clock.h"
#include "base/mem.h"

#include <stdio.h>
#include <string.h>

static struct tls_context *tls_context_hold_or_none(struct tls_context *context)
{
	return context ? tls_context_hold(context) : NULL;
}

/* Warns of an own certificate that has expired, or expires soon. */
static void check_certificate(const struct tls_context *context, const char *peer,
			      const char *file, int line, struct conf_problems *problems)
{
	struct tls_certificate own;
	usec_t now = clock_wall();
	char when[64];

	if (tls_context_certificate(context, now, &own) && own.expires_soon)
		conf_problem_add(problems, true, file, line,
				 "certificate \"%s\" %s at %s (TLS with %s)", own.file,
				 own.to <= now ? "has expired" : "expires",
				 clock_format(own.to, 0, when, sizeof(when)), peer);
}

/* Returns a context: `old` or `similar` (may be NULL) if one of them fits. The peer is "clients" or
   "servers of ..."; file and line are for problems. */
static struct tls_context *make_context(const struct tls_config *config, bool wanted,
					struct tls_context *old, struct tls_context *similar,
					bool may_keep, const char *peer, const char *file, int line,
					struct conf_problems *problems)
{
	bool uses_similar = wanted && similar && !(old && tls_context_fits(old, config)) &&
			    tls_context_fits(similar, config);
	struct tls_context *fresh;
	char why[512];

	if (!wanted)
		return NULL;
	fresh = uses_similar ? tls_context_hold(similar)
			     : tls_context_new(config, old, why, sizeof(why));
	if (fresh && !uses_similar)
		check_certificate(fresh, peer, file, line, problems);
	if (fresh)
		return fresh;
	conf_problem_add_tls(problems, may_keep && old, file, line, "%s (TLS with %s)", why, peer);
	return tls_context_hold_or_none(old);
}

struct tls_config tls_config_of_clients(const struct settings *s)
{
	static const char *const dh_words[] = { "auto", "none", "legacy" };

	return (struct tls_config){
		.server_side = true,
		.ca_file = s->client_tls_ca_file,
		.cert_file = s->client_tls_cert_file,
		.key_file = s->client_tls_key_file,
		.crl_file = s->client_tls_crl_file,
		.protocols = s->client_tls_protocols,
		.ciphers = s->client_tls_ciphers,
		.tls13_ciphers = s->client_tls13_ciphers,
		.ecdh_curve = s->client_tls_ecdhcurve,
		.dh_params = dh_words[s->client_tls_dheparams],
		.verify_peer = s->client_tls_sslmode >= SSLMODE_VERIFY_CA,
		.request_peer = s->client_tls_ca_file != NULL,
	};
}

static struct tls_config tls_config_of_servers(const struct settings *s,
					       const struct conf_server_tls *tls)
{
	return (struct tls_config){
		.ca_file = tls->ca_file,
		.cert_file = tls->cert_file,
		.key_file = tls->key_file,
		.crl_file = tls->crl_file,
		.protocols = s->server_tls_protocols,
		.ciphers = s->server_tls_ciphers,
		.tls13_ciphers = s->server_tls13_ciphers,
		.verify_peer = tls->sslmode >= SSLMODE_VERIFY_CA,
	};
}

/* Appends a context, which it takes. */
static void add_own(struct tls_contexts *t, const char *name, struct tls_context *context,
		    struct conf_problems *problems)
{
	struct database_tls *more = mem_resize(t->own, (t->own_count + 1) * sizeof(*more));
	char *copy = mem_copy_string(name);

	t->own = more ? more : t->own;
	if (more && copy) {
		t->own[t->own_count++] = (struct database_tls){ copy, context };
		return;
	}
	conf_problem_add(problems, false, NULL, 0, "out of memory");
	mem_free(copy);
	if (context)
		tls_context_drop(&context);
}

static void make_own(struct tls_contexts *fresh, const struct tls_contexts *old,
		     const struct settings *s, const struct conf_database *d, bool may_keep,
		     struct conf_problems *problems)
{
	struct conf_server_tls tls = conf_server_tls(s, d);
	struct tls_config config = tls_config_of_servers(s, &tls);
	struct tls_context *before = NULL,
			   *similar = fresh->own_count > 0
					      ? fresh->own[fresh->own_count - 1].context
					      : fresh->servers;
	char peer[160];

	if (!tls.is_own)
		return;
	for (size_t i = 0; i < old->own_count; i++)
		if (strcmp(old->own[i].name, d->name) == 0)
			before = old->own[i].context;
	snprintf(peer, sizeof(peer), "servers of database \"%.100s\"", d->name);
	add_own(fresh, d->name,
		make_context(&config, tls.sslmode != SSLMODE_DISABLE, before, similar, may_keep,
			     peer, d->file, d->line, problems),
		problems);
}

void tls_contexts_make(struct tls_contexts *fresh, const struct tls_contexts *old,
		       const struct conf *conf, bool may_keep, struct conf_problems *problems)
{
	const struct settings *s = &conf->settings;
	const struct conf_database usual = { .sslmode = CONF_UNSET };
	const struct conf_server_tls tls = conf_server_tls(s, &usual);
	const struct tls_config of_client = tls_config_of_clients(s),
				of_server = tls_config_of_servers(s, &tls);

	fresh->clients = make_context(&of_client, s->client_tls_sslmode != SSLMODE_DISABLE,
				      old->clients, NULL, may_keep, "clients", NULL, 0, problems);
	fresh->servers = make_context(&of_server, s->server_tls_sslmode != SSLMODE_DISABLE,
				      old->servers, NULL, may_keep, "servers", NULL, 0, problems);
	for (size_t i = 0; i < conf->database_count; i++)
		make_own(fresh, old, s, conf->databases[i], may_keep, problems);
	if (conf->fallback)
		make_own(fresh, old, s, conf->fallback, may_keep, problems);
}

void tls_contexts_drop(struct tls_contexts *t)
{
	if (t->clients)
		tls_context_drop(&t->clients);
	if (t->servers)
		tls_context_drop(&t->servers);
	for (size_t i = 0; i < t->own_count; i++) {
		mem_free(t->own[i].name);
		if (t->own[i].context)
			tls_context_drop(&t->own[i].context);
	}
	mem_free(t->own);
	*t = (struct tls_contexts){ .clients = NULL };
}

bool tls_contexts_retire_changed(struct world *w, const struct tls_contexts *old)
{
	bool any = false;

	for (size_t i = 0; i < w->tls.own_count; i++) {
		const struct database_tls *now = &w->tls.own[i];
		bool is_same = true;

		for (size_t j = 0; j < old->own_count && is_same; j++)
			is_same = strcmp(old->own[j].name, now->name) != 0 ||
				  old->own[j].context == now->context;
		if (is_same)
			continue;
		any = true;
		LIST_EACH(node, &w->peers.servers) {
			struct server *s = LIST_OBJECT(node, struct server, peer.node);

			if (!s->pooled.is_cancel && s->peer.remote.family != AF_UNIX &&
			    strcmp(s->pooled.pool->database->conf->name, now->name) == 0)
				pool_server_close_later(&s->pooled, REASON_OBSOLETE);
		}
	}
	return any;
}
