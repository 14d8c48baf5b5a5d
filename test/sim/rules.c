/*
 * The HBA rules of a world: the first matching line decides. The rules are kept as drawn, so that the expected result follows without parsing the
 * file. Older sets are kept as well: a login in progress during a RELOAD may have used either set.
 *
 * Invariant: sets are in order of time; a login that began before the oldest kept set is not checked.
 */
#include "rules.h"

#include "chance.h"
#include "machine.h"
#include "sim.h"

#include <string.h>

#define ANY (-1)
#define REPLICATION (-2)		/* in place of a database: physical replication, which no other line fits */
#define LINES_MOST 8
#define SETS_KEPT 64

enum method { METHOD_TRUST, METHOD_REJECT, METHOD_PLAIN, METHOD_MD5, METHOD_SCRAM, METHODS };

struct line {
	int database, user, address;
	enum method method;
};

struct rules {
	usec_t since;
	int count;
	struct line lines[LINES_MOST];
};

static struct rules kept[SETS_KEPT];
static uint64_t written;

/* ---- drawing ---- */

void rules_begin(void)
{
	written = 0;
}

static void draw_line(struct line *line, bool is_last)
{
	/* most lines let clients in */
	*line = (struct line){ ANY, ANY, ANY, (enum method)chance_below(METHODS) };
	if (line->method == METHOD_REJECT && !chance_one_in(3))
		line->method = METHOD_SCRAM;
	if (is_last)
		return;
	if (chance_one_in(2))
		line->database = chance_one_in(4) ? REPLICATION : (int)chance_below((uint32_t)plan.databases);
	if (chance_one_in(2))
		line->user = (int)chance_below((uint32_t)plan.users);
	if (chance_one_in(2))
		line->address = (int)chance_below(RULES_ADDRESSES);
}

static void write_line(FILE *f, const struct line *line)
{
	static const char *const words[METHODS] = { "trust", "reject", "password", "md5", "scram-sha-256" };

	fprintf(f, "host ");
	if (line->database == REPLICATION)
		fprintf(f, "replication ");
	else if (line->database == ANY)
		fprintf(f, "all ");
	else
		fprintf(f, "d%d ", line->database);
	if (line->user == ANY)
		fprintf(f, "all ");
	else
		fprintf(f, "u%d ", line->user);
	if (line->address == ANY)
		fprintf(f, "all %s\n", words[line->method]);
	else
		fprintf(f, "127.0.0.%d/32 %s\n", line->address + 1, words[line->method]);
}

void rules_write(const char *path)
{
	struct rules *rules = &kept[written++ % SETS_KEPT];
	FILE *f = fopen(path, "w");

	SIM_CHECK(f, "cannot write %s", path);
	/* whatever holds for others: the operator is needed */
	fprintf(f, "host pgbouncer admin all scram-sha-256\n");
	rules->since = loop_now();
	rules->count = 1 + (int)chance_below(LINES_MOST);
	for (int i = 0; i < rules->count; i++) {
		draw_line(&rules->lines[i], i == rules->count - 1 && !chance_one_in(4));
		write_line(f, &rules->lines[i]);
	}
	SIM_CHECK(fclose(f) == 0, "cannot write %s", path);
}

/* ---- judging ---- */

static bool fits(const struct line *line, const struct comer *who)
{
	bool is_database = who->is_physical ? line->database == REPLICATION : line->database == ANY || line->database == who->database;

	return is_database && (line->user == ANY || (line->user == who->user && who->user != TRUTH_NOBODY)) &&
	       (line->address == ANY || line->address == who->address);
}

static const struct line *find(const struct rules *rules, const struct comer *who)
{
	for (int i = 0; i < rules->count; i++)
		if (fits(&rules->lines[i], who))
			return &rules->lines[i];
	return NULL;
}

/*
 * Returns whether this method may send this authentication request. If the user is unknown, or the look-up may return false data, either request of
 * MD5 is possible.
 */
static bool asks(enum method method, const struct comer *who, enum proof proof)
{
	bool either = who->user == TRUTH_NOBODY || who->database < 0 || plan.lies;

	switch (method) {
	case METHOD_TRUST:
		return proof == PROOF_NONE;
	case METHOD_PLAIN:
		return proof == PROOF_PLAIN;
	case METHOD_SCRAM:
		return proof == PROOF_SCRAM;
	case METHOD_MD5:
		if (either)
			return proof == PROOF_MD5 || proof == PROOF_SCRAM;
		return proof == (plan.stored[who->user] == PROOF_SCRAM ? PROOF_SCRAM : PROOF_MD5);
	default:
		return false;
	}
}

/* The sets that were in force at any time since then, newest first: *i counts on. NULL: no more. */
static const struct rules *next_set(usec_t began, uint64_t *i)
{
	const struct rules *rules;

	/* this set was replaced before the login began */
	if (*i >= written || *i >= SETS_KEPT || (*i > 0 && kept[(written - *i) % SETS_KEPT].since < began))
		return NULL;
	rules = &kept[(written - 1 - *i) % SETS_KEPT];
	++*i;
	return rules;
}

static bool is_forgotten(usec_t began)
{
	return written >= SETS_KEPT && kept[written % SETS_KEPT].since > began;
}

bool rules_may_ask(const struct comer *who, enum proof proof)
{
	const struct rules *rules;
	uint64_t i = 0;

	while ((rules = next_set(who->began, &i)) != NULL) {
		const struct line *line = find(rules, who);

		if (line && asks(line->method, who, proof))
			return true;
	}
	return is_forgotten(who->began);
}

bool rules_may_reject(const struct comer *who)
{
	const struct rules *rules;
	uint64_t i = 0;

	while ((rules = next_set(who->began, &i)) != NULL) {
		const struct line *line = find(rules, who);

		if (line && line->method == METHOD_REJECT)
			return true;
	}
	return is_forgotten(who->began);
}

bool rules_may_fit_nothing(const struct comer *who)
{
	const struct rules *rules;
	uint64_t i = 0;

	while ((rules = next_set(who->began, &i)) != NULL)
		if (!find(rules, who))
			return true;
	return is_forgotten(who->began);
}
