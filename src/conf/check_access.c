/*
 * Warnings for files of the configuration that users other than root and the pooler's user can read
 * or change.
 *
 * Secrets (auth_file, keys of TLS, files with a password) must not be readable by others. No file
 * of the configuration may be changed or replaced by others, because certificates and rules decide
 * which clients log in. The groups of the pooler's user and of root are trusted. Only regular files
 * are checked.
 *
 * As root the process does not know the later user of the pooler, unless the setting `user` or -u
 * names it. Without that name only access for all users is checked. Users and groups are compared
 * by number: a RELOAD must not wait for a name service.
 */
#include "conf/check.h"

#include "base/text.h"
#include "conf/hba.h"
#include "conf/settings.h"
#include "conf/value.h"

#include <grp.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define GROUPS_MOST 256

bool setting_guards_file(const char *setting, bool *is_secret)
{
	static const char secrets[] = "auth_file, client_tls_key_file, server_tls_key_file";
	static const char others[] =
		"patroni_ca_file, resolv_conf, client_tls_ca_file, client_tls_cert_file, "
		"client_tls_crl_file, server_tls_ca_file, "
		"server_tls_cert_file, server_tls_crl_file";

	*is_secret = text_list_has(secrets, setting, false);
	return *is_secret || text_list_has(others, setting, false);
}

/* The user that the pooler runs as, or will run as. */
struct access_checker {
	bool is_known;
	uid_t uid;
	gid_t groups[GROUPS_MOST];
	int group_count;
	struct conf_problems *problems;
};

static void check_say(const struct access_checker *c, const struct conf_file *f, const char *format,
		      ...) __attribute__((format(printf, 3, 4)));

static void check_say(const struct access_checker *c, const struct conf_file *f, const char *format,
		      ...)
{
	char what[512];
	va_list args;

	va_start(args, format);
	vsnprintf(what, sizeof(what), format, args);
	va_end(args);
	if (f->setting)
		conf_problem_add(c->problems, true, f->file, f->line, "\"%s\" names \"%s\": %s",
				 f->setting, f->path, what);
	else if (f->is_secret)
		conf_problem_add(c->problems, true, f->file, f->line,
				 "a password stands in this file: %s", what);
	else
		conf_problem_add(c->problems, true, f->path, 0, "%s", what);
}

/* Returns which access in three bits of a mode is too much, or NULL. */
static const char *check_excess(unsigned bits, bool is_secret)
{
	bool reads = is_secret && bits & 4, writes = bits & 2;

	return reads && writes ? "read and change" : writes ? "change" : reads ? "read" : NULL;
}

static void check_access(const struct access_checker *c, const struct conf_file *f)
{
	const char *slash = strrchr(f->path, '/'), *others, *group;
	bool is_own_group;
	char directory[4096];
	unsigned mode;
	struct stat st;

	if (!*f->path || stat(f->path, &st) != 0 || !S_ISREG(st.st_mode))
		return;
	/* The groups of the pooler's user and of root are trusted. */
	mode = st.st_mode & 07777;
	others = check_excess(mode & 7, f->is_secret);
	group = check_excess(mode >> 3 & 7, f->is_secret);
	is_own_group = st.st_gid == 0;
	for (int i = 0; i < c->group_count; i++)
		is_own_group |= c->groups[i] == st.st_gid;
	if (others)
		check_say(c, f, "every user of this machine can %s it (mode %04o)", others, mode);
	if (group && c->is_known && !is_own_group && !(others && strlen(others) >= strlen(group)))
		check_say(c, f, "the group %u can %s it (mode %04o)", (unsigned)st.st_gid, group,
			  mode);
	if (c->is_known && st.st_uid != 0 && st.st_uid != c->uid)
		check_say(c, f, "it belongs to the user %u, which can change it",
			  (unsigned)st.st_uid);
	/* Users with write access to a directory can replace its files, unless the directory has
	   the sticky bit, as /tmp has. */
	if (slash && (size_t)(slash - f->path) >= sizeof(directory))
		return;
	snprintf(directory, sizeof(directory), "%.*s", slash ? (int)(slash - f->path) + 1 : 1,
		 slash ? f->path : ".");
	if (stat(directory, &st) == 0 && st.st_mode & S_IWOTH && !(st.st_mode & S_ISVTX))
		check_say(c, f,
			  "every user of this machine can replace it (mode %04o of its directory)",
			  (unsigned)st.st_mode & 07777);
}

void access_check(const struct conf *conf, const char *user, struct conf_problems *problems)
{
	const struct passwd *account = user && *user ? getpwnam(user) : NULL;
	gid_t group = account ? account->pw_gid : getegid();
	struct access_checker c = {
		.is_known = account || geteuid() != 0,
		.uid = account ? account->pw_uid : geteuid(),
		.problems = problems,
	};
	struct conf_file f = { .setting = conf->set };

	if (account) {
		c.group_count = GROUPS_MOST;
		if (getgrouplist(user, group, c.groups, &c.group_count) < 0)
			c.group_count = GROUPS_MOST;
	} else {
		c.group_count = getgroups(GROUPS_MOST - 1, c.groups);
		if (c.group_count < 0)
			c.group_count = 0;
		c.groups[c.group_count++] = group;
	}
	if (!conf->set) {
		for (const struct conf_file *file = conf->files; file; file = file->next)
			check_access(&c, file);
	} else if (setting_guards_file(conf->set, &f.is_secret)) {
		f.path = value_text(value_find(&setting_table, conf->set), &conf->settings, NULL,
				    0);
		check_access(&c, &f);
	}
	if (!conf->hba || (conf->set && !text_list_has(SETTINGS_OF_RULES, conf->set, false)))
		return;
	for (const struct conf_file *file = hba_files(conf->hba); file; file = file->next)
		check_access(&c, file);
}
