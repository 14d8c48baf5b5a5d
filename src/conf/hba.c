/*
 * The rules of auth_type=hba as a snapshot, and the search for the rule of a client.
 *
 * The first matching line decides, even if its authentication fails: the next line is not tried. A
 * line matches if the type of connection, the database, the user and the address match. A physical
 * replication connection has no database: only the keyword `replication` matches it, and `all` does
 * not. Without a matching line the client is refused.
 *
 * A faulty line is a rule too: it refuses every login that it could concern (hba_line.c). PgBouncer
 * skips such lines, and their clients get the next line. At start, a file with faulty lines is
 * accepted with warnings; a RELOAD refuses the file (conf_read_rules), because the rules in force
 * are better.
 *
 * samehost and samenet ask the system for its addresses. If the system gives no answer, the line
 * refuses the logins that it would decide if its address matched.
 *
 * A faulty line of the ident file is skipped. This admits no client that the correct line would not
 * admit, because each line of a map only allows names and none forbids a name.
 */
#include "conf/hba.h"

#include "base/assert.h"
#include "conf/hba_parts.h"
#include "conf/pattern.h"

#include <string.h>


/* ---- lines of the ident file ---- */

/*
 * A line of an ident file in the syntax of PostgreSQL 16:
 *
 * map system-name user
 *
 * The system name (of the peer process of a Unix socket, or from a certificate) may be a regular
 * expression, /...; \1 in the user is then replaced by the match of the first group. The user may
 * be `all`, or a regular expression too. The result of replacing \1 is compared literally: a
 * resulting name `all` is not a keyword. If the group took no part in the match, the line does not
 * match. A quantifier must not repeat the group, because the repetition that counts would not be
 * certain.
 *
 * A faulty line is skipped. No line forbids anything, so this admits no client.
 */

struct ident_line {
	const char *map;
	const char *system_name;	/* compared if there is no pattern */
	struct pattern *system_pattern;
	const char *user;		/* may contain \1 if there is a system_pattern */
	bool takes_group;		/* \1 in `user` is replaced */
	bool any_user;
	struct pattern *user_pattern;
	struct ident_line *next;
};

static const char group[] = "\\1";

/* Returns the only word of a field. NULL: the record is faulty. */
static const struct record_word *hba_single(struct hba_record *record)
{
	const struct record_word *word = record_field(record, COMMA_CONTINUES);

	if (!word || word->next)
		record_fault(record, "expected a map, a system's name and a user, one of each");
	return record->is_faulty ? NULL : word;
}

static struct pattern *read_pattern(struct hba_record *record, const char *text)
{
	char why[160];
	struct pattern *pattern = pattern_new(text, why, sizeof(why));

	if (!pattern)
		record_fault(record, "the regular expression \"/%.64s\" cannot be used: %s", text,
			     why);
	return pattern;
}

/* Parses a record into `line`, which must be zero. False: the record is faulty. Call
   ident_line_clear in any case. */
static bool ident_line_read(struct ident_line *l, struct hba_record *record)
{
	const struct record_word *map = hba_single(record);
	const struct record_word *system = map ? hba_single(record) : NULL;
	const struct record_word *user = system ? hba_single(record) : NULL;

	if (!user)
		return false;
	l->map = map->text;
	l->system_name = system->text;
	if (system->text[0] == '/')
		l->system_pattern = read_pattern(record, system->text + 1);
	if (record->is_faulty)
		return false;
	l->user = user->text;
	if (strcmp(user->keyword, "all") == 0)
		l->any_user = true;
	else if (user->keyword[0] == '+')
		record_fault(record,
			     "\"%.64s\" is not supported: the pooler does not know who is a member "
			     "of a role",
			     user->text);
	else if (user->text[0] == '/')
		l->user_pattern = read_pattern(record, user->text + 1);
	else
		l->takes_group = l->system_pattern && strstr(user->text, group);
	if (l->takes_group && pattern_group_fault(l->system_pattern))
		record_fault(record,
			     "\"%.64s\" asks for what parentheses matched in \"%.64s\", but %s",
			     l->user, l->system_name, pattern_group_fault(l->system_pattern));
	if (!record->is_faulty && record_word(record, COMMA_ENDS))
		record_fault(record, "expected nothing behind the user");
	return !record->is_faulty;
}

