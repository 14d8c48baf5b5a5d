#ifndef ADMIN_HELD_H
#define ADMIN_HELD_H

#include "admin/command.h"
#include "base/list.h"

/*
 * The prepared statements and portals of one caller. Their number and size are limited.
 */
struct held {
	struct list statements, portals;
	size_t count, bytes;		/* the number and total size of both */
};

struct held_statement {
	struct list node;
	size_t size;			/* of the texts */
	const char *text;		/* stored after the name */
	char name[];			/* "": the unnamed statement */
};

enum portal_state {
	PORTAL_READY,			/* bound */
	PORTAL_OPEN,			/* more rows are left */
	PORTAL_OVER			/* executed completely */
};

struct portal {
	struct list node;
	size_t size;			/* of the texts */
	size_t row_bytes;		/* part of held->bytes */
	struct command command;
	struct result result;
	enum portal_state state;
	char name[];
};

enum held_verdict { HELD_OK, HELD_TOO_MUCH, HELD_NO_MEMORY };

void held_init(struct held *held);
/* Drops everything; held_end_portals drops only portals. */
void held_free(struct held *held);
void held_end_portals(struct held *held);
/* Whether rows have exceeded the limit: no more rows may be produced. */
bool held_is_full(const struct held *held);

struct held_statement *held_statement_find(const struct held *held, const char *name);	/* NULL: not found */
enum held_verdict held_statement_add(struct held *held, const char *name, struct sql_span text);
void held_statement_drop(struct held *held, struct held_statement *statement);

struct portal *held_portal_find(const struct held *held, const char *name);
/* Creates a READY portal for the statement's command; *out is NULL unless HELD_OK is returned. */
enum held_verdict held_portal_add(struct held *held, const char *name, const struct held_statement *statement, struct portal **out);
void held_portal_drop(struct held *held, struct portal *portal);
/* Must be called after the number of buffered rows has changed. */
void held_count_rows(struct held *held, struct portal *portal);

#endif
