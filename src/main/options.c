/*
 * The command line: the options of PgBouncer, so that service files and scripts written for it work, and two options of pgweir
 * that check or print a configuration without running it. Options may come before or after the file.
 */
#include "main/options.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

enum { LONG_CHECK = 256, LONG_PRINT_CONFIG };

static const struct option long_options[] = {
	{ "daemon", no_argument, NULL, 'd' },
	{ "quiet", no_argument, NULL, 'q' },
	{ "verbose", no_argument, NULL, 'v' },
	{ "user", required_argument, NULL, 'u' },
	{ "reboot", no_argument, NULL, 'R' },
	{ "version", no_argument, NULL, 'V' },
	{ "help", no_argument, NULL, 'h' },
	{ "check", no_argument, NULL, LONG_CHECK },
	{ "print-config", no_argument, NULL, LONG_PRINT_CONFIG },
	{ NULL, 0, NULL, 0 },
};

static bool complain(const char *what)
{
	if (what)
		fprintf(stderr, "pgweir: %s\n", what);
	fprintf(stderr, "Try \"pgweir --help\" for more information.\n");
	return false;
}

static void print_help(void)
{
	fputs("pgweir is a connection pooler for PostgreSQL.\n"
	      "\n"
	      "Usage:\n"
	      "  pgweir [OPTION]... FILE.ini\n"
	      "\n"
	      "Options:\n"
	      "  -d, --daemon         run in the background; needs pidfile, and logfile or syslog\n"
	      "  -q, --quiet          no log lines to standard error\n"
	      "  -v, --verbose        log more; may be repeated\n"
	      "  -u, --user=USER      become this user, instead of the one the file names\n"
	      "  -R, --reboot         take the place of the running pgweir, with all its connections\n"
	      "  -V, --version        print the versions of pgweir and its libraries\n"
	      "  -h, --help           print this\n"
	      "      --check          name every problem of the file; the status is 1 if there is any\n"
	      "      --print-config   print every setting as the file sets it\n"
	      "\n"
	      "Signals: HUP reloads; TERM ends when the clients have left, INT when their servers are free, QUIT now;\n"
	      "USR1 pauses, USR2 resumes.\n",
	      stdout);
}

bool options_read(struct options *o, int argc, char **argv)
{
	int option;

	memset(o, 0, sizeof *o);
	/* 0 instead of 1: glibc then resets its state from an earlier command line */
	optind = 0;
	while ((option = getopt_long(argc, argv, "dqvu:RVh", long_options, NULL)) != -1) {
		switch (option) {
		case 'd':
			o->daemon = true;
			break;
		case 'q':
			o->quiet = true;
			break;
		case 'v':
			o->verbose++;
			break;
		case 'u':
			o->user = optarg;
			if (!*optarg)
				return complain("--user needs a name");
			break;
		case 'R':
			o->takeover = true;
			break;
		case 'V':
			o->action = OPTIONS_VERSION;
			return true;
		case 'h':
			o->action = OPTIONS_HELP;
			print_help();
			return true;
		case LONG_CHECK:
			o->action = OPTIONS_CHECK;
			break;
		case LONG_PRINT_CONFIG:
			o->action = OPTIONS_PRINT_CONFIG;
			break;
		default:
			/* getopt has printed the reason */
			return complain(NULL);
		}
	}
	if (optind == argc)
		return complain("the configuration file is missing");
	if (optind + 1 < argc)
		return complain("one configuration file is enough");
	o->file = argv[optind];
	return true;
}
