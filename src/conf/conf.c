/*
 * The configuration as an immutable snapshot. Users of a snapshot hold a reference, so a client keeps the configuration of its
 * login until it takes the next one.
 *
 * A snapshot is allocated in one arena, which is wiped and freed with the last reference. SET copies the whole snapshot, which
 * takes a moment, so that readers need no locks or flags.
 */
#include "conf/conf.h"

#include "base/assert.h"
#include "base/bytes.h"
#include "base/text.h"
#include "conf/access.h"
#include "conf/check.h"
#include "conf/entry.h"
#include "conf/hba.h"
#include "conf/storage.h"
#include "conf/value.h"

#include <string.h>

static struct conf *conf_new(void)
{
	struct arena *arena = arena_new_hidden();
	struct conf *conf;

	if (!arena)
		return NULL;
	conf = arena_take(arena, sizeof(*conf));
	if (conf)
		conf->storage = arena_take(arena, sizeof(*conf->storage));
	if (!conf || !conf->storage) {
		arena_free(&arena);
		return NULL;
	}
	conf->storage->arena = arena;
	conf->references = 1;
	return conf;
}

struct conf *conf_hold(struct conf *conf)
{
	conf->references++;
	return conf;
}

void conf_drop(struct conf **conf)
{
	struct conf *c = *conf;
	struct arena *arena;

	*conf = NULL;
	if (!c)
		return;
	ASSERT(c->references > 0);
	if (--c->references > 0)
		return;
	arena = c->storage->arena;
	index_clear(&c->storage->databases);
	index_clear(&c->storage->users);
	hba_drop(&c->hba);
	/* The structure itself is in the arena. */
	arena_free(&arena);
}

struct conf *conf_defaults(void)
{
	struct conf *conf = conf_new();

	if (conf && !value_read_defaults(&setting_table, &conf->settings, conf->storage->arena))
		conf_drop(&conf);
	return conf;
}

const struct conf_database *conf_database_find(const struct conf *conf, const char *name)
{
	return index_get(&conf->storage->databases, name);
}

const struct conf_user *conf_user_find(const struct conf *conf, const char *name)
{
	return index_get(&conf->storage->users, name);
}

bool conf_database_connects_differently(const struct conf_database *a, const struct conf_database *b)
{
	return value_rows_differ(&database_table, APPLIES_SERVERS, a, b);
}

void conf_database_pack_connection(struct bytes *out, const struct conf_database *database)
{
	value_rows_pack(out, &database_table, APPLIES_SERVERS, database);
	pack_text(out, database->password ? database->password->bytes : NULL);
}

static const char *copy_text(struct conf *conf, const char *text)
{
	return text ? arena_copy(conf->storage->arena, text, strlen(text)) : NULL;
}

/* Copies the fields of all rows of the table. False: no memory. */
static bool copy_rows(const struct value_table *table, void *to, const void *from, struct arena *arena)
{
	for (size_t i = 0; i < table->count; i++) {
		if (!value_copy(&table->rows[i], to, from, arena))
			return false;
	}
	return true;
}

static struct conf_database *copy_database(struct conf *to, const struct conf_database *from)
{
	struct conf_database *copy = arena_take(to->storage->arena, sizeof(*copy));

	if (!copy || !(copy->name = copy_text(to, from->name)) ||
	    !copy_rows(&database_table, copy, from, to->storage->arena))
		return NULL;
	return copy;
}

static bool copy_databases(struct conf *to, const struct conf *from)
{
	to->databases = arena_take(to->storage->arena, from->database_count * sizeof(struct conf_database *));
	if (!to->databases)
		return false;
	for (size_t i = 0; i < from->database_count; i++) {
		struct conf_database *copy = copy_database(to, from->databases[i]);

		if (!copy || !index_put(&to->storage->databases, to->storage->arena, copy->name, copy))
			return false;
		to->databases[to->database_count++] = copy;
	}
	if (from->fallback)
		to->fallback = copy_database(to, from->fallback);
	return !from->fallback || to->fallback;
}

static bool copy_users(struct conf *to, const struct conf *from)
{
	struct arena *arena = to->storage->arena;

	to->users = arena_take(arena, from->user_count * sizeof(struct conf_user *));
	if (!to->users)
		return false;
	for (size_t i = 0; i < from->user_count; i++) {
		struct conf_user *copy = arena_take(arena, sizeof(*copy));

		if (!copy || !(copy->name = copy_text(to, from->users[i]->name)) ||
		    !copy_rows(&user_table, copy, from->users[i], arena) ||
		    !index_put(&to->storage->users, arena, copy->name, copy))
			return false;
		to->users[to->user_count++] = copy;
	}
	return true;
}

static bool copy_peers(struct conf *to, const struct conf *from)
{
	struct arena *arena = to->storage->arena;

	to->peers = arena_take(arena, from->peer_count * sizeof(struct conf_peer *));
	if (!to->peers)
		return false;
	for (size_t i = 0; i < from->peer_count; i++) {
		struct conf_peer *copy = arena_take(arena, sizeof(*copy));

		if (!copy || !copy_rows(&peer_table, copy, from->peers[i], arena))
			return false;
		copy->id = from->peers[i]->id;
		to->peers[to->peer_count++] = copy;
	}
	return true;
}

