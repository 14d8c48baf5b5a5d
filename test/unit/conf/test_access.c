/* Configuration files that other users can read or change, with real files and modes. Tests with other owners run as root only. */
#include "conf/check.h"

#include "conf/hba.h"
#include "tempfile.h"
#include "unit.h"

#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static struct conf_problems problems;

#define SETTINGS "[pgweir]\nauth_type = trust\n"

static const char *write_with(const char *name, const char *text, mode_t mode)
{
	const char *path = temp_write(name, text);

	CHECK(chmod(path, mode) == 0);
	return path;
}

/* Loads the file, checks all files for this user, and returns the number of warnings. */
static size_t check(const char *path, const char *user)
{
	struct conf *conf;

	conf_problems_free(&problems);
	conf = conf_load(path, &problems);
	if (!conf || problems.count > 0) {
		UNIT_FAIL("%s: %s", path, problems.count > 0 ? problems.items[0].text : "no configuration");
		conf_drop(&conf);
		return 99;
	}
	CHECK(conf_read_rules(conf, NULL, false, &problems));
	CHECK_INT(problems.errors, 0);
	/* a build without LDAP warns about LDAP lines */
	conf_problems_free(&problems);
	access_check(conf, user, &problems);
	CHECK_INT(problems.errors, 0);
	conf_drop(&conf);
	return problems.count;
}

static size_t check_text(const char *text)
{
	return check(write_with("a.ini", text, 0600), NULL);
}

static bool says(size_t i, int line, const char *text)
{
	const struct conf_problem *p = i < problems.count ? &problems.items[i] : NULL;

	return p && p->is_warning && p->line == line && strstr(p->text, text);
}

TEST(own_files_cause_no_warning)
{
	char text[512];

	write_with("users", "", 0600);
	snprintf(text, sizeof(text), SETTINGS "auth_file = %s\n[databases]\na = password=secret\n", temp_path("users"));
	CHECK_INT(check_text(text), 0);
	/* the group is our own */
	CHECK(chmod(temp_path("users"), 0660) == 0);
	CHECK_INT(check_text(text), 0);
	CHECK_INT(check(write_with("a.ini", SETTINGS, 0644), NULL), 0);
}

TEST(user_list_that_every_user_can_read_or_change)
{
	static const struct { mode_t mode; const char *text; } all[] = {
		{ 0604, "can read it (mode 0604)" }, { 0644, "can read it (mode 0644)" }, { 0602, "can change it (mode 0602)" },
		{ 0666, "can read and change it (mode 0666)" }, { 0777, "can read and change it (mode 0777)" },
	};
	char text[512];

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		write_with("users", "", all[i].mode);
		snprintf(text, sizeof(text), SETTINGS "\nauth_file = %s\n", temp_path("users"));
		CHECK_INT(check_text(text), 1);
		CHECK(says(0, 4, "\"auth_file\" names \""));
		CHECK(says(0, 4, "users\": every user of this machine "));
		CHECK(says(0, 4, all[i].text));
		CHECK(problems.count > 0 && strcmp(problems.items[0].file, temp_path("a.ini")) == 0);
	}
}

TEST(each_file_setting_is_checked)
{
	static const char *const secrets[] = { "auth_file", "client_tls_key_file", "server_tls_key_file" };
	static const char *const others[] = {
		"client_tls_ca_file", "client_tls_cert_file", "client_tls_crl_file", "server_tls_ca_file", "server_tls_crl_file", "resolv_conf",
	};
	char text[512];

	for (size_t i = 0; i < sizeof(secrets) / sizeof(secrets[0]); i++) {
		write_with("f", "", 0604);
		snprintf(text, sizeof(text), SETTINGS "server_tls_cert_file = %s\n%s = %s\n", temp_path("f"), secrets[i],
			 temp_path("f"));
		if (strcmp(secrets[i], "server_tls_key_file") != 0)
			snprintf(text, sizeof(text), SETTINGS "%s = %s\n", secrets[i], temp_path("f"));
		CHECK_INT(check_text(text), 1);
		REQUIRE(problems.count > 0);
		CHECK(strstr(problems.items[0].text, secrets[i]) && strstr(problems.items[0].text, "can read it"));
	}
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		/* a list of revoked certificates has no effect without verification */
		snprintf(text, sizeof(text), SETTINGS "%s = %s\n%s", others[i], temp_path("f"), strstr(others[i], "crl") ?
			 "client_tls_ca_file = /dev/null\nserver_tls_sslmode = verify-ca\nserver_tls_ca_file = /dev/null\n" : "");
		write_with("f", "", 0644);
		CHECK_INT(check_text(text), 0);
		write_with("f", "", 0646);
		CHECK_INT(check_text(text), 1);
		CHECK(says(0, 3, "can change it (mode 0646)"));
	}
	snprintf(text, sizeof(text), SETTINGS "[databases]\na = sslcert=%s sslkey=%s\n", write_with("f", "", 0600), write_with("k", "", 0604));
	CHECK_INT(check_text(text), 1);
	CHECK(says(0, 4, "can read it (mode 0604)") && strstr(problems.items[0].text, "sslkey"));
	snprintf(text, sizeof(text), SETTINGS "[databases]\na = password_file=%s\n", write_with("k", "secret\n", 0604));
	CHECK_INT(check_text(text), 1);
	CHECK(says(0, 4, "can read it (mode 0604)") && strstr(problems.items[0].text, "password_file"));
	snprintf(text, sizeof(text), SETTINGS "[users]\na = password_file=%s\n", temp_path("k"));
	CHECK_INT(check_text(text), 1);
	CHECK(says(0, 4, "can read it (mode 0604)"));
	snprintf(text, sizeof(text), SETTINGS "[databases]\na = sslrootcert=%s\n", write_with("f", "", 0646));
	CHECK_INT(check_text(text), 1);
	CHECK(says(0, 4, "can change it (mode 0646)") && strstr(problems.items[0].text, "sslrootcert"));
	snprintf(text, sizeof(text), SETTINGS "logfile = %s\n", write_with("f", "", 0646));
	CHECK_INT(check_text(text), 0);
	snprintf(text, sizeof(text), SETTINGS "pidfile = %s\n", write_with("f", "", 0646));
	CHECK_INT(check_text(text), 0);
	/* a device is not reported as a file that others can change */
	snprintf(text, sizeof(text), SETTINGS "client_tls_ca_file = /dev/null\n");
	CHECK_INT(check_text(text), 0);
}

