/*
 * Where a user is looked up: which database is asked, as whom, and what.
 *
 * Each of auth_dbname, auth_user and auth_query may stand in the entry of the client's database and in the
 * general settings, where the entry comes first. auth_user may stand in the entry of the database that is
 * asked, too. Without auth_dbname the client's own database is asked; the console cannot be, and a database
 * that is not configured neither.
 */
#include "session/lookup.h"

#include "session/login.h"

#include <string.h>

static const char *first_of(const char *a, const char *b)
{
	return a && *a ? a : b && *b ? b : NULL;
}

bool lookup_choose_source(const struct client *c, struct lookup_source *source)
{
	const struct world *w = c->peer.world;
	const struct settings *set = &w->conf->settings;
	const struct conf_database *own = database_conf_find(w->pools, c->login->database), *asked;
	const struct database *known = database_find(w->pools, c->login->database);
	bool is_console = known && known->is_console;

	source->database = first_of(own && !is_console ? own->auth_dbname : NULL, set->auth_dbname);
	source->is_of_client = !source->database;
	if (!source->database && !is_console && own)
		source->database = c->login->database;
	if (!source->database)
		return false;
	asked = database_conf_find(w->pools, source->database);
	source->user = first_of(first_of(own ? own->auth_user : NULL, asked ? asked->auth_user : NULL), set->auth_user);
	source->sql = first_of(own ? own->auth_query : NULL, set->auth_query);
	return source->user && source->sql;
}

static bool is_auth_user_of(const struct conf_database *database, const char *user)
{
	return database && database->auth_user && strcmp(database->auth_user, user) == 0;
}

bool lookup_logs_in_as(const struct conf *conf, const char *user)
{
	const char *general = conf->settings.auth_user;

	if ((general && strcmp(general, user) == 0) || is_auth_user_of(conf->fallback, user))
		return true;
	for (size_t i = 0; i < conf->database_count; i++)
		if (is_auth_user_of(conf->databases[i], user))
			return true;
	return false;
}