static struct conf *conf_copy(const struct conf *from)
{
	struct conf *to = conf_new();
	bool is_whole;

	if (!to)
		return NULL;
	to->path = copy_text(to, from->path);
	is_whole = (to->path || !from->path) &&
		   copy_rows(&setting_table, &to->settings, &from->settings, to->storage->arena) &&
		   copy_databases(to, from) && copy_users(to, from) && copy_peers(to, from);
	if (from->hba)
		to->hba = hba_hold(from->hba);
	if (!is_whole)
		conf_drop(&to);
	return to;
}

static enum hba_tls tls_of(const struct settings *s)
{
	if (s->client_tls_sslmode == SSLMODE_DISABLE)
		return HBA_TLS_OFF;
	return s->client_tls_ca_file ? HBA_TLS_CERTIFICATES : HBA_TLS_ON;
}

bool conf_read_rules(struct conf *conf, const struct conf *running, bool is_start, struct conf_problems *problems)
{
	const struct settings *s = &conf->settings;
	struct conf_problems found = { .count = 0 };
	size_t errors = problems->errors;
	bool may_pass;

	hba_drop(&conf->hba);
	if (s->auth_type != AUTH_HBA || !s->auth_hba_file)
		return true;
	conf->hba = hba_load(s->auth_hba_file, s->auth_ident_file, tls_of(s), &found);
	may_pass = conf->hba && (is_start || hba_may_replace(conf->hba, running ? running->hba : NULL));
	for (size_t i = 0; i < found.count; i++) {
		const struct conf_problem *p = &found.items[i];
		const char *effect = "";

		if (!p->is_warning && may_pass)
			effect = i < hba_problems(conf->hba) ? "refuses every login that it could be about: " : "passed over: ";
		conf_problem_add(problems, p->is_warning || may_pass, p->file, p->line, "%s%s", effect, p->text);
	}
	if (found.errors > 0 && !may_pass && problems->errors == errors)
		conf_problem_add(problems, false, s->auth_hba_file, 0, "out of memory");
	conf_problems_free(&found);
	return problems->errors == errors;
}

struct conf *conf_with(struct conf *conf, const char *name, const char *value, struct conf_problems *problems)
{
	const struct value_row *row = value_find(&setting_table, name);
	const struct entry_place nowhere = { .file = NULL };
	size_t errors = problems->errors;
	struct conf *fresh;
	char nearest[96];
	bool new_rules;

	if (!row) {
		conf_problem_add(problems, false, NULL, 0, "unknown setting \"%.64s\"%s", name,
				 entry_suggest(value_nearest(&setting_table, name), nearest, sizeof(nearest)));
		return NULL;
	}
	if (row->row.applies == APPLIES_START) {
		conf_problem_add(problems, false, NULL, 0, "\"%s\" cannot be changed without a restart",
				 row->row.name);
		return NULL;
	}
	fresh = conf_copy(conf);
	if (fresh)
		fresh->set = row->row.name;
	if (!fresh || entry_assign(row, &fresh->settings, value, fresh->storage->arena, &nowhere, problems) ==
	    VALUE_READ_NO_MEMORY)
		conf_problem_add(problems, false, NULL, 0, "out of memory");
	if (problems->errors == errors) {
		check_file(&fresh->settings, (size_t)(row - setting_table.rows), NULL, problems);
		check_ldap(fresh, NULL, problems);
		check_whole(fresh, NULL, problems);
	}
	new_rules = text_list_has("auth_type, auth_hba_file, auth_ident_file", row->row.name, false);
	if (problems->errors == errors && new_rules)
		conf_read_rules(fresh, conf, false, problems);
	if (problems->errors > errors)
		conf_drop(&fresh);
	else
		access_check_setting(fresh, row->row.name, new_rules, problems);
	return fresh;
}

void conf_keep_fixed(struct conf *fresh, const struct conf *running, struct conf_problems *problems)
{
	for (size_t i = 0; i < setting_table.count; i++) {
		const struct value_row *row = &setting_table.rows[i];
		char old[64], found[64];

		if (row->row.applies != APPLIES_START || value_is_equal(row, &fresh->settings, &running->settings))
			continue;
		conf_problem_add(problems, true, fresh->path, 0,
				 "\"%s\" stays \"%s\" until a restart: the file now says \"%s\"",
				 row->row.name, value_text(row, &running->settings, old, sizeof(old)),
				 value_text(row, &fresh->settings, found, sizeof(found)));
		if (!value_copy(row, &fresh->settings, &running->settings, fresh->storage->arena))
			conf_problem_add(problems, false, fresh->path, 0, "out of memory");
	}
}

static bool is_auth_user_of(const struct conf_database *database, const char *user)
{
	return database && database->auth_user && strcmp(database->auth_user, user) == 0;
}

bool conf_is_auth_user(const struct conf *conf, const char *user)
{
	const char *general = conf->settings.auth_user;

	if ((general && strcmp(general, user) == 0) || is_auth_user_of(conf->fallback, user))
		return true;
	for (size_t i = 0; i < conf->database_count; i++)
		if (is_auth_user_of(conf->databases[i], user))
			return true;
	return false;
}
