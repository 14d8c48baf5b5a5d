/*
 * The targets of DRAIN, and the turn of each client.
 *
 * The turn of a client depends only on its id: the fractional parts of the multiples of the golden
 * ratio are spread evenly, whichever ids in a row the clients have. Therefore a drain needs no
 * memory for a client, and continues in a process that takes over.
 *
 * Invariant: each target has at most one drain.
 */
#include "pool/drain.h"

#include "base/log.h"
#include "base/mem.h"
#include "pool/closed.h"

#include <stdio.h>
#include <string.h>

const char *const drain_of_words[] = { [DRAIN_OF_ALL] = "all",
				       [DRAIN_OF_DATABASE] = "database",
				       [DRAIN_OF_USER] = "user",
				       [DRAIN_OF_HOST] = "host" };

const char *drain_text(const struct drain *drain, char *buf, size_t size)
{
	char name[PRINTABLE_NAME];

	if (drain->of == DRAIN_OF_ALL)
		snprintf(buf, size, "every database");
	else
		snprintf(buf, size, "%s \"%s\"", drain_of_words[drain->of],
			 printable_text(drain->name, name, sizeof(name)));
	return buf;
}

static void drain_free(struct drain *drain)
{
	list_remove(&drain->node);
	mem_free(drain->name);
	mem_free(drain);
}

struct drain *drain_begin(struct pools *pools, enum drain_of of, const char *name, usec_t since,
			  usec_t until)
{
	struct drain *drain = mem_try(sizeof(*drain));

	if (drain)
		*drain = (struct drain){
			.of = of, .name = mem_copy_string(name), .since = since, .until = until
		};
	if (!drain || !drain->name) {
		mem_free(drain);
		return NULL;
	}
	LIST_EACH_SAFE(node, &pools->drains) {
		struct drain *old = LIST_OBJECT(node, struct drain, node);

		if (old->of == of && strcmp(old->name, name) == 0)
			drain_free(old);
	}
	list_append(&pools->drains, &drain->node);
	return drain;
}

bool drain_stop(struct pools *pools, enum drain_of of, const char *name, bool quietly)
{
	bool any = false;

	LIST_EACH_SAFE(node, &pools->drains) {
		struct drain *drain = LIST_OBJECT(node, struct drain, node);
		char text[DRAIN_TEXT];

		if (of != DRAIN_OF_ALL && (drain->of != of || strcmp(drain->name, name) != 0))
			continue;
		if (!quietly)
			log_info("DRAIN of %s stops: %llu clients were ended, %zu are left",
				 drain_text(drain, text, sizeof(text)),
				 (unsigned long long)drain->ended, drain->left);
		drain_free(drain);
		any = true;
		/* there is no other one; `name` may have been in it */
		if (of != DRAIN_OF_ALL)
			break;
	}
	return any;
}

bool drain_applies(const struct drain *drain, const struct database *database, const char *user,
		   const struct host *at)
{
	if (database->is_console)
		return false;
	switch (drain->of) {
	case DRAIN_OF_ALL:
		return true;
	case DRAIN_OF_DATABASE:
		return strcmp(drain->name, database->name) == 0;
	case DRAIN_OF_USER:
		return user && strcmp(drain->name, user) == 0;
	case DRAIN_OF_HOST:
		/* the clients go to other hosts, unless they keep a server */
		if (database->roles && database->roles->count > 1)
			return at && host_is_named(at, drain->name);
		return host_is_listed(database->pools, database, drain->name);
	}
	return false;
}

struct drain *drain_due(const struct pools *pools, const struct database *database,
			const char *user, const struct host *at, uint64_t id, usec_t now)
{
	/* of 2 to the power of 20; the time has at most 40 bits */
	usec_t fraction = (usec_t)(id * 0x9e3779b97f4a7c15 >> 44);

	LIST_EACH(node, &pools->drains) {
		struct drain *drain = LIST_OBJECT(node, struct drain, node);

		if (now - drain->since >= (drain->until - drain->since) * fraction >> 20 &&
		    drain_applies(drain, database, user, at))
			return drain;
	}
	return NULL;
}
