#ifndef MAIN_ACTION_H
#define MAIN_ACTION_H

#include "conf/conf.h"
#include "main/options.h"

/*
 * The actions without a start: see action.c. OPTIONS_CHECK makes every check that a start would
 * make. OPTIONS_PRINT_CONFIG prints all settings with their values. OPTIONS_HASH_PASSWORD reads a
 * password from standard input, or from the terminal without echo, and prints the secret, for
 * options->secret_user as a line of auth_file. Prints to stdout and returns the exit status.
 */
int action_run(const struct options *options);

/* With -d: whether the file lacks settings that a background process needs. */
static inline bool config_lacks_for_daemon(const struct options *options, const struct settings *s)
{
	return options->daemon && (!s->pidfile || (!s->logfile && !s->syslog));
}
#define LACKS_FOR_DAEMON "-d needs pidfile, and logfile or syslog, to be set in %s"

#endif
