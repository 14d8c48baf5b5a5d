/* The command line. */
#include "unit.h"

#include "main/options.h"

#include <stdlib.h>
#include <unistd.h>

static struct options got;
static char said[512];		/* stderr output of the last parsed command line */

/* Splits at blanks. */
static bool parse(const char *line)
{
	static char copy[256];
	char *argv[16] = { copy };
	int argc = 0, saved = dup(STDERR_FILENO);
	FILE *aside = tmpfile();
	size_t size;
	bool good;

	snprintf(copy, sizeof copy, "%s", line);
	for (char *word = strtok(copy, " "); word; word = strtok(NULL, " "))
		argv[argc++] = word;
	fflush(stderr);
	dup2(fileno(aside), STDERR_FILENO);
	good = options_read(&got, argc, argv);
	fflush(stderr);
	dup2(saved, STDERR_FILENO);
	close(saved);
	rewind(aside);
	size = fread(said, 1, sizeof said - 1, aside);
	said[size] = '\0';
	fclose(aside);
	return good;
}

TEST(file_alone)
{
	REQUIRE(parse("pgweir my.ini"));
	CHECK_INT(got.action, OPTIONS_RUN);
	CHECK_TEXT(got.file, "my.ini");
	CHECK(!got.user && !got.daemon && !got.quiet);
	CHECK_INT(got.verbose, 0);
	CHECK_TEXT(said, "");
}

TEST(short_options)
{
	REQUIRE(parse("pgweir -d -q -vv -v -u somebody my.ini"));
	CHECK(got.daemon && got.quiet);
	CHECK_INT(got.verbose, 3);
	CHECK_TEXT(got.user, "somebody");
}

TEST(long_options_after_the_file)
{
	CHECK(!got.takeover);
	REQUIRE(parse("pgweir -R my.ini"));
	CHECK(got.takeover && got.action == OPTIONS_RUN);
	REQUIRE(parse("pgweir my.ini --reboot"));
	CHECK(got.takeover);
	REQUIRE(parse("pgweir my.ini --daemon --quiet --verbose --user=somebody"));
	CHECK(got.daemon && got.quiet);
	CHECK_INT(got.verbose, 1);
	CHECK_TEXT(got.user, "somebody");
	CHECK_TEXT(got.file, "my.ini");
}

TEST(actions)
{
	REQUIRE(parse("pgweir --check my.ini"));
	CHECK_INT(got.action, OPTIONS_CHECK);
	CHECK_TEXT(got.file, "my.ini");
	REQUIRE(parse("pgweir --print-config my.ini"));
	CHECK_INT(got.action, OPTIONS_PRINT_CONFIG);
	REQUIRE(parse("pgweir --hash-password"));
	CHECK_INT(got.action, OPTIONS_HASH_PASSWORD);
	CHECK(!got.wants_md5 && !got.secret_user && !got.file);
	REQUIRE(parse("pgweir --hash-password md5 alice"));
	CHECK(got.wants_md5);
	CHECK_TEXT(got.secret_user, "alice");
	REQUIRE(parse("pgweir --hash-password scram-sha-256 md5"));
	CHECK(!got.wants_md5);
	CHECK_TEXT(got.secret_user, "md5");
	REQUIRE(parse("pgweir --hash-password --like=file alice"));
	CHECK_TEXT(got.like, "file");
	REQUIRE(parse("pgweir --hash-password alice"));
	CHECK_TEXT(got.secret_user, "alice");
	REQUIRE(parse("pgweir -V"));
	CHECK_INT(got.action, OPTIONS_VERSION);
	REQUIRE(parse("pgweir --version"));
	CHECK_INT(got.action, OPTIONS_VERSION);
	REQUIRE(parse("pgweir --help --nonsense"));
	CHECK_INT(got.action, OPTIONS_HELP);
}

TEST(invalid_command_lines)
{
	CHECK(!parse("pgweir"));
	CHECK(strstr(said, "configuration file is missing"));
	CHECK(!parse("pgweir --check"));
	CHECK(strstr(said, "configuration file is missing"));
	CHECK(!parse("pgweir a.ini b.ini"));
	CHECK(strstr(said, "one configuration file"));
	CHECK(!parse("pgweir --nonsense a.ini"));
	CHECK(strstr(said, "nonsense") && strstr(said, "--help"));
	CHECK(!parse("pgweir --user= a.ini"));
	CHECK(strstr(said, "--user needs a name"));
	CHECK(!parse("pgweir a.ini -u"));
	CHECK(!parse("pgweir --hash-password md5"));
	CHECK(strstr(said, "an MD5 secret contains the user's name"));
	CHECK(!parse("pgweir --hash-password alice bob"));
	CHECK(strstr(said, "one user is enough"));
	CHECK(!parse("pgweir --hash-password --like=file md5 alice"));
	CHECK(strstr(said, "an MD5 secret has no salt"));
	CHECK(!parse("pgweir --like=file a.ini"));
	CHECK(strstr(said, "--like belongs to --hash-password"));
}

TEST(help_names_every_option)
{
	static const char *const names[] = { "-d, --daemon", "-q, --quiet", "-v, --verbose", "-u, --user=", "-R, --reboot",
					     "-V, --version", "-h, --help", "--check", "--print-config", "--hash-password" };
	char text[4096];
	int saved = dup(STDOUT_FILENO);
	FILE *to = tmpfile();
	size_t size;

	fflush(stdout);
	dup2(fileno(to), STDOUT_FILENO);
	CHECK(parse("pgweir --help"));
	fflush(stdout);
	dup2(saved, STDOUT_FILENO);
	close(saved);
	rewind(to);
	size = fread(text, 1, sizeof(text) - 1, to);
	text[size] = '\0';
	fclose(to);
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (!strstr(text, names[i]))
			UNIT_FAIL("help says nothing about %s", names[i]);
}

UNIT_MAIN
