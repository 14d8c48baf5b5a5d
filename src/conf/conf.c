/*
 * The configuration as an immutable snapshot in one arena, which is wiped and freed with the last
 * reference. A client holds the snapshot of its login until the client takes the next snapshot. SET
 * copies the whole snapshot. entry.c reads the single values.
 */
#include "conf/conf.h"

#include "base/assert.h"
#include "base/hash.h"
#include "base/text.h"
#include "conf/check.h"
#include "conf/entry.h"
#include "conf/hba.h"
#include "conf/host_list.h"
#include "conf/ini.h"
#include "conf/value.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The storage of a snapshot. */
struct conf_storage {
	struct arena *arena;
	struct index databases, users;
};

static struct conf *conf_new(void)
{
	struct arena *arena = arena_new(true);
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

const struct conf_database *conf_database_find(const struct conf *conf, const char *name)
{
	return index_get(&conf->storage->databases, name);
}

const struct conf_user *conf_user_find(const struct conf *conf, const char *name)
{
	return index_get(&conf->storage->users, name);
}

static const char *conf_copy_text(struct conf *conf, const char *text)
{
	return text ? arena_copy(conf->storage->arena, text, strlen(text)) : NULL;
}

/* Copies the fields of all rows of the table. False: no memory. */
static bool copy_rows(const struct value_table *table, void *to, const void *from,
		      struct arena *arena)
{
	for (size_t i = 0; i < table->count; i++) {
		if (!value_copy(&table->rows[i], to, from, arena))
			return false;
	}
	return true;
}

/* Copies an object of `size` bytes with the texts of its rows. NULL: no memory. */
static void *copy_object(struct conf *to, const struct value_table *table, const void *from,
			 size_t size)
{
	void *copy = arena_take(to->storage->arena, size);

	return copy && copy_rows(table, memcpy(copy, from, size), from, to->storage->arena) ? copy
											    : NULL;
}

/* Not keys of the file, but read and copied like keys. */
static const struct value_row user_secret = { .type = VALUE_SECRET,
					      .offset = offsetof(struct conf_user, secret) };
static const struct value_row user_old_secret = {
	.type = VALUE_SECRET, .offset = offsetof(struct conf_user, old_secret)
};

static struct conf_database *copy_database(struct conf *to, const struct conf_database *from)
{
	struct conf_database *copy = copy_object(to, &database_table, from, sizeof(*copy));

	return copy && (copy->name = conf_copy_text(to, from->name)) &&
			       (copy->file = conf_copy_text(to, from->file)) &&
			       hosts_make(copy, to->storage->arena)
		       ? copy
		       : NULL;
}

/* Copies the settings, databases, users and peers, and holds the HBA rules. False: no memory. */
static bool copy_members(struct conf *to, const struct conf *from)
{
	struct conf_storage *s = to->storage;

	if (from->hba)
		to->hba = hba_hold(from->hba);
	to->path = conf_copy_text(to, from->path);
	if ((from->path && !to->path) ||
	    !copy_rows(&setting_table, &to->settings, &from->settings, s->arena))
		return false;
	to->databases = arena_take(s->arena, from->database_count * sizeof(struct conf_database *));
	to->users = arena_take(s->arena, from->user_count * sizeof(struct conf_user *));
	to->peers = arena_take(s->arena, from->peer_count * sizeof(struct conf_peer *));
	if (!to->databases || !to->users || !to->peers)
		return false;
	for (size_t i = 0; i < from->database_count; i++) {
		struct conf_database *copy = copy_database(to, from->databases[i]);

		if (!copy || !index_put(&s->databases, s->arena, copy->name, copy))
			return false;
		to->databases[to->database_count++] = copy;
	}
	if (from->fallback && !(to->fallback = copy_database(to, from->fallback)))
		return false;
	for (const struct conf_file *f = from->files; f; f = f->next)
		if (!access_note_file(&to->files, f, s->arena))
			return false;
	for (size_t i = 0; i < from->user_count; i++) {
		struct conf_user *copy = copy_object(to, &user_table, from->users[i],
						     sizeof(*copy));

		if (!copy || !(copy->name = conf_copy_text(to, copy->name)) ||
		    !value_copy(&user_secret, copy, from->users[i], s->arena) ||
		    !value_copy(&user_old_secret, copy, from->users[i], s->arena) ||
		    !index_put(&s->users, s->arena, copy->name, copy))
			return false;
		to->users[to->user_count++] = copy;
	}
	for (size_t i = 0; i < from->peer_count; i++) {
		to->peers[i] = copy_object(to, &peer_table, from->peers[i],
					   sizeof(struct conf_peer));
		if (!to->peers[i])
			return false;
		to->peer_count++;
	}
	return true;
}

/* ---- SET and RELOAD ---- */

/* Parses auth_ldap_options into conf->ldap. A fault is an error if auth_type needs the options,
   otherwise a warning. `place` may be NULL. */
static void read_ldap(struct conf *conf, const struct setting_place *place,
		      struct conf_problems *problems)
{
	const struct settings *s = &conf->settings;
	char why[512];

