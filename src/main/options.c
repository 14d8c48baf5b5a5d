/*
 * The command line: the options of PgBouncer, so that service files and scripts written for it
 * work, and options of pgweir that check or print a configuration or hash a password without
 * running it. Options may come before or after the file.
 */
#include "main/options.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

enum { LONG_CHECK = 256, LONG_PRINT_CONFIG, LONG_HASH_PASSWORD, LONG_LIKE };

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
	{ "hash-password", no_argument, NULL, LONG_HASH_PASSWORD },
	{ "like", required_argument, NULL, LONG_LIKE },
	{ NULL, 0, NULL, 0 },
};

static bool options_complain(const char *what)
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
	      "  pgweir top [OPTION]... [FILE.ini | CONNECTION STRING]    show the pools; see "
	      "pgweir top --help\n"
	      "  pgweir --hash-password [md5|scram-sha-256] [USER]\n"
	      "\n"
	      "Options:\n"
	      "  -d, --daemon         run in the background; needs pidfile, and logfile or syslog\n"
	      "  -q, --quiet          no log lines to standard error\n"
	      "  -v, --verbose        log more; may be repeated\n"
	      "  -u, --user=USER      become this user, instead of the one the file names\n"
	      "  -R, --reboot         take the place of the running pgweir, with all its "
	      "connections\n"
	      "  -V, --version        print the versions of pgweir and its libraries\n"
	      "  -h, --help           print this\n"
	      "      --check          name every problem of the file; the status is 1 if there is "
	      "any\n"
	      "      --print-config   print every setting as the file sets it\n"
	      "      --hash-password  read a password from standard input, and print its secret or "
	      "USER's line of auth_file\n"
	      "      --like=FILE      with the salt and iterations of the SCRAM secret in the "
	      "first line of FILE\n"
	      "\n"
	      "Signals: HUP reloads; TERM ends when the clients have left, INT when their servers "
	      "are free, QUIT now;\n"
	      "USR1 pauses, USR2 resumes.\n",
	      stdout);
}

/* Reads the words after --hash-password. */
static bool read_secret_words(struct options *o, int count, char **words)
{
	if (count > 0 && (strcmp(words[0], "md5") == 0 || strcmp(words[0], "scram-sha-256") == 0)) {
		o->wants_md5 = strcmp(words[0], "md5") == 0;
		count--;
		words++;
	}
	if (count > 0)
		o->secret_user = words[0];
	if (count > 1)
		return options_complain("one user is enough");
	if (o->secret_user && (!*o->secret_user || strchr(o->secret_user, '\n')))
		return options_complain("a user's name is empty or contains a line break");
	if (o->like && o->wants_md5)
		return options_complain(
			"an MD5 secret has no salt: --like belongs to scram-sha-256");
	return o->secret_user || !o->wants_md5 ||
	       options_complain("an MD5 secret contains the user's name: --hash-password md5 USER");
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
				return options_complain("--user needs a name");
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
		case LONG_HASH_PASSWORD:
			o->action = OPTIONS_HASH_PASSWORD;
			break;
		case LONG_LIKE:
			o->like = optarg;
			break;
		default:
			/* getopt has printed the reason */
			return options_complain(NULL);
		}
	}
	if (o->action == OPTIONS_HASH_PASSWORD)
		return read_secret_words(o, argc - optind, argv + optind);
	if (o->like)
		return options_complain("--like belongs to --hash-password");
	if (optind == argc)
		return options_complain("the configuration file is missing");
	if (optind + 1 < argc)
		return options_complain("one configuration file is enough");
	o->file = argv[optind];
	return true;
}
