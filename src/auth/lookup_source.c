/*
 * Where a user is looked up: the database, the user that runs the query, and the query.
 *
 * The entry of the client's database and the general settings may both have auth_dbname, auth_user and auth_query; the entry takes
 * precedence. auth_user may also be in the entry of the database that is queried. auth_search_path is public by default if auth_dbname is
 * set, because the operator trusts that database. Without auth_dbname the client's own database is asked; the console cannot be, and a
 * database that is not configured neither.
 */
#include "auth/lookup.h"

#include "auth/login_state.h"

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
	source->path = first_of(own ? own->auth_search_path : NULL, set->auth_search_path);
	if (!source->path)
		source->path = source->is_of_client ? "" : "public";
	return source->user && source->sql;
}