static void ident_line_clear(struct ident_line *l)
{
	pattern_free(&l->system_pattern);
	pattern_free(&l->user_pattern);
}

/* Whether the line, which must belong to the right map, lets the system name log in as this
   user. */
static bool ident_line_allows(const struct ident_line *l, const char *system_name, const char *user)
{
	size_t size = 0, before;
	const char *at;
	long start = -1;

	if (!l->system_pattern && strcmp(l->system_name, system_name) != 0)
		return false;
	if (l->system_pattern && !pattern_captures(l->system_pattern, system_name, &start, &size))
		return false;
	if (l->any_user)
		return true;
	if (l->user_pattern)
		return pattern_matches(l->user_pattern, user);
	if (!l->takes_group)
		return strcmp(l->user, user) == 0;
	/* Compare with the user of the line, in which the match of the group replaces the first
	   \1. */
	at = strstr(l->user, group);
	before = (size_t)(at - l->user);
	return start >= 0 && strncmp(user, l->user, before) == 0 && strlen(user + before) >= size &&
	       memcmp(user + before, system_name + start, size) == 0 &&
	       strcmp(user + before + size, at + strlen(group)) == 0;
}

/* ---- rules ---- */

struct hba {
	unsigned references;
	struct arena *arena;		/* contains this structure too */
	struct hba_line *lines, **lines_end;
	struct ident_line *maps, **maps_end;
	enum hba_tls tls;		/* used while the files are read */
	/* the index of the first problem of read_rules() that is not about a line of the HBA
	   file */
	size_t hba_problems;
	size_t faults;
	uint64_t fingerprint;		/* of the faulty records */
	struct conf_file *files;
};

/* ---- reading ---- */

static void clear_names(struct hba_names *names)
{
	for (struct hba_pattern *node = names->patterns; node; node = node->next)
		pattern_free(&node->pattern);
	index_clear(&names->exact);
}

static void hba_line_clear(struct hba_line *l)
{
	clear_names(&l->databases);
	clear_names(&l->users);
}

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

static bool hba_read_file(struct hba *hba, const char *path,
			  void (*take)(void *, struct hba_record *), struct conf_problems *problems)
{
	struct record_reader reader = {
		.arena = hba->arena,
		.problems = problems,
		.visit = take,
		.context = hba,
		.sources = hba->files,
	};
	bool ok = record_read_file(&reader, path);

	hba->faults += reader.faults;
	hba->fingerprint += reader.fingerprint;
	hba->files = reader.sources;
	return ok;
}

static bool has_map(const struct hba *hba, const char *name)
{
	for (const struct ident_line *line = hba->maps; line; line = line->next)
		if (strcmp(line->map, name) == 0)
			return true;
	return false;
}

/* Reads both files (ident_file may be NULL: no maps). Adds a warning for lines that need more than
   `tls`, and an error with file, line and reason for each line that cannot be used. A faulty line
   of the HBA file becomes a refusing rule (is_faulty), because without it a later line could admit
   clients that it was to exclude; a faulty line of the ident file is skipped. Returns NULL with an
   error if a file cannot be read at all, or without memory. Release with hba_drop. */
static struct hba *read_rules(const char *hba_file, const char *ident_file, enum hba_tls tls,
			      struct conf_problems *problems)
{
	struct arena *arena = arena_new(true);
	size_t before = problems->count;
	struct hba *hba = arena ? arena_take(arena, sizeof(*hba)) : NULL;
	bool has_usable_line = false;

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
	if (!hba_read_file(hba, hba_file, take_hba, problems)) {
		hba_drop(&hba);
		return NULL;
	}
	hba->hba_problems = problems->count - before;
	if (ident_file && !hba_read_file(hba, ident_file, take_ident, problems)) {
		hba_drop(&hba);
		return NULL;
	}
	for (const struct hba_line *line = hba->lines; line; line = line->next) {
		const struct hba_rule *rule = &line->rule;

		has_usable_line |= !rule->is_faulty;
		if (rule->map && !has_map(hba, rule->map))
			conf_problem_add(problems, true, rule->file, rule->line,
					 "lets nobody in: \"auth_ident_file\" has no map \"%.64s\"",
					 rule->map);
		if (rule->ldap && rule->ldap->bind_password)
			access_note_secret(hba->files, rule->file, rule->line);
	}
	if (!has_usable_line)
		conf_problem_add(problems, true, hba_file, 0,
				 "has no line that can be used: nobody can log in");
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

/* Whether `fresh` may replace `running` (may be NULL): it has no faulty lines, or exactly the
   faulty lines of `running`. A RELOAD therefore adds no mistake, and a file with faulty lines from
   the start can be read again. */
static bool may_replace(const struct hba *fresh, const struct hba *running)
{
	return fresh->faults == 0 || (running && fresh->faults == running->faults &&
				      fresh->fingerprint == running->fingerprint);
}

bool conf_read_rules(struct conf *conf, const struct conf *running, bool is_start,
		     struct conf_problems *problems)
{
	const struct settings *s = &conf->settings;
	enum hba_tls tls = s->client_tls_ca_file ? HBA_TLS_CERTIFICATES : HBA_TLS_ON;
	struct conf_problems found = { .count = 0 };
	size_t errors = problems->errors;
	bool may_pass;

