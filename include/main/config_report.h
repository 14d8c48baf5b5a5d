#ifndef MAIN_CONFIG_REPORT_H
#define MAIN_CONFIG_REPORT_H

#include "conf/conf.h"
#include "main/options.h"

/* --check and --print-config: see config_report.c. Both functions print to stdout and return the exit status. */

/* Makes every check that a start would make, without starting. */
int config_report_check(const struct options *options);
/* Prints all settings with their values. */
int config_report_print(const struct options *options);

/* With -d: whether the file lacks settings that a background process needs. */
bool config_lacks_for_daemon(const struct options *options, const struct settings *settings);
#define LACKS_FOR_DAEMON "-d needs pidfile, and logfile or syslog, to be set in %s"

#endif