	conf->ldap = NULL;
	if (!s->auth_ldap_options)
		return;
	conf->ldap = ldap_options_read(s->auth_ldap_options, conf->storage->arena, why,
				       sizeof(why));
	if (!conf->ldap)
		conf_problem_add(problems, s->auth_type != AUTH_LDAP,
				 place ? place->file : conf->path, place ? place->line : 0,
				 "\"auth_ldap_options\": %s", why);
}

/* Whether SET changes a value: of a setting, unless it needs a restart; of a database, a number or
   word that needs no other servers. */
static bool is_settable(const struct value_row *row, bool has_dot)
{
	return has_dot ? row->row.applies == APPLIES_NOW &&
				 (row->type == VALUE_COUNT || row->type == VALUE_SECONDS ||
				  row->type == VALUE_ENUM)
		       : row->row.applies != APPLIES_START;
}

struct conf *conf_with(struct conf *conf, const char *name, const char *value,
		       struct conf_problems *problems)
{
	const char *dot = strrchr(name, '.'), *key = dot ? dot + 1 : name;
	const struct value_table *table = dot ? &database_table : &setting_table;
	const struct value_row *row = value_find(table, key);
	struct entry_place place = { .noun = table->noun };
	size_t errors = problems->errors;
	struct conf_database *database = NULL;
	char nearest[96], *entry = NULL;
	struct conf *fresh;

