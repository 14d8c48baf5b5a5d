/*
 * The rules of auth_type=hba as a snapshot, and the search for the rule of a client.
 *
 * The first matching line decides, even if its authentication fails: the next line is not tried. A line matches if the type of
 * connection, the database, the user and the address match. A physical replication connection has no database: only the keyword
 * `replication` matches it, and `all` does not. Without a matching line the client is refused.
 *
 * A faulty line is a rule too: it refuses every login that it could concern (hba_line.c). PgBouncer skips such lines, and their
 * clients get the next line. At start, a file with faulty lines is accepted with warnings; a RELOAD refuses the file
 * (conf_read_rules), because the rules in force are better.
 *
 * samehost and samenet ask the system for its addresses. If the system gives no answer, the line refuses the logins that it
 * would decide if its address matched.
 *
 * A faulty line of the ident file is skipped. This admits no client that the correct line would not admit, because each line of
 * a map only allows names and none forbids a name.
 */
#include "conf/hba.h"

#include "base/assert.h"
#include "conf/access.h"
#include "conf/hba_parts.h"
#include "conf/pattern.h"

#include <string.h>

struct hba {
	unsigned references;
	struct arena *arena;		/* contains this structure too */
	struct hba_line *lines, **lines_end;
	struct ident_line *maps, **maps_end;
	enum hba_tls tls;		/* used while the files are read */
	size_t hba_problems;		/* result of hba_problems() */
	size_t faults;
	uint64_t fingerprint;		/* of the faulty records */
	struct conf_file *files;
};

/* ---- reading ---- */

static void take_hba(void *context, struct hba_record *record)
{
	struct hba *hba = context;
	struct hba_line *line = arena_take(hba->arena, sizeof(*line));

	if (!line) {
		record_no_memory(record);
	} else if (hba_line_read(line, record, hba->tls) && !record->reader->is_out_of_memory) {
		*hba->lines_end = line;
		hba->lines_end = &line->next;
	} else {
		hba_line_clear(line);
	}
}

static void take_ident(void *context, struct hba_record *record)
{
	struct hba *hba = context;
	struct ident_line *line = arena_take(hba->arena, sizeof(*line));

	if (!line) {
		record_no_memory(record);
	} else if (ident_line_read(line, record)) {
		*hba->maps_end = line;
		hba->maps_end = &line->next;
	} else {
		ident_line_clear(line);
	}
}

static bool read_file(struct hba *hba, const char *path, void (*take)(void *, struct hba_record *), struct conf_problems *problems)
{
	struct record_reader reader = {
		.arena = hba->arena, .problems = problems, .visit = take, .context = hba, .sources = hba->files,
	};
	bool ok = record_read_file(&reader, path);

	hba->faults += reader.faults;
	hba->fingerprint += reader.fingerprint;
	hba->files = reader.sources;
	return ok;
}

static bool has_usable_line(const struct hba *hba)
{
	for (const struct hba_line *line = hba->lines; line; line = line->next)
		if (!line->rule.is_faulty)
			return true;
	return false;
}

/* Marks the files with a password in a rule. */
static void note_secrets(const struct hba *hba)
{
	for (const struct hba_line *line = hba->lines; line; line = line->next)
		if (line->rule.ldap && line->rule.ldap->bind_password)
			access_note_secret(hba->files, line->rule.file, line->rule.line);
}

static bool has_map(const struct hba *hba, const char *name)
{
	for (const struct ident_line *line = hba->maps; line; line = line->next)
		if (strcmp(line->map, name) == 0)
			return true;
	return false;
}

static void warn_of_maps(const struct hba *hba, struct conf_problems *problems)
{
	for (const struct hba_line *line = hba->lines; line; line = line->next)
		if (line->rule.map && !has_map(hba, line->rule.map))
			conf_problem_add(problems, true, line->rule.file, line->rule.line,
					 "lets nobody in: \"auth_ident_file\" has no map \"%.64s\"", line->rule.map);
}

