#ifndef MAIN_OPTIONS_H
#define MAIN_OPTIONS_H

#include <stdbool.h>
#include <stdio.h>

/* What the command line asks for. */
enum options_action { OPTIONS_RUN, OPTIONS_CHECK, OPTIONS_PRINT_CONFIG, OPTIONS_HELP, OPTIONS_VERSION };

struct options {
	enum options_action action;
	const char *file;		/* the ini; NULL with HELP and VERSION only */
	const char *user;		/* -u: wins over the setting `user`; or NULL */
	int verbose;			/* how many -v */
	bool daemon, quiet;
	bool takeover;			/* -R: from the running process, if there is one */
};

/* Reads the command line; the strings are those of argv, which is reordered. False: it makes no sense, and stderr has
   been told why; the process should exit 1. */
bool options_read(struct options *options, int argc, char **argv);
void options_print_help(FILE *to);

#endif