	if (!row || !is_settable(row, dot)) {
		if (row)
			conf_problem_add(
				problems, false, NULL, 0, "\"%s\" %s", row->row.name,
				dot ? "of a database is changed in the file, then by RELOAD"
				    : "cannot be changed without a restart");
		else
			conf_problem_add(problems, false, NULL, 0, "unknown %s \"%.64s\"%s",
					 dot ? "key" : "setting", key,
					 entry_suggest(table, key, nearest, sizeof(nearest)));
		return NULL;
	}
	fresh = conf_new();
	if (fresh && !copy_members(fresh, conf))
		conf_drop(&fresh);
	if (fresh)
		fresh->set = row->row.name;
	if (fresh && dot &&
	    (entry = arena_copy(fresh->storage->arena, name, (size_t)(dot - name))) != NULL)
		database = strcmp(entry, "*") == 0 ? fresh->fallback
						   : index_get(&fresh->storage->databases, entry);
	place.owner = entry;
	if (entry && !database)
		conf_problem_add(problems, false, NULL, 0, "\"%s\" has no entry in [databases]%s",
				 entry, fresh->fallback ? ": \"*\" applies" : "");
	else if (!fresh || (dot && !entry) ||
		 entry_assign(row, dot ? (void *)database : &fresh->settings, value,
			      fresh->storage->arena, &place, problems) == VALUE_READ_NO_MEMORY)
		conf_problem_add(problems, false, NULL, 0, "out of memory");
	if (problems->errors == errors) {
		read_ldap(fresh, NULL, problems);
		check_whole(fresh, NULL, NULL, problems);
	}
	if (problems->errors == errors && text_list_has(SETTINGS_OF_RULES, row->row.name, false))
		conf_read_rules(fresh, conf, false, problems);
	if (problems->errors > errors)
		conf_drop(&fresh);
	else
		access_check(fresh, NULL, problems);
	return fresh;
}

void conf_keep_fixed(struct conf *fresh, const struct conf *running, struct conf_problems *problems)
{
	for (size_t i = 0; i < setting_table.count; i++) {
		const struct value_row *row = &setting_table.rows[i];
		char old[64], found[64];

		if (row->row.applies != APPLIES_START ||
		    value_is_equal(row, &fresh->settings, &running->settings))
			continue;
		conf_problem_add(problems, true, fresh->path, 0,
				 "\"%s\" stays \"%s\" until a restart: the file now says \"%s\"",
				 row->row.name,
				 value_text(row, &running->settings, old, sizeof(old)),
				 value_text(row, &fresh->settings, found, sizeof(found)));
		if (!value_copy(row, &fresh->settings, &running->settings, fresh->storage->arena))
			conf_problem_add(problems, false, fresh->path, 0, "out of memory");
	}
}

/* ---- reading a file ---- */

/*
 * Builds a snapshot from the file. The parser (ini.c) calls on_line once for each line; this file
 * knows the sections and their entries. An error does not stop the reading, because the rest of the
 * file may have more. At the end the errors decide whether a snapshot is returned.
 *
 * If a name is given twice, the last value counts, so that a file can override an included file. A
 * warning is added, because usually it is a mistake.
 */

struct loader;
typedef bool read_entry(struct loader *l, const struct ini_line *line);

struct loader {
	struct conf *conf;
	struct arena *arena;		/* of the snapshot */
	struct arena *scratch;		/* freed after loading */
	struct conf_problems *problems;
	struct setting_place *places;	/* one for each setting */
	bool has_ldap_password;		/* the file contains a password in auth_ldap_options */
	struct index peers;
	/* for the current section; NULL: unknown section, entries are skipped */
	read_entry *read;
	bool is_out_of_memory;
};

#define PASSWORD_FILE_MOST (64 << 10)

static void say_twice(struct loader *l, const struct ini_line *line, const char *noun)
{
	conf_problem_add(l->problems, true, line->file, line->line,
			 "%s \"%s\" is defined twice; the last one counts", noun, line->key);
}

static bool read_setting(struct loader *l, const struct ini_line *line)
{
	const struct value_row *row = value_find(&setting_table, line->key);
	const struct entry_place at = { .file = line->file, .line = line->line };
	struct setting_place *place;

	if (!row) {
		char nearest[96];
		const char *hint = entry_suggest(&setting_table, line->key, nearest,
						 sizeof(nearest));

		/* a key of another section */
		if (value_find(&database_table, line->key))
			hint = "; it is a key of an entry in [databases]";
		else if (value_find(&user_table, line->key))
			hint = "; it is a key of an entry in [users]";
		conf_problem_add(l->problems, false, line->file, line->line,
				 "unknown setting \"%.64s\" in [%s]%s", line->key, line->section,
				 hint);
		return true;
	}
	place = &l->places[row - setting_table.rows];
	if (place->file)
		conf_problem_add(l->problems, true, line->file, line->line,
				 "\"%s\" is set twice; the last one counts (the first is in line "
				 "%d of %s)",
				 row->row.name, place->line, place->file);
	place->file = arena_copy(l->scratch, line->file, strlen(line->file));
	place->line = line->line;
	if (strcmp(row->row.name, "auth_ldap_options") == 0) {
		static const char key[] = "ldapbindpasswd";
		const char *password = strstr(line->value, key);

		l->has_ldap_password = password &&
				       !text_starts(
					       password + sizeof(key) - 1 +
						       strspn(password + sizeof(key) - 1, " =\""),
					       VARIABLE);
	}
	return place->file && entry_assign(row, &l->conf->settings, line->value, l->arena, &at,
					   l->problems) != VALUE_READ_NO_MEMORY;
}

/* Allocates an object for the entry, parses its values and copies its name to *name. NULL: no
   memory. */
static void *read_object(struct loader *l, const struct ini_line *line,
			 const struct value_table *table, size_t size, const char **name)
{
	void *object = arena_take(l->arena, size);
	bool has_password;

	*name = arena_copy(l->arena, line->key, strlen(line->key));
	if (!object || !*name ||
	    !entry_read(table, object, line, l->arena, &has_password, l->problems))
		return NULL;
	if (has_password)
		access_note_secret(l->conf->files, line->file, line->line);
	return object;
}

/* Reads the first line of the file that `key` names into the secret of a database or user. False:
   no memory. */
static bool read_password_file(struct loader *l, const struct ini_line *line, const char *key,
			       const char *noun, const char *path, const struct value_row *row,
			       void *object)
{
	size_t size = 0;
	char *text = text_read_file(path, PASSWORD_FILE_MOST, &size), owner[128];
	const struct entry_place place = { .noun = noun, .owner = line->key };
	const char *why = text		   ? NULL
			  : errno == EFBIG ? "it is longer than 64 KiB"
					   : strerror(errno);
	const struct conf_file file = { .path = path,
					.setting = key,
					.file = line->file,
					.line = line->line,
					.is_secret = true };
	enum value_verdict verdict = VALUE_READ_OK;

	if (text && strlen(text) != size)
		why = "it contains a NUL byte";
	if (text)
		text[strcspn(text, "\r\n")] = '\0';
	if (!why && !*text)
		why = "its first line is empty";
	if (why)
		conf_problem_add(l->problems, false, line->file, line->line,
				 "%s\"%s\" names \"%s\", which cannot be used: %s",
				 entry_owner_text(&place, owner, sizeof(owner)), key, path, why);
	else
		verdict = value_read(row, object, text, l->arena);
	if (text)
		mem_wipe(text, size);
	mem_free(text);
	return verdict == VALUE_READ_OK && access_note_file(&l->conf->files, &file, l->arena);
}

/* Notes the files for TLS with the servers of the database. False: no memory. */
static bool note_tls_files(struct loader *l, const struct conf_database *d)
{
	const struct conf_file files[] = {
		{ .path = d->sslrootcert, .setting = "sslrootcert" },
		{ .path = d->sslcert, .setting = "sslcert" },
		{ .path = d->sslcrl, .setting = "sslcrl" },
		{ .path = d->sslkey, .setting = "sslkey", .is_secret = true },
	};

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		struct conf_file f = files[i];

		f.file = d->file;
		f.line = d->line;
		if (f.path && !access_note_file(&l->conf->files, &f, l->arena))
			return false;
	}
	return true;
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
	if (is_fallback ? l->conf->fallback != NULL
			: conf_database_find(l->conf, line->key) != NULL)
		say_twice(l, line, "database");
	database = read_object(l, line, &database_table, sizeof(*database), &name);
	if (!database)
		return false;
	database->name = name;
	database->file = arena_copy(l->arena, line->file, strlen(line->file));
	database->line = line->line;
	if (!database->file || !hosts_make(database, l->arena) || !note_tls_files(l, database))
		return false;
	if (database->password && database->password_file)
		conf_problem_add(
			l->problems, false, line->file, line->line,
			"database \"%.64s\": \"password\" and \"password_file\" exclude each other",
			name);
	if (database->password_file &&
	    !read_password_file(l, line, "password_file", database_table.noun,
				database->password_file, value_find(&database_table, "password"),
				database))
		return false;
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
	if ((user->password_file && !read_password_file(l, line, "password_file", user_table.noun,
							user->password_file, &user_secret, user)) ||
	    (user->old_password_file &&
	     !read_password_file(l, line, "old_password_file", user_table.noun,
				 user->old_password_file, &user_old_secret, user)))
		return false;
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
				 "peer \"%.64s\": the name must be a peer_id, a whole number from "
				 "1 to %d",
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

static void on_line(void *context, const struct ini_line *line)
{
	static const char *const names[] = { "pgbouncer", "pgweir", "databases", "users", "peers" };
	static read_entry *const readers[] = { read_setting, read_setting, read_database, read_user,
					       read_peer };
	const size_t count = sizeof(names) / sizeof(names[0]);
	struct loader *l = context;
	const char *nearest;

	if (!line->section) {
		conf_problem_add(l->problems, false, line->file, line->line,
				 "\"%.64s\" stands in front of the first [section]", line->key);
		return;
	}
	if (line->key) {
		if (l->read && !l->read(l, line))
			l->is_out_of_memory = true;
		return;
	}
	/* The line begins a section. */
	l->read = NULL;
	for (size_t i = 0; i < count && !l->read; i++)
		if (strcmp(line->section, names[i]) == 0)
			l->read = readers[i];
	if (l->read)
		return;
	nearest = text_nearest(line->section, names, count);
	conf_problem_add(
		l->problems, false, line->file, line->line, "unknown section [%s]%s%s%s",
		line->section,
		nearest ? "; did you mean ["
			: ", but there are only [pgbouncer] or [pgweir], [databases], [users] and "
			  "[peers]",
		nearest ? nearest : "", nearest ? "]?" : "");
}

static void on_file(void *context, const char *path)
{
	struct loader *l = context;

	if (!access_note_file(&l->conf->files, &(struct conf_file){ .path = path, .file = path },
			      l->arena))
		l->is_out_of_memory = true;
}

/* Completes and checks the snapshot after its files were read. False: no memory. */
static bool conf_finish(struct loader *l)
{
	const struct setting_place *ldap =
		&l->places[value_find(&setting_table, "auth_ldap_options") - setting_table.rows];
	struct conf *conf = l->conf;
	struct settings *s = &conf->settings;

	if (!s->conffile)
		s->conffile = conf->path;
	conf->databases = (struct conf_database **)index_objects(&conf->storage->databases,
								 l->arena, &conf->database_count);
	conf->users = (struct conf_user **)index_objects(&conf->storage->users, l->arena,
							 &conf->user_count);
	conf->peers = (struct conf_peer **)index_objects(&l->peers, l->arena, &conf->peer_count);
	if (!conf->databases || !conf->users || !conf->peers)
		return false;
	read_ldap(conf, ldap, l->problems);
	if (!check_whole(conf, l->places, l->arena, l->problems))
		return false;
	if (conf->ldap && conf->ldap->bind_password && l->has_ldap_password)
		access_note_secret(conf->files, ldap->file, ldap->line);
	return true;
}

struct conf *conf_load(const char *path, struct conf_problems *problems)
{
	struct loader l = { .problems = problems, .conf = conf_new(), .scratch = arena_new(true) };
	size_t errors = problems->errors;
	bool has_memory = l.conf && l.scratch &&
			  value_read_defaults(&setting_table, &l.conf->settings,
					      l.conf->storage->arena);

	if (has_memory) {
		l.arena = l.conf->storage->arena;
		l.conf->path = arena_copy(l.arena, path, strlen(path));
		l.places = arena_take(l.scratch, setting_table.count * sizeof(*l.places));
		has_memory = l.conf->path && l.places;
	}
	if (has_memory && ini_read(path, problems, on_line, on_file, &l))
		has_memory = !l.is_out_of_memory && conf_finish(&l);
	if (!has_memory)
		conf_problem_add(problems, false, path, 0, "out of memory");
	/* The nodes of the index are in the arena of the snapshot. */
	index_clear(&l.peers);
	if (problems->errors > errors)
		conf_drop(&l.conf);
	arena_free(&l.scratch);
	return l.conf;
}
