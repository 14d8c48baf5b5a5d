/*
 * Prepared statements and portals of a caller, by name.
 *
 * Invariant: count and bytes are the number and size of the objects on both lists. HELD_MOST and HELD_BYTES_MOST limit them,
 * except for the rows of one portal.
 */
#include "admin/held.h"

#include "base/mem.h"

#include <string.h>

#define HELD_MOST 1000
#define HELD_BYTES_MOST ((size_t)1024 * 1024)

void held_init(struct held *held)
{
	*held = (struct held){ .count = 0 };
	list_init(&held->statements);
	list_init(&held->portals);
}

void held_end_portals(struct held *held)
{
	LIST_EACH_SAFE(node, &held->portals)
		held_portal_drop(held, LIST_OBJECT(node, struct portal, node));
}

void held_free(struct held *held)
{
	held_end_portals(held);
	LIST_EACH_SAFE(node, &held->statements)
		held_statement_drop(held, LIST_OBJECT(node, struct held_statement, node));
}

bool held_is_full(const struct held *held)
{
	return held->bytes > HELD_BYTES_MOST;
}

/* Counts an object of this size if there is room for it. Returns whether there is. */
static bool take_room(struct held *held, size_t size)
{
	if (held->count >= HELD_MOST || held->bytes + size > HELD_BYTES_MOST)
		return false;
	held->count++;
	held->bytes += size;
	return true;
}

/* ---- statements ---- */

struct held_statement *held_statement_find(const struct held *held, const char *name)
{
	LIST_EACH(node, &held->statements) {
		struct held_statement *s = LIST_OBJECT(node, struct held_statement, node);

		if (!strcmp(s->name, name))
			return s;
	}
	return NULL;
}

enum held_verdict held_statement_add(struct held *held, const char *name, struct sql_span text)
{
	size_t name_size = strlen(name), size = name_size + text.size;
	struct held_statement *s = mem_try(sizeof(*s) + size + 2);

	if (!s)
		return HELD_NO_MEMORY;
	if (!take_room(held, size)) {
		mem_free(s);
		return HELD_TOO_MUCH;
	}
	s->size = size;
	memcpy(s->name, name, name_size);
	memcpy(s->name + name_size + 1, text.at, text.size);
	s->text = s->name + name_size + 1;
	list_append(&held->statements, &s->node);
	return HELD_OK;
}

void held_statement_drop(struct held *held, struct held_statement *s)
{
	list_remove(&s->node);
	held->count--;
	held->bytes -= s->size;
	mem_free(s);
}

/* ---- portals ---- */

struct portal *held_portal_find(const struct held *held, const char *name)
{
	LIST_EACH(node, &held->portals) {
		struct portal *p = LIST_OBJECT(node, struct portal, node);

		if (!strcmp(p->name, name))
			return p;
	}
	return NULL;
}

enum held_verdict held_portal_add(struct held *held, const char *name, const struct held_statement *s, struct portal **out)
{
	size_t size = strlen(name) + s->size;
	struct portal *p = mem_try(sizeof(*p) + strlen(name) + 1);

	*out = NULL;
	if (!p)
		return HELD_NO_MEMORY;
	if (!take_room(held, size)) {
		mem_free(p);
		return HELD_TOO_MUCH;
	}
	p->size = size;
	memcpy(p->name, name, strlen(name));
	list_append(&held->portals, &p->node);
	if (command_parse((struct sql_span){ s->text, strlen(s->text) }, &p->command) != COMMAND_PARSE_OK) {
		held_portal_drop(held, p);
		return HELD_NO_MEMORY;
	}
	*out = p;
	return HELD_OK;
}

void held_portal_drop(struct held *held, struct portal *p)
{
	list_remove(&p->node);
	held->count--;
	held->bytes -= p->size + p->row_bytes;
	command_free(&p->command);
	result_free(&p->result);
	mem_free(p);
}

void held_count_rows(struct held *held, struct portal *p)
{
	size_t now = bytes_size(&p->result.rows);

	held->bytes += now - p->row_bytes;
	p->row_bytes = now;
}