TEST(the_configuration_itself)
{
	char text[512];

	/* a password makes the file a secret; the warning names the line of the first password */
	snprintf(text, sizeof(text), SETTINGS "[databases]\na = host=x\nb = host=x password=secret\nc = password=other\n");
	CHECK_INT(check(write_with("a.ini", text, 0644), NULL), 1);
	CHECK(says(0, 5, "a password stands in this file: every user of this machine can read it (mode 0644)"));
	CHECK(!strstr(problems.items[0].text, "secret"));
	/* the warning is for the file that contains the password, not for the file that includes it */
	write_with("b.ini", "c = password=secret\n", 0604);
	snprintf(text, sizeof(text), SETTINGS "[databases]\n%%include %s\n", temp_path("b.ini"));
	CHECK_INT(check(write_with("a.ini", text, 0644), NULL), 1);
	CHECK(says(0, 1, "a password stands in this file") && strcmp(problems.items[0].file, temp_path("b.ini")) == 0);
	/* an empty file may contain secrets later */
	write_with("b.ini", "", 0606);
	CHECK_INT(check(temp_path("a.ini"), NULL), 1);
	CHECK(says(0, 0, "every user of this machine can change it (mode 0606)"));
	CHECK(problems.count > 0 && strcmp(problems.items[0].file, temp_path("b.ini")) == 0);
	CHECK_INT(check(write_with("a.ini", SETTINGS, 0646), NULL), 1);
	/* the password in auth_ldap_options is a secret too */
	snprintf(text, sizeof(text), SETTINGS "auth_ldap_options = ldapserver=x ldapbasedn=y ldapbinddn=z "
		 "ldapbindpasswd=secret\n");
	CHECK_INT(check(write_with("a.ini", text, 0604), NULL), 1);
	CHECK(says(0, 3, "a password stands in this file"));
	CHECK(!strstr(problems.items[0].text, "secret"));
	/* a password from the environment does not stand in the file */
	CHECK(setenv("WEIR_PW", "secret", 1) == 0);
	CHECK_INT(check(write_with("a.ini", SETTINGS "auth_ldap_options = ldapserver=x ldapbasedn=y ldapbinddn=z ldapbindpasswd=${WEIR_PW}\n"
						    "[databases]\na = password=${WEIR_PW}\n", 0644), NULL), 0);
	CHECK_INT(check(write_with("a.ini", SETTINGS "[databases]\na = password=x${WEIR_PW}\n", 0644), NULL), 1);
}

TEST(rules_and_included_files)
{
	char text[512];

	write_with("users.conf", "ann\n", 0606);
	write_with("more", "host all all all md5\n", 0646);
	snprintf(text, sizeof(text), "local all @users.conf trust\ninclude more\ninclude more\n");
	write_with("hba", text, 0644);
	write_with("ident", "map a b\n", 0604);
	snprintf(text, sizeof(text), "[pgweir]\nauth_type = hba\nauth_hba_file = %s\nauth_ident_file = %s\n", temp_path("hba"),
		 temp_path("ident"));
	CHECK_INT(check_text(text), 2);
	for (size_t i = 0; i < problems.count; i++)
		CHECK(says(i, 0, "every user of this machine can change it"));
	/* rules files may contain a password */
	write_with("users.conf", "ann\n", 0600);
	write_with("more", "host all all all ldap ldapserver=x ldapbasedn=y ldapbinddn=z ldapbindpasswd=secret\n", 0640);
	CHECK_INT(check_text(text), 0);
	CHECK(chmod(temp_path("more"), 0644) == 0);
	CHECK_INT(check_text(text), 1);
	CHECK(says(0, 1, "a password stands in this file: every user of this machine can read it (mode 0644)"));
	/* rules files that are not in use */
	snprintf(text, sizeof(text), SETTINGS "auth_hba_file = %s\n", temp_path("hba"));
	CHECK_INT(check_text(text), 0);
}

