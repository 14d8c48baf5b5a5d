/*
 * Builds a snapshot from the file. The parser (ini.c) calls on_line once for each line; this file knows the sections and their
 * entries. An error does not stop the reading, because the rest of the file may have more. At the end the errors decide whether
 * a snapshot is returned.
 *
 * If a name is given twice, the last value counts, so that a file can override an included file. A warning is added, because
 * usually it is a mistake.
 */
#include "conf/conf.h"

#include "base/text.h"
#include "conf/access.h"
#include "conf/check.h"
#include "conf/entry.h"
#include "conf/ini.h"
#include "conf/storage.h"
#include "conf/value.h"

#include <stdio.h>
#include <string.h>

struct loader;
typedef bool read_entry(struct loader *l, const struct ini_line *line);

struct loader {
	struct conf *conf;
	struct arena *arena;		/* of the snapshot */
	struct arena *scratch;		/* freed after loading */
	struct conf_problems *problems;
	struct setting_place *places;	/* one for each setting */
	struct index peers;
	read_entry *read;		/* for the current section; NULL: unknown section, entries are skipped */
	bool is_out_of_memory;
};

static void say_twice(struct loader *l, const struct ini_line *line, const char *noun)
{
	conf_problem_add(l->problems, true, line->file, line->line,
			 "%s \"%s\" is defined twice; the last one counts", noun, line->key);
}

/* Returns `; it is a key of [databases]` for a key in the wrong section, otherwise "". */
static const char *other_section(const char *key)
{
	if (value_find(&database_table, key))
		return "; it is a key of an entry in [databases]";
	if (value_find(&user_table, key))
		return "; it is a key of an entry in [users]";
	return "";
}

static bool read_setting(struct loader *l, const struct ini_line *line)
{
	const struct value_row *row = value_find(&setting_table, line->key);
	const struct entry_place at = { .file = line->file, .line = line->line };
	struct setting_place *place;

	if (!row) {
		const char *hint = other_section(line->key);
		char nearest[96];

		if (!*hint)
			hint = entry_suggest(value_nearest(&setting_table, line->key), nearest, sizeof(nearest));
		conf_problem_add(l->problems, false, line->file, line->line, "unknown setting \"%.64s\" in [%s]%s",
				 line->key, line->section, hint);
		return true;
	}
	place = &l->places[row - setting_table.rows];
	if (place->file)
		conf_problem_add(l->problems, true, line->file, line->line,
				 "\"%s\" is set twice; the last one counts (the first is in line %d of %s)",
				 row->row.name, place->line, place->file);
	place->file = arena_copy(l->scratch, line->file, strlen(line->file));
	place->line = line->line;
	return place->file && entry_assign(row, &l->conf->settings, line->value, l->arena, &at, l->problems) !=
	       VALUE_READ_NO_MEMORY;
}

/* Allocates an object for the entry, parses its values and copies its name to *name. NULL: no memory. */
static void *read_object(struct loader *l, const struct ini_line *line, const struct value_table *table,
			 size_t size, const char **name)
{
	void *object = arena_take(l->arena, size);

	*name = arena_copy(l->arena, line->key, strlen(line->key));
	if (!object || !*name || !entry_read(table, object, line, l->arena, l->problems))
		return NULL;
	return object;
}

static bool read_database(struct loader *l, const struct ini_line *line)
{
	bool is_fallback = strcmp(line->key, "*") == 0;
	struct conf_database *database;
	const char *name;

	if (strcmp(line->key, "pgbouncer") == 0 || strcmp(line->key, "pgweir") == 0) {
		conf_problem_add(l->problems, false, line->file, line->line,
				 "database \"%s\" is the console and cannot be defined", line->key);
		return true;
	}
	if (is_fallback ? l->conf->fallback != NULL : conf_database_find(l->conf, line->key) != NULL)
		say_twice(l, line, "database");
	database = read_object(l, line, &database_table, sizeof(*database), &name);
	if (!database)
		return false;
	database->name = name;
	if (database->password)
		access_note_secret(l->conf->files, line->file, line->line);
	if (is_fallback) {
		l->conf->fallback = database;
		return true;
	}
	return index_put(&l->conf->storage->databases, l->arena, name, database);
}

static bool read_user(struct loader *l, const struct ini_line *line)
{
	struct conf_user *user;
	const char *name;

	if (conf_user_find(l->conf, line->key))
		say_twice(l, line, "user");
	user = read_object(l, line, &user_table, sizeof(*user), &name);
	if (!user)
		return false;
	user->name = name;
	return index_put(&l->conf->storage->users, l->arena, name, user);
}

static bool read_peer(struct loader *l, const struct ini_line *line)
{
	const int64_t most = value_find(&setting_table, "peer_id")->row.most;
	struct conf_peer *peer;
	const char *name;
	char number[24];
	int64_t id;

	if (!text_to_int64(line->key, &id) || id < 1 || id > most) {
		conf_problem_add(l->problems, false, line->file, line->line,
				 "peer \"%.64s\": the name must be a peer_id, a whole number from 1 to %d",
				 line->key, (int)most);
		return true;
	}
	peer = read_object(l, line, &peer_table, sizeof(*peer), &name);
	if (!peer)
		return false;
	peer->id = (int)id;
	if (!peer->host)
		conf_problem_add(l->problems, false, line->file, line->line,
				 "peer \"%d\": \"host\" is missing", peer->id);
	/* "7" and "07" are the same peer. */
	snprintf(number, sizeof(number), "%d", peer->id);
	if (index_get(&l->peers, number))
		say_twice(l, line, "peer");
	name = arena_copy(l->arena, number, strlen(number));
	return name && index_put(&l->peers, l->arena, name, peer);
}

