#ifndef ADMIN_HELD_H
#define ADMIN_HELD_H

#include "admin/command.h"
#include "base/list.h"

/*
 * The prepared statements and portals of one caller. What they keep is bounded by number and by size, so that a client can't make
 * pgweir keep more than it sends for.
 */
struct held {
	struct list statements, portals;
	size_t count, bytes;		/* how many these are, and of which size */
};

struct held_statement {
	struct list node;
	size_t size;			/* of the texts */
	const char *text;		/* behind the name */
	char name[];			/* "": the unnamed one */
};

enum portal_state {
	PORTAL_READY,			/* bound */
	PORTAL_OPEN,			/* rows are left */
	PORTAL_OVER			/* executed to the end */
};

struct portal {
	struct list node;
	size_t size;			/* of the texts */
	size_t row_bytes;		/* counted in held->bytes */
	struct command command;
	struct result result;
	enum portal_state state;
	char name[];
};

enum held_verdict { HELD_OK, HELD_TOO_MUCH, HELD_NO_MEMORY };

void held_init(struct held *held);
/* Drops everything; for portals alone held_end_portals. */
void held_free(struct held *held);
void held_end_portals(struct held *held);
/* Rows have filled it beyond its bound: no more are made. */
bool held_is_full(const struct held *held);

struct held_statement *held_statement_find(const struct held *held, const char *name);	/* NULL: none */
enum held_verdict held_statement_add(struct held *held, const char *name, struct sql_span text);
void held_statement_drop(struct held *held, struct held_statement *statement);

struct portal *held_portal_find(const struct held *held, const char *name);
/* A READY one for the statement's command; *out is NULL unless HELD_OK. */
enum held_verdict held_portal_add(struct held *held, const char *name, const struct held_statement *statement, struct portal **out);
void held_portal_drop(struct held *held, struct portal *portal);
/* Its rows have become more, or fewer. */
void held_count_rows(struct held *held, struct portal *portal);

#endif