	hba_drop(&conf->hba);
	if (s->auth_type != AUTH_HBA || !s->auth_hba_file)
		return true;
	if (s->client_tls_sslmode == SSLMODE_DISABLE)
		tls = HBA_TLS_OFF;
	conf->hba = read_rules(s->auth_hba_file, s->auth_ident_file, tls, &found);
	may_pass = conf->hba && (is_start || may_replace(conf->hba, running ? running->hba : NULL));
	for (size_t i = 0; i < found.count; i++) {
		const struct conf_problem *p = &found.items[i];
		const char *effect = "";

		if (!p->is_warning && may_pass)
			effect = i < conf->hba->hba_problems
					 ? "refuses every login that it could be about: "
					 : "passed over: ";
		conf_problem_add(problems, p->is_warning || may_pass, p->file, p->line, "%s%s",
				 effect, p->text);
	}
	if (found.errors > 0 && !may_pass && problems->errors == errors)
		conf_problem_add(problems, false, s->auth_hba_file, 0, "out of memory");
	conf_problems_free(&found);
	return problems->errors == errors;
}

/* ---- matching ---- */

static bool fits_mask(const struct hba_address *a, const uint8_t *ip)
{
	for (size_t i = 0; i < a->size; i++)
		if ((a->ip[i] ^ ip[i]) & a->mask[i])
			return false;
	return true;
}

static enum hba_fit fits_address(const struct hba_address *a, const struct hba_client *client)
{
	bool fits = false;

	if (client->ip_size == 0 || a->kind == HBA_ADDRESS_ALL)
		return HBA_FITS;
	if (a->kind != HBA_ADDRESS_MASK)
		return client->is_near ? client->is_near(client, a->kind == HBA_ADDRESS_SAME_NET)
				       : HBA_FIT_UNKNOWN;
	if (a->size == client->ip_size)
		fits = fits_mask(a, client->ip);
	else if (a->size == 4 && client->ip_size == 16 &&
		 memcmp(client->ip, HBA_MAPPED_PREFIX, HBA_MAPPED_SIZE) == 0)
		fits = fits_mask(a, client->ip + HBA_MAPPED_SIZE);
	return fits ? HBA_FITS : HBA_FITS_NOT;
}

static bool hba_has_name(const struct hba_names *names, const char *name)
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
	return hba_has_name(names, client->database) ||
	       (client->alias && hba_has_name(names, client->alias)) ||
	       (names->same_user && strcmp(client->database, client->user) == 0);
}

const struct hba_rule *hba_find(const struct hba *hba, const struct hba_client *client)
{
	unsigned transport = client->ip_size == 0 ? TRANSPORT_LOCAL
			     : client->is_tls	  ? TRANSPORT_TLS
						  : TRANSPORT_CLEAR;

	for (const struct hba_line *line = hba->lines; line; line = line->next) {
		if (!(line->transports & transport) || !fits_database(&line->databases, client) ||
		    !hba_has_name(&line->users, client->user))
			continue;
		switch (fits_address(&line->address, client)) {
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

bool hba_map_allows(const struct hba *hba, const char *map, const char *system_name,
		    const char *user)
{
	if (!map)
		return strcmp(system_name, user) == 0;
	for (const struct ident_line *line = hba->maps; line; line = line->next)
		if (strcmp(line->map, map) == 0 && ident_line_allows(line, system_name, user))
			return true;
	return false;
}