static read_entry *find_section(struct loader *l, const struct ini_line *line)
{
	static const char *const names[] = { "pgbouncer", "pgweir", "databases", "users", "peers" };
	static read_entry *const readers[] = {
		read_setting, read_setting, read_database, read_user, read_peer,
	};
	const char *nearest;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcmp(line->section, names[i]) == 0)
			return readers[i];
	}
	nearest = text_nearest(line->section, names, sizeof(names) / sizeof(names[0]));
	conf_problem_add(l->problems, false, line->file, line->line, "unknown section [%s]%s%s%s", line->section,
			 nearest ? "; did you mean [" :
			 ", but there are only [pgbouncer] or [pgweir], [databases], [users] and [peers]",
			 nearest ? nearest : "", nearest ? "]?" : "");
	return NULL;
}

static void on_line(void *context, const struct ini_line *line)
{
	struct loader *l = context;

	if (!line->section)
		conf_problem_add(l->problems, false, line->file, line->line,
				 "\"%.64s\" stands in front of the first [section]", line->key);
	else if (!line->key)
		l->read = find_section(l, line);
	else if (l->read && !l->read(l, line))
		l->is_out_of_memory = true;
}

static void on_file(void *context, const char *path)
{
	struct loader *l = context;

	if (!access_note_file(&l->conf->files, &(struct conf_file){ .path = path, .file = path }, l->arena))
		l->is_out_of_memory = true;
}

/* Copies the objects of an index to an array, in order. False: no memory. */
static bool collect_databases(struct loader *l)
{
	struct conf *conf = l->conf;
	const struct index_node *node = NULL;
	struct conf_database *database;

	conf->databases = arena_take(l->arena, index_count(&conf->storage->databases) * sizeof(database));
	while (conf->databases && (database = index_next(&conf->storage->databases, &node)))
		conf->databases[conf->database_count++] = database;
	return conf->databases;
}

static bool collect_users(struct loader *l)
{
	struct conf *conf = l->conf;
	const struct index_node *node = NULL;
	struct conf_user *user;

	conf->users = arena_take(l->arena, index_count(&conf->storage->users) * sizeof(user));
	while (conf->users && (user = index_next(&conf->storage->users, &node)))
		conf->users[conf->user_count++] = user;
	return conf->users;
}

static bool collect_peers(struct loader *l)
{
	struct conf *conf = l->conf;
	const struct index_node *node = NULL;
	struct conf_peer *peer;

	conf->peers = arena_take(l->arena, index_count(&l->peers) * sizeof(peer));
	while (conf->peers && (peer = index_next(&l->peers, &node)))
		conf->peers[conf->peer_count++] = peer;
	return conf->peers;
}

/* Notes the files that settings name, and the files that contain a password. */
static bool note_files(struct loader *l)
{
	const struct setting_place *ldap = &l->places[value_find(&setting_table, "auth_ldap_options") - setting_table.rows];

	for (size_t i = 0; i < setting_rows(); i++) {
		struct conf_file f = { .setting = setting_row(i)->name, .file = l->places[i].file, .line = l->places[i].line };

		if (!access_is_guarded(f.setting, &f.is_secret))
			continue;
		f.path = setting_value_text(&l->conf->settings, i, NULL, 0);
		if (*f.path && !access_note_file(&l->conf->files, &f, l->arena))
			return false;
	}
	if (l->conf->ldap && l->conf->ldap->bind_password && ldap->file)
		access_note_secret(l->conf->files, ldap->file, ldap->line);
	return true;
}

static bool finish(struct loader *l)
{
	struct settings *s = &l->conf->settings;

	if (!s->conffile)
		s->conffile = l->conf->path;
	if (!collect_databases(l) || !collect_users(l) || !collect_peers(l))
		return false;
	for (size_t i = 0; i < setting_rows(); i++)
		check_file(s, i, &l->places[i], l->problems);
	check_ldap(l->conf, &l->places[value_find(&setting_table, "auth_ldap_options") - setting_table.rows], l->problems);
	check_whole(l->conf, l->places, l->problems);
	return note_files(l);
}

static bool begin(struct loader *l, const char *path)
{
	l->conf = conf_defaults();
	l->scratch = arena_new_hidden();
	if (!l->conf || !l->scratch)
		return false;
	l->arena = l->conf->storage->arena;
	l->conf->path = arena_copy(l->arena, path, strlen(path));
	l->places = arena_take(l->scratch, setting_rows() * sizeof(*l->places));
	return l->conf->path && l->places;
}

struct conf *conf_load(const char *path, struct conf_problems *problems)
{
	struct loader l = { .problems = problems };
	size_t errors = problems->errors;

	l.is_out_of_memory = !begin(&l, path);
	if (!l.is_out_of_memory && ini_read(path, problems, on_line, on_file, &l))
		l.is_out_of_memory = l.is_out_of_memory || !finish(&l);
	if (l.is_out_of_memory)
		conf_problem_add(problems, false, path, 0, "out of memory");
	/* The nodes of the index are in the arena of the snapshot. */
	index_clear(&l.peers);
	if (problems->errors > errors)
		conf_drop(&l.conf);
	arena_free(&l.scratch);
	return l.conf;
}
