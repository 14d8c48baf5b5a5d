#ifndef ADMIN_CONSOLE_H
#define ADMIN_CONSOLE_H

#include "core/lifecycle.h"

/* The console: databases "pgbouncer" and "pgweir". */
struct console;

/* Functions of main for the console. */
struct control {
	bool (*reload)(void *context, struct conf_problems *problems);
	bool (*set)(void *context, const char *name, const char *value,
		    struct conf_problems *problems);
	void (*shutdown)(void *context, enum world_drain how);
	void *context;
	const char *version;			/* "PgBouncer 1.25.2 (pgweir 0.1.0)" */
};

/* NULL: no memory. Sets world->console.ops. */
struct console *console_new(struct world *world, const struct control *control);
/* world->console.ops is NULL afterwards. */
void console_free(struct console **console);
/* Called once a turn: waiting commands (PAUSE, SUSPEND, KILL, WAIT_CLOSE) are answered when their
   condition holds. A SUSPEND ends with the last console connection. */
void console_turn(struct console *console);
/* PAUSE (`on`) and RESUME from signals (USR1, USR2), without a client. */
void console_pause_all(struct console *console, bool on);

#endif
