#ifndef MAIN_OPTIONS_H
#define MAIN_OPTIONS_H

#include <stdbool.h>

/* The command line. */
enum options_action {
	OPTIONS_RUN,
	OPTIONS_CHECK,
	OPTIONS_PRINT_CONFIG,
	OPTIONS_HASH_PASSWORD,
	OPTIONS_HELP,
	OPTIONS_VERSION
};

struct options {
	enum options_action action;
	/* the ini file; NULL only with HASH_PASSWORD, HELP and VERSION */
	const char *file;
	const char *user;		/* -u: overrides the setting `user`; may be NULL */
	const char *secret_user;	/* HASH_PASSWORD: the user; NULL: none, not with MD5 */
	/* HASH_PASSWORD: the file with the secret that gives the salt; NULL: a new salt */
	const char *like;
	bool wants_md5;			/* HASH_PASSWORD: an MD5 secret instead of a SCRAM secret */
	int verbose;			/* number of -v */
	bool daemon, quiet;
	bool takeover;			/* -R: replace the running process, if there is one */
};

/* Parses the command line; the strings point into argv, which is reordered. False: invalid; stderr
   has the reason, and the process should exit with status 1. With OPTIONS_HELP the help is
   printed. */
bool options_read(struct options *options, int argc, char **argv);

#endif
