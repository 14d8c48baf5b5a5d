#ifndef ADMIN_CONSOLE_H
#define ADMIN_CONSOLE_H

#include "session/world.h"

/* The console: databases "pgbouncer" and "pgweir". */
struct console;

/* NULL: no memory. Sets world->console. */
struct console *console_new(struct world *world, const struct control *control);
/* world->console is NULL afterwards. */
void console_free(struct console **console);
/* Once a turn: commands that wait (PAUSE, SUSPEND, KILL, WAIT_CLOSE) answer when their condition
   holds. A SUSPEND ends with the last console connection. */
void console_turn(struct console *console);
/* The same verbs from signals (USR1, USR2) and main, without a client to answer. */
void console_pause_all(struct console *console);
void console_resume_all(struct console *console);

#endif
