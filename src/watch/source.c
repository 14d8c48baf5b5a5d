/*
 * Patroni as a source of roles.
 *
 * A source asks its URLs for the cluster (room patroni). The member with the leader lock is the
 * leader, but only while its own Patroni, at the address that the cluster names, has answered
 * within LEADER_SILENT and says the same. If Patroni has died or hangs, it cannot release the lock
 * or demote its server: the lock expires after its ttl, and another server is promoted while the
 * old primary still takes writes. LEADER_SILENT is shorter than any ttl (the lock expires at the
 * earliest ttl - loop_wait after the last sign of life), so writes stop before another member can
 * get the lock. In a paused cluster no member is promoted, and its Patroni may be restarted.
 *
 * Invariant: after a tick, some database names the URLs of each source in the list.
 */
#include "watch/source.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "patroni/patroni.h"
#include "pool/role.h"

#include <stdio.h>
#include <string.h>

#define LEADER_SILENT (3 * USEC)

struct role_source {
	struct role_source *next;
	struct world *world;
	struct patroni *cluster;		/* asks the URLs of the configuration */
	/* asks the Patroni of the leader; NULL: there is no leader, or no URL */
	struct patroni *leader;
	char leader_url[PATRONI_HOST_SIZE];	/* "" without `leader` */
	/* the configuration that the access was taken from, a reference */
	struct conf *conf;
	bool is_named;				/* a database names the URLs */
	bool is_logged;				/* a failure of the source was logged */
	char urls[];
};

static void on_patroni_source_changed(void *context, const struct patroni *patroni);

static struct patroni_access access_of(const struct settings *s)
{
	return (struct patroni_access){ .ca_file = s->patroni_ca_file,
					.user = s->patroni_user,
					.password = s->patroni_password };
}

static struct patroni *patroni_source_ask(struct role_source *source, const char *urls)
{
	struct world *w = source->world;
	struct patroni_config config = {
		.base = w->base,
		.dns = w->dns,
		.urls = urls,
		.period = w->conf->settings.host_check_period,
		.changed = on_patroni_source_changed,
		.context = source,
		.access = access_of(&w->conf->settings),
	};
	char why[PATRONI_WHY_SIZE];
	struct patroni *patroni = patroni_new(&config, why, sizeof(why));

	if (!patroni)
		log_warning("Patroni at %s cannot be asked: %s", urls, why);
	return patroni;
}

/* Returns the source of these URLs, and creates it if needed; NULL: no memory. */
static struct role_source *source_of(struct role_source **sources, struct world *w,
				     const char *urls)
{
	size_t size = strlen(urls) + 1;
	struct role_source *source;

	for (source = *sources; source; source = source->next) {
		if (strcmp(source->urls, urls) == 0)
			return source;
	}
	source = mem_try(sizeof(*source) + size);
	if (!source)
		return NULL;
	source->world = w;
	memcpy(source->urls, urls, size);
	source->cluster = patroni_source_ask(source, urls);
	if (!source->cluster) {
		mem_free(source);
		return NULL;
	}
	source->conf = conf_hold(w->conf);
	source->next = *sources;
	*sources = source;
	return source;
}

static void source_free(struct role_source *source)
{
	patroni_free(&source->cluster);
	patroni_free(&source->leader);
	conf_drop(&source->conf);
	mem_free(source);
}

/* The URL that the leader's own Patroni is asked at; "": none. An address with https is asked only
   if the configuration has such URLs, because otherwise the accepted certificates are unknown. */
static const char *url_of_leader(const struct role_source *source)
{
	const struct patroni_view *view = &source->cluster->view;
	const char *url = view->leader >= 0 ? view->members[view->leader].url : "";

	return strncmp(url, "https:", 6) == 0 && !strcasestr(source->urls, "https:") ? "" : url;
}

/* Follows the leader with a question to its own Patroni. */
static void follow_leader(struct role_source *source)
{
	const struct patroni_view *view = &source->cluster->view;
	const char *url = view->is_known ? url_of_leader(source) : "";

	/* without an answer the leader stays */
	if (!view->is_known || strcmp(url, source->leader_url) == 0)
		return;
	patroni_free(&source->leader);
	text_copy(source->leader_url, sizeof(source->leader_url), url);
	if (*url)
		source->leader = patroni_source_ask(source, url);
	if (!source->leader)
		source->leader_url[0] = '\0';
}

/* Asks whether the own Patroni of the leader says that it is the leader. False: `why` says why
   not. */
