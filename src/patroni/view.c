/*
 * The body of Patroni's answer to GET /cluster: cluster_as_json() in patroni/utils.py of Patroni
 * 3.0 to 4.1.
 *
 * The JSON is read by jansson: Debian has it as libjansson, it is maintained, small (70 kB, no
 * dependencies) and strict (RFC 8259, UTF-8 is checked, nothing may follow the value). cJSON
 * accepts text after the value and numbers that JSON does not have; json-c accepts comments and
 * single quotes. An answer comes from another machine, so these limits matter:
 *
 *	depth		jansson recurses up to 2,048 levels (JSON_PARSER_MAX_DEPTH), which needs
 *			less than 1 MB of stack
 *	numbers		an integer beyond int64_t and a real beyond double are errors
 *	memory		an empty object of 3 bytes takes 200 bytes of memory, so MEMORY_MOST bounds
 *			the memory of an answer
 *	no memory	jansson 2.14 ignores a buffer that could not grow (lex_save() in load.c) and
 *			then reads beyond it. Therefore a failed allocation does not return:
 *			pool_take() jumps out of the parser, and the pool with all that jansson has
 *			allocated is freed.
 *	duplicates	a key that occurs twice in an object is an error (JSON_REJECT_DUPLICATES)
 *	NUL		\u0000 in a string is an error (without JSON_ALLOW_NUL)
 *
 * Values that are not used may have any type, because newer versions of Patroni add values. The
 * whole answer is refused if a used value has another type, because a guess would send writes to
 * the wrong server.
 */
#include "patroni/patroni.h"

#include "base/mem.h"
#include "base/text.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#define PORT_DEFAULT 5432
/* ten times the memory of 64 members with 1 kB of tags each */
#define MEMORY_MOST ((size_t)4 << 20)

/* The memory of jansson during one answer. */
static struct {
	struct arena *arena;
	size_t left;
	jmp_buf empty;
} pool;

/* Writes the reason, and returns false. */
#define REFUSE(...) (snprintf(why, why_size, __VA_ARGS__), false)

/* Copies a text value. False: it has another type, or does not fit. */
static bool view_copy_text(char *to, size_t size, const json_t *value)
{
	return json_is_string(value) && text_copy(to, size, json_string_value(value));
}

/* Whether the text can be a host of a list. Patroni on another machine must not lead pgweir to a
   Unix socket of this machine, or to two hosts ("a,b"). */