struct hba *hba_load(const char *hba_file, const char *ident_file, enum hba_tls tls, struct conf_problems *problems)
{
	struct arena *arena = arena_new_hidden();
	size_t before = problems->count;
	struct hba *hba = arena ? arena_take(arena, sizeof(*hba)) : NULL;

	if (!hba) {
		if (arena)
			arena_free(&arena);
		conf_problem_add(problems, false, hba_file, 0, "out of memory");
		return NULL;
	}
	hba->references = 1;
	hba->arena = arena;
	hba->lines_end = &hba->lines;
	hba->maps_end = &hba->maps;
	hba->tls = tls;
	if (!read_file(hba, hba_file, take_hba, problems)) {
		hba_drop(&hba);
		return NULL;
	}
	hba->hba_problems = problems->count - before;
	if (ident_file && !read_file(hba, ident_file, take_ident, problems)) {
		hba_drop(&hba);
		return NULL;
	}
	warn_of_maps(hba, problems);
	note_secrets(hba);
	if (!has_usable_line(hba))
		conf_problem_add(problems, true, hba_file, 0, "has no line that can be used: nobody can log in");
	return hba;
}

const struct conf_file *hba_files(const struct hba *hba)
{
	return hba->files;
}

struct hba *hba_hold(struct hba *hba)
{
	hba->references++;
	return hba;
}

void hba_drop(struct hba **place)
{
	struct hba *hba = *place;
	struct arena *arena;

	*place = NULL;
	if (!hba)
		return;
	ASSERT(hba->references > 0);
	if (--hba->references > 0)
		return;
	for (struct hba_line *line = hba->lines; line; line = line->next)
		hba_line_clear(line);
	for (struct ident_line *line = hba->maps; line; line = line->next)
		ident_line_clear(line);
	arena = hba->arena;
	arena_free(&arena);
}

size_t hba_problems(const struct hba *hba)
{
	return hba->hba_problems;
}

bool hba_may_replace(const struct hba *fresh, const struct hba *running)
{
	return fresh->faults == 0 ||
	       (running && fresh->faults == running->faults && fresh->fingerprint == running->fingerprint);
}

/* ---- matching ---- */

static bool has_name(const struct hba_names *names, const char *name)
{
	if (names->all || index_get(&names->exact, name))
		return true;
	for (const struct hba_pattern *node = names->patterns; node; node = node->next)
		if (pattern_matches(node->pattern, name))
			return true;
	return false;
}

static bool fits_database(const struct hba_names *names, const struct hba_client *client)
{
	if (client->is_physical)
		return names->replication;
	return has_name(names, client->database) || (client->alias && has_name(names, client->alias)) ||
	       (names->same_user && strcmp(client->database, client->user) == 0);
}

static bool fits_transport(const struct hba_line *line, const struct hba_client *client)
{
	if (client->ip_size == 0)
		return line->transports & TRANSPORT_LOCAL;
	return line->transports & (client->is_tls ? TRANSPORT_TLS : TRANSPORT_CLEAR);
}

static enum hba_fit fits_address(const struct hba_line *line, const struct hba_client *client)
{
	return client->ip_size == 0 ? HBA_FITS : hba_address_fits(&line->address, client);
}

const struct hba_rule *hba_find(const struct hba *hba, const struct hba_client *client)
{
	for (const struct hba_line *line = hba->lines; line; line = line->next) {
		if (!fits_transport(line, client) || !fits_database(&line->databases, client) ||
		    !has_name(&line->users, client->user))
			continue;
		switch (fits_address(line, client)) {
		case HBA_FITS:
			return &line->rule;
		case HBA_FIT_UNKNOWN:
			return &line->unknown;
		case HBA_FITS_NOT:
			break;
		}
	}
	return NULL;
}

bool hba_map_allows(const struct hba *hba, const char *map, const char *system_name, const char *user)
{
	if (!map)
		return strcmp(system_name, user) == 0;
	for (const struct ident_line *line = hba->maps; line; line = line->next)
		if (strcmp(line->map, map) == 0 && ident_line_allows(line, system_name, user))
			return true;
	return false;
}