static bool confirm_leader(const struct role_source *source, char *why, size_t why_size)
{
	const struct patroni_view *view = &source->cluster->view,
				  *own = source->leader ? &source->leader->view : NULL;
	const struct patroni_member *leader = &view->members[view->leader];
	const char *other;
	usec_t silent = roles_fresh_for(source->world->pools);

	if (view->is_paused || !*url_of_leader(source))
		return true;
	if (silent < LEADER_SILENT)
		silent = LEADER_SILENT;
	if (!own || !own->is_known || source->world->now - own->asked_at > silent) {
		snprintf(why, why_size, "the Patroni of the leader %.60s does not answer%s%.90s",
			 leader->name, source->leader && *source->leader->why ? ": " : "",
			 source->leader ? source->leader->why : "");
		return false;
	}
	other = own->leader >= 0 ? own->members[own->leader].name : "nobody";
	if (strcmp(other, leader->name) == 0)
		return true;
	snprintf(why, why_size, "the leader is %.60s, and its own Patroni names %.60s",
		 leader->name, other);
	return false;
}

/* Passes the last answer on to a database. */
static void pass_on(const struct role_source *source, struct roles *roles)
{
	const struct patroni_view *view = &source->cluster->view;
	_Static_assert(PATRONI_MEMBERS_MOST <= ROLE_MEMBERS_MOST, "an answer fits into a list");
	struct role_member members[PATRONI_MEMBERS_MOST];
	int leader = -1;
	unsigned count = 0;
	char why[HOST_WHY] = "Patroni says that no member has the leader lock";

	if (!view->is_known) {
		roles_note_silence(roles, *source->cluster->why ? source->cluster->why
								: "Patroni has not answered yet");
		return;
	}
	for (unsigned i = 0; i < view->count; i++) {
		const struct patroni_member *m = &view->members[i];

		if (!*m->host)
			continue;
		snprintf(members[count].key, sizeof(members[count].key), "%s:%u", m->host, m->port);
		members[count].has_no_readers = m->no_load_balance;
		if ((int)i == view->leader && confirm_leader(source, why, sizeof(why)))
			leader = (int)count;
		count++;
	}
	roles_note_members(roles, members, count, leader, leader >= 0 ? "" : why, view->asked_at);
}

/* The databases with this source get its answer. */
static void pass_on_to_all(const struct role_source *source)
{
	const struct pools *pools = source->world->pools;

	for (struct database *d = pools->databases; d; d = d->hh.next) {
		const char *urls = d->roles ? conf_patroni_of(pools->conf, d->conf) : NULL;

		if (urls && strcmp(urls, source->urls) == 0)
			pass_on(source, d->roles);
	}
}

static void on_patroni_source_changed(void *context, const struct patroni *patroni)
{
	struct role_source *source = context;

	(void)patroni;
	world_wake(source->world);
	pass_on_to_all(source);
}

/* Logs when the source stops and begins to answer. */
static void patroni_source_log_change(struct role_source *source)
{
	bool fails = !source->cluster->view.is_known && *source->cluster->why;

	if (fails && !source->is_logged)
		log_warning("%s", source->cluster->why);
	else if (source->is_logged && source->cluster->view.is_known)
		log_info("Patroni at %s answers again", source->urls);
	else
		return;
	source->is_logged = fails;
}

/* After a RELOAD: user, password or authorities may be others, the last answers count all the
   same. */
static void renew_access(struct role_source *source)
{
	struct conf *conf = source->world->conf;
	struct patroni_access access = access_of(&conf->settings);

	if (source->conf == conf)
		return;
	conf_drop(&source->conf);
	source->conf = conf_hold(conf);
	patroni_set_access(source->cluster, &access);
	if (source->leader)
		patroni_set_access(source->leader, &access);
}

void sources_tick(struct role_source **sources, struct world *w, bool is_doubtful)
{
	for (struct role_source *source = *sources; source; source = source->next)
		source->is_named = false;
	for (struct database *d = w->pools->databases; d; d = d->hh.next) {
		const char *urls = d->roles ? conf_patroni_of(w->conf, d->conf) : NULL;
		struct role_source *source = urls ? source_of(sources, w, urls) : NULL;

		if (source)
			source->is_named = true;
	}
	for (struct role_source **place = sources; *place;) {
		struct role_source *source = *place;

		if (!source->is_named) {
			*place = source->next;
			source_free(source);
			continue;
		}
		place = &source->next;
		renew_access(source);
		source->cluster->period = w->conf->settings.host_check_period;
		follow_leader(source);
		if (source->leader)
			source->leader->period = w->conf->settings.host_check_period;
		if (is_doubtful) {
			patroni_ask_now(source->cluster);
			if (source->leader)
				patroni_ask_now(source->leader);
		}
		patroni_source_log_change(source);
		pass_on_to_all(source);
	}
}

void sources_free(struct role_source **sources)
{
	while (*sources) {
		struct role_source *source = *sources;

		*sources = source->next;
		source_free(source);
	}
}