static bool is_host(const char *host)
{
	static const char allowed[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-:%";

	return *host && host[strspn(host, allowed)] == '\0';
}

/* Reads host and port. A member has neither before its first start. */
static bool view_read_address(const json_t *member, unsigned index, struct patroni_member *m,
			      char *why, size_t why_size)
{
	const json_t *host = json_object_get(member, "host"),
		     *port = json_object_get(member, "port");
	json_int_t number = port ? json_integer_value(port) : PORT_DEFAULT;

	if (!host)
		return true;
	if (!view_copy_text(m->host, sizeof(m->host), host) || !is_host(m->host))
		return REFUSE("host of member %u is not the name of a host", index);
	if ((port && !json_is_integer(port)) || number < 1 || number > UINT16_MAX)
		return REFUSE("port of member %u is not a port", index);
	m->port = (uint16_t)number;
	return true;
}

static enum patroni_role role_of(const char *word)
{
	if (strcmp(word, "leader") == 0)
		return PATRONI_LEADER;
	if (strcmp(word, "standby_leader") == 0)
		return PATRONI_STANDBY_LEADER;
	return text_list_has("replica, sync_standby, quorum_standby", word, false) ? PATRONI_REPLICA
										   : PATRONI_OTHER;
}

/* Whether the member is running. Since Patroni 3.1 the state of a running standby is the source of
   its WAL, "streaming" or "in archive recovery", instead of "running". */
static bool is_running(const char *state)
{
	return strcmp(state, "running") == 0 || strcmp(state, "streaming") == 0 ||
	       strcmp(state, "in archive recovery") == 0;
}

/* Whether Python takes the value for true, as Patroni does with its tags. */
static bool is_truth(const json_t *value)
{
	switch (value ? json_typeof(value) : JSON_NULL) {
	case JSON_TRUE:
		return true;
	case JSON_STRING:
		return json_string_length(value) > 0;
	case JSON_INTEGER:
		return json_integer_value(value) != 0;
	case JSON_REAL:
		return json_number_value(value) < 0 || json_number_value(value) > 0;
	case JSON_ARRAY:
		return json_array_size(value) > 0;
	case JSON_OBJECT:
		return json_object_size(value) > 0;
	default:
		return false;
	}
}

static bool read_state(const json_t *member, unsigned index, struct patroni_member *m, char *why,
		       size_t why_size)
{
	const json_t *state = json_object_get(member, "state"),
		     *tags = json_object_get(member, "tags");
	const json_t *timeline = json_object_get(member, "timeline"),
		     *lag = json_object_get(member, "lag");

	if (!json_is_string(state))
		return REFUSE("state of member %u is not a text", index);
	m->is_running = is_running(json_string_value(state));
	if (tags && !json_is_object(tags))
		return REFUSE("tags of member %u is not an object", index);
	m->no_load_balance = is_truth(json_object_get(tags, "noloadbalance"));
	if (timeline && (!json_is_integer(timeline) || json_integer_value(timeline) < 0 ||
			 json_integer_value(timeline) > UINT32_MAX))
		return REFUSE("timeline of member %u is not a timeline", index);
	m->timeline = json_integer_value(timeline);
	/* "unknown" */
	if (lag && !json_is_string(lag) && (!json_is_integer(lag) || json_integer_value(lag) < 0))
		return REFUSE("lag of member %u is not a number of bytes", index);
	m->lag = json_is_integer(lag) ? json_integer_value(lag) : -1;
	return true;
}

/* Notes the URL of the REST interface without its path. Another URL than http or https is not
   noted. */
static void view_read_url(const json_t *member, struct patroni_member *m)
{
	const json_t *value = json_object_get(member, "api_url");
	const char *text = json_is_string(value) ? json_string_value(value) : "";
	size_t size = strncmp(text, "http://", 7) == 0	  ? 7
		      : strncmp(text, "https://", 8) == 0 ? 8
							  : 0;

	if (size == 0)
		return;
	size += strcspn(text + size, "/");
	if (size < sizeof(m->url))
		memcpy(m->url, text, size);
}

static bool view_read_member(const json_t *member, unsigned index, struct patroni_member *m,
			     char *why, size_t why_size)
{
	const json_t *role = json_object_get(member, "role");

	memset(m, 0, sizeof(*m));
	if (!json_is_object(member))
		return REFUSE("member %u is not an object", index);
	if (!view_copy_text(m->name, sizeof(m->name), json_object_get(member, "name")) || !*m->name)
		return REFUSE("name of member %u is not a text of 1 to %d bytes", index,
			      PATRONI_NAME_SIZE - 1);
	if (!json_is_string(role))
		return REFUSE("role of member %u is not a text", index);
	m->role = role_of(json_string_value(role));
	view_read_url(member, m);
	return view_read_address(member, index, m, why, why_size) &&
	       read_state(member, index, m, why, why_size);
}

/* Checks the last member against the members before it. */
static bool check_last(struct patroni_view *view, char *why, size_t why_size)
{
	unsigned last = view->count - 1;
	const struct patroni_member *m = &view->members[last];

	for (unsigned i = 0; i < last; i++) {
		const struct patroni_member *other = &view->members[i];

		if (strcmp(other->name, m->name) == 0)
			return REFUSE("members %u and %u have the same name", i, last);
		if (*m->host && other->port == m->port && text_equal_fold(other->host, m->host))
			return REFUSE("members %u and %u have the same address", i, last);
	}
	if (m->role != PATRONI_LEADER && m->role != PATRONI_STANDBY_LEADER)
		return true;
	if (view->leader >= 0)
		return REFUSE("members %d and %u are both the leader", view->leader, last);
	view->leader = (int)last;
	return true;
}

static bool read_cluster(const json_t *cluster, struct patroni_view *view, char *why,
			 size_t why_size)
{
	const json_t *members = json_object_get(cluster, "members"),
		     *pause = json_object_get(cluster, "pause");
	const json_t *switchover = json_object_get(cluster, "scheduled_switchover");

	view->count = 0;
	view->leader = -1;
	if (!json_is_object(cluster))
		return REFUSE("the answer is not an object");
	if (!json_is_array(members))
		return REFUSE("members is not an array");
	if (json_array_size(members) == 0 || json_array_size(members) > PATRONI_MEMBERS_MOST)
		return REFUSE("members has %zu entries instead of 1 to %d",
			      json_array_size(members), PATRONI_MEMBERS_MOST);
	if (pause && !json_is_boolean(pause))
		return REFUSE("pause is neither true nor false");
	if (switchover && !json_is_object(switchover))
		return REFUSE("scheduled_switchover is not an object");
	view->is_paused = json_is_true(pause);
	view->has_switchover = switchover;
	for (unsigned i = 0; i < json_array_size(members); i++) {
		if (!view_read_member(json_array_get(members, i), i, &view->members[i], why,
				      why_size))
			return false;
		view->count++;
		if (!check_last(view, why, why_size))
			return false;
	}
	return true;
}

static void *pool_take(size_t size)
{
	void *memory = size <= pool.left ? arena_take(pool.arena, size) : NULL;

	if (!memory)
		longjmp(pool.empty, 1);
	pool.left -= size;
	return memory;
}

static void pool_give(void *memory)
{
	(void)memory;
}

static bool view_read_text(const char *text, size_t size, struct patroni_view *view, char *why,
			   size_t why_size)
{
	json_error_t error;
	json_t *cluster;

	if (setjmp(pool.empty))
		return REFUSE("the answer needs too much memory");
	cluster = json_loadb(text, size, JSON_REJECT_DUPLICATES, &error);
	/* The text of the error contains bytes of the answer, so only the place is told. */
	return cluster ? read_cluster(cluster, view, why, why_size)
		       : REFUSE("it cannot be read as JSON at byte %d", error.position);
}

bool patroni_view_read(const char *text, size_t size, struct patroni_view *view, char *why,
		       size_t why_size)
{
	json_malloc_t malloc_before;
	json_free_t free_before;

	view->is_known = false;
	if (size == 0)
		return REFUSE("the answer is empty");
	if (size > PATRONI_BODY_MOST)
		return REFUSE("the answer is longer than %d bytes", PATRONI_BODY_MOST);
	pool.arena = arena_new(false);
	if (!pool.arena)
		return REFUSE("no memory");
	pool.left = MEMORY_MOST;
	json_get_alloc_funcs(&malloc_before, &free_before);
	json_set_alloc_funcs(pool_take, pool_give);
	view->is_known = view_read_text(text, size, view, why, why_size);
	json_set_alloc_funcs(malloc_before, free_before);
	arena_free(&pool.arena);
	return view->is_known;
}
