#ifndef MAIN_CONFIG_REPORT_H
#define MAIN_CONFIG_REPORT_H

#include "conf/conf.h"
#include "main/options.h"

/* What the command line asks about the configuration: see config_report.c. Both print to stdout and return the status of the process. */

/* Everything that a start would check, without starting. */
int config_report_check(const struct options *options);
/* All settings with the values in force. */
int config_report_print(const struct options *options);

/* -d: the file does not set what a process in the background needs. */
bool config_lacks_for_daemon(const struct options *options, const struct settings *settings);
#define LACKS_FOR_DAEMON "-d needs pidfile, and logfile or syslog, to be set in %s"

#endif
