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
#include "base/text.h"
#include "conf/access.h"
#include "conf/hba_parts.h"
#include "conf/pattern.h"

#include <arpa/inet.h>
#include <string.h>

/* ---- addresses ---- */

/*
 * Addresses in HBA lines: IPv4 and IPv6, with a prefix length (10.0.0.0/8) or a mask (10.0.0.0 255.0.0.0).
 *
 * As in PostgreSQL, bits of the address outside of the mask are ignored, and a mask may have holes. A client that reached an
 * IPv6 socket over IPv4 has the address ::ffff:a.b.c.d and matches IPv4 lines too: whether a rule refuses 10.0.0.0/8 must not
 * depend on the socket. Host names are not supported: a name server would decide which client is admitted, and the login would
 * wait for it.
 */

#define MAPPED 12		/* bytes before the IPv4 address in ::ffff:a.b.c.d */

static const uint8_t mapped_prefix[MAPPED] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff };

/* Parses an address. Returns its size, 4 or 16, or 0 if it is not an address. The zone of a link-local address ("%eth0") is ignored. */
static uint8_t read_ip(const char *text, size_t size, uint8_t ip[16])
{
	char copy[INET6_ADDRSTRLEN], *zone;

	if (size >= sizeof(copy))
		return 0;
	memcpy(copy, text, size);
	copy[size] = '\0';
	if (inet_pton(AF_INET, copy, ip) == 1)
		return 4;
	zone = strchr(copy, '%');
	if (zone)
		*zone = '\0';
	return inet_pton(AF_INET6, copy, ip) == 1 ? 16 : 0;
}

static void set_bits(uint8_t mask[16], unsigned bits)
{
	memset(mask, 0, 16);
	for (unsigned i = 0; i < bits; i++)
		mask[i / 8] |= (uint8_t)(0x80 >> i % 8);
}

/* ::ffff:10.0.0.0/104 is 10.0.0.0/8. */
static void unmap(struct hba_address *a)
{
	static const uint8_t ones[MAPPED] = { 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255 };

	if (a->size != 16 || memcmp(a->ip, mapped_prefix, MAPPED) != 0 || memcmp(a->mask, ones, MAPPED) != 0)
		return;
	memmove(a->ip, a->ip + MAPPED, 4);
	memmove(a->mask, a->mask + MAPPED, 4);
	a->size = 4;
}

bool hba_address_is_bare(const char *text)
{
	return !strchr(text, '/');
}

const char *hba_address_read(struct hba_address *a, const char *text, const char *mask)
{
	size_t size = strcspn(text, "/");
	int64_t bits;

	a->kind = HBA_ADDRESS_MASK;
	a->size = read_ip(text, size, a->ip);
	if (a->size == 0)
		return "is no IPv4 or IPv6 address (host names are not supported)";
	if (text[size] == '/') {
		if (strspn(text + size + 1, "0123456789") != strlen(text + size + 1) || !text_to_int64(text + size + 1, &bits) ||
		    bits > a->size * 8)
			return "has no valid length behind the \"/\"";
		set_bits(a->mask, (unsigned)bits);
	} else if (!mask) {
		return "has no mask: expected \"/LENGTH\", or a mask behind it";
	} else if (read_ip(mask, strlen(mask), a->mask) != a->size) {
		return "is not followed by a mask of the same kind";
	}
	unmap(a);
	return NULL;
}

bool hba_address_may_be_mask(const struct hba_address *a)
{
	size_t i = 0;
	uint8_t rest;

	while (i < a->size && a->ip[i] == 0xff)
		i++;
	/* a mask with holes usually begins with a byte 0xff too */
	if (i > 0)
		return true;
	/* the byte must be ones followed by zeros: its complement plus one is a power of two */
	rest = (uint8_t)~a->ip[0];
	if (rest & (uint8_t)(rest + 1))
		return false;
	for (i = 1; i < a->size; i++)
		if (a->ip[i])
			return false;
	return true;
}

static bool fits_mask(const struct hba_address *a, const uint8_t *ip)
{
	for (size_t i = 0; i < a->size; i++)
		if ((a->ip[i] ^ ip[i]) & a->mask[i])
			return false;
	return true;
}

static enum hba_fit fits_near(const struct hba_client *client, bool whole_net)
{
	return client->is_near ? client->is_near(client, whole_net) : HBA_FIT_UNKNOWN;
}

static enum hba_fit hba_address_fits(const struct hba_address *a, const struct hba_client *client)
{
	bool fits = false;