TEST(directories)
{
	char directory[200], text[512];
	char *slash;

	snprintf(text, sizeof(text), SETTINGS "auth_file = %s\n", write_with("users", "", 0600));
	snprintf(directory, sizeof(directory), "%s", temp_path("users"));
	slash = strrchr(directory, '/');
	*slash = '\0';
	write_with("a.ini", text, 0600);
	CHECK(chmod(directory, 0707) == 0);
	/* both files are in the directory */
	CHECK_INT(check(temp_path("a.ini"), NULL), 2);
	CHECK(says(0, 3, "every user of this machine can replace it (mode 0707 of its directory)"));
	/* as /tmp is */
	CHECK(chmod(directory, 01707) == 0);
	CHECK_INT(check(temp_path("a.ini"), NULL), 0);
	CHECK(chmod(directory, 0700) == 0);
}

TEST(files_are_checked_after_set)
{
	struct conf *conf, *fresh;

	conf_problems_free(&problems);
	conf = conf_load(write_with("a.ini", SETTINGS, 0600), &problems);
	REQUIRE(conf);
	write_with("users", "", 0604);
	fresh = conf_with(conf, "auth_file", temp_path("users"), &problems);
	REQUIRE(fresh);
	CHECK_INT(problems.count, 1);
	CHECK(says(0, 0, "\"auth_file\" names \"") && !problems.items[0].file);
	conf_drop(&fresh);
	conf_problems_free(&problems);
	/* changing another setting causes no warning about the file */
	fresh = conf_with(conf, "verbose", "1", &problems);
	REQUIRE(fresh);
	CHECK_INT(problems.count, 0);
	conf_drop(&fresh);
	write_with("hba", "local all all trust\n", 0606);
	fresh = conf_with(conf, "auth_hba_file", temp_path("hba"), &problems);
	REQUIRE(fresh && problems.count == 0);
	conf_drop(&conf);
	conf = fresh;
	fresh = conf_with(conf, "auth_type", "hba", &problems);
	REQUIRE(fresh);
	CHECK_INT(problems.count, 1);
	CHECK(says(0, 0, "every user of this machine can change it (mode 0606)"));
	conf_drop(&fresh);
	conf_drop(&conf);
}

/* ---- owners and groups: only root can give files away ---- */

TEST(other_owners_and_groups)
{
	const struct passwd *account = getpwnam("nobody");
	uid_t of_nobody = account ? account->pw_uid : 0;
	gid_t of_daemon, nogroup = (gid_t)-3;
	char text[512];

	account = getpwnam("daemon");
	of_daemon = account ? account->pw_gid : 0;
	if (geteuid() != 0 || of_nobody == 0 || of_daemon == 0)
		return;
	snprintf(text, sizeof(text), SETTINGS "auth_file = %s\n", write_with("users", "", 0640));
	write_with("a.ini", text, 0600);
	/* root does not know the user of the pooler unless the setting names it */
	CHECK(chown(temp_path("users"), of_nobody, nogroup) == 0);
	CHECK_INT(check(temp_path("a.ini"), NULL), 0);
	CHECK_INT(check(temp_path("a.ini"), "no such account"), 0);
	CHECK_INT(check(temp_path("a.ini"), "daemon"), 2);
	CHECK(says(0, 3, "the group 4294967293 can read it (mode 0640)"));
	snprintf(text, sizeof(text), "it belongs to the user %u, which can change it", (unsigned)of_nobody);
	CHECK(says(1, 3, text));
	CHECK(chown(temp_path("users"), 0, of_daemon) == 0);
	CHECK_INT(check(temp_path("a.ini"), "daemon"), 0);
	CHECK(chown(temp_path("users"), 0, 0) == 0);
	CHECK_INT(check(temp_path("a.ini"), "daemon"), 0);
	/* the warning for the group is omitted if all users can do the same */
	CHECK(chown(temp_path("users"), 0, nogroup) == 0 && chmod(temp_path("users"), 0644) == 0);
	CHECK_INT(check(temp_path("a.ini"), "daemon"), 1);
	CHECK(chmod(temp_path("users"), 0664) == 0);
	CHECK_INT(check(temp_path("a.ini"), "daemon"), 2);
	CHECK(says(1, 3, "can read and change it (mode 0664)"));
}

TEST(teardown)
{
	conf_problems_free(&problems);
}

UNIT_MAIN