	switch (a->kind) {
	case HBA_ADDRESS_ALL:
		return HBA_FITS;
	case HBA_ADDRESS_SAME_HOST:
		return fits_near(client, false);
	case HBA_ADDRESS_SAME_NET:
		return fits_near(client, true);
	case HBA_ADDRESS_MASK:
		break;
	}
	if (a->size == client->ip_size)
		fits = fits_mask(a, client->ip);
	else if (a->size == 4 && client->ip_size == 16 && memcmp(client->ip, mapped_prefix, MAPPED) == 0)
		fits = fits_mask(a, client->ip + MAPPED);
	return fits ? HBA_FITS : HBA_FITS_NOT;
}

/* ---- lines of the ident file ---- */

/*
 * A line of an ident file in the syntax of PostgreSQL 16:
 *
 * map system-name user
 *
 * The system name (of the peer process of a Unix socket, or from a certificate) may be a regular expression, /...; \1 in the
 * user is then replaced by the match of the first group. The user may be `all`, or a regular expression too. The result of
 * replacing \1 is compared literally: a resulting name `all` is not a keyword. If the group took no part in the match, the line
 * does not match. A quantifier must not repeat the group, because the repetition that counts would not be certain.
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
static const struct record_word *single(struct hba_record *record)
{
	const struct record_word *word = record_field(record);

	if (!word || word->next)
		record_fault(record, "expected a map, a system's name and a user, one of each");
	return record->is_faulty ? NULL : word;
}

static struct pattern *read_pattern(struct hba_record *record, const char *text)
{
	char why[160];
	struct pattern *pattern = pattern_new(text, why, sizeof(why));

	if (!pattern)
		record_fault(record, "the regular expression \"/%.64s\" cannot be used: %s", text, why);
	return pattern;
}

static void read_system(struct ident_line *l, struct hba_record *record, const struct record_word *word)
{
	l->system_name = word->text;
	if (word->text[0] == '/')
		l->system_pattern = read_pattern(record, word->text + 1);
}

static void read_user(struct ident_line *l, struct hba_record *record, const struct record_word *word)
{
	l->user = word->text;
	if (record_is_keyword(word, "all"))
		l->any_user = true;
	else if (!word->is_quoted && word->text[0] == '+')
		record_fault(record, "\"%.64s\" is not supported: the pooler does not know who is a member of a role",
			     word->text);
	else if (word->text[0] == '/')
		l->user_pattern = read_pattern(record, word->text + 1);
	else
		l->takes_group = l->system_pattern && strstr(word->text, group);
	if (l->takes_group && pattern_group_fault(l->system_pattern))
		record_fault(record, "\"%.64s\" asks for what parentheses matched in \"%.64s\", but %s", l->user,
			     l->system_name, pattern_group_fault(l->system_pattern));
}

/* Parses a record into `line`, which must be zero. False: the record is faulty. Call ident_line_clear in any case. */
static bool ident_line_read(struct ident_line *l, struct hba_record *record)
{
	const struct record_word *map = single(record);
	const struct record_word *system = map ? single(record) : NULL;
	const struct record_word *user = system ? single(record) : NULL;

	if (!user)
		return false;
	l->map = map->text;
	read_system(l, record, system);
	if (!record->is_faulty)
		read_user(l, record, user);
	if (!record->is_faulty && record_option(record))
		record_fault(record, "expected nothing behind the user");
	return !record->is_faulty;
}

static void ident_line_clear(struct ident_line *l)
{
	pattern_free(&l->system_pattern);
	pattern_free(&l->user_pattern);
}

/* Whether `user` equals the user of the line with the first \1 replaced by `size` bytes at `with`. */
static bool is_replaced(const struct ident_line *l, const char *with, size_t size, const char *user)
{
	const char *at = strstr(l->user, group), *behind = at + strlen(group);
	size_t before = (size_t)(at - l->user);

	return strncmp(user, l->user, before) == 0 && strlen(user + before) >= size && memcmp(user + before, with, size) == 0 &&
	       strcmp(user + before + size, behind) == 0;
}

/* Whether the line, which must belong to the right map, lets the system name log in as this user. */
static bool ident_line_allows(const struct ident_line *l, const char *system_name, const char *user)
{
	size_t size = 0;
	long start = -1;

	if (!l->system_pattern && strcmp(l->system_name, system_name) != 0)
		return false;
	if (l->system_pattern && !pattern_captures(l->system_pattern, system_name, &start, &size))
		return false;
	if (l->any_user)
		return true;
	if (l->user_pattern)
		return pattern_matches(l->user_pattern, user);
	if (l->takes_group)
		return start >= 0 && is_replaced(l, system_name + start, size, user);
	return strcmp(l->user, user) == 0;
}

/* ---- rules ---- */

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
