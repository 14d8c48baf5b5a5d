/*
 * Warnings for files of the configuration that users other than root and the pooler's user can read or change.
 *
 * Secrets (auth_file, keys of TLS, files with a password) must not be readable by others. No file of the configuration may be
 * changed or replaced by others, because certificates and rules decide which clients log in. The groups of the pooler's user
 * and of root are trusted. Only regular files are checked.
 *
 * A process that runs as root does not know the user that the pooler will run as, unless the setting `user` or -u names it.
 * Without that name only access for all users is checked. Users and groups are compared by number: a RELOAD must not wait for a
 * name service.
 */
#include "conf/access.h"

#include "base/text.h"
#include "conf/hba.h"
#include "conf/value.h"

#include <grp.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define GROUPS_MOST 256

/* ---- the pooler's user ---- */

struct owner {
	bool is_known;
	uid_t uid;
	gid_t groups[GROUPS_MOST];
	int group_count;
};

/* `user` NULL or without an account: the user of this process, unknown if it is root. */
static void owner_of(struct owner *own, const char *user)
{
	const struct passwd *account = user && *user ? getpwnam(user) : NULL;
	gid_t group = account ? account->pw_gid : getegid();

	*own = (struct owner){ .is_known = account || geteuid() != 0, .uid = account ? account->pw_uid : geteuid() };
	if (account) {
		own->group_count = GROUPS_MOST;
		if (getgrouplist(user, group, own->groups, &own->group_count) < 0)
			own->group_count = GROUPS_MOST;
		return;
	}
	own->group_count = getgroups(GROUPS_MOST - 1, own->groups);
	if (own->group_count < 0)
		own->group_count = 0;
	own->groups[own->group_count++] = group;
}

/* ---- a file ---- */

struct access_checker {
	struct owner own;
	struct conf_problems *problems;
};

static void say(const struct access_checker *c, const struct conf_file *f, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static void say(const struct access_checker *c, const struct conf_file *f, const char *format, ...)
{
	char what[512];
	va_list args;

	va_start(args, format);
	vsnprintf(what, sizeof(what), format, args);
	va_end(args);
	if (f->setting)
		conf_problem_add(c->problems, true, f->file, f->line, "\"%s\" names \"%s\": %s", f->setting, f->path, what);
	else if (f->is_secret)
		conf_problem_add(c->problems, true, f->file, f->line, "a password stands in this file: %s", what);
	else
		conf_problem_add(c->problems, true, f->path, 0, "%s", what);
}

/* Returns which access in three bits of a mode is too much, or NULL. */
static const char *excess(unsigned bits, bool is_secret)
{
	bool reads = is_secret && bits & 4, writes = bits & 2;

	return reads && writes ? "read and change" : writes ? "change" : reads ? "read" : NULL;
}

static void check_file(const struct access_checker *c, const struct conf_file *f)
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
	others = excess(mode & 7, f->is_secret);
	group = excess(mode >> 3 & 7, f->is_secret);
	is_own_group = st.st_gid == 0;
	for (int i = 0; i < c->own.group_count; i++)
		is_own_group |= c->own.groups[i] == st.st_gid;
	if (others)
		say(c, f, "every user of this machine can %s it (mode %04o)", others, mode);
	if (group && c->own.is_known && !is_own_group && !(others && strlen(others) >= strlen(group)))
		say(c, f, "the group %u can %s it (mode %04o)", (unsigned)st.st_gid, group, mode);
	if (c->own.is_known && st.st_uid != 0 && st.st_uid != c->own.uid)
		say(c, f, "it belongs to the user %u, which can change it", (unsigned)st.st_uid);
	/* Users with write access to a directory can replace its files, unless the directory has the sticky bit, as /tmp has. */
	if (slash && (size_t)(slash - f->path) >= sizeof(directory))
		return;
	snprintf(directory, sizeof(directory), "%.*s", slash ? (int)(slash - f->path) + 1 : 1, slash ? f->path : ".");
	if (stat(directory, &st) == 0 && st.st_mode & S_IWOTH && !(st.st_mode & S_ISVTX))
		say(c, f, "every user of this machine can replace it (mode %04o of its directory)",
		    (unsigned)st.st_mode & 07777);
}

static void check_list(const struct access_checker *c, const struct conf_file *files)
{
	for (const struct conf_file *f = files; f; f = f->next)
		check_file(c, f);
}

/* ---- lists ---- */

static struct conf_file *find(struct conf_file *files, const char *setting, const char *path)
{
	while (files && (files->setting != setting || strcmp(files->path, path) != 0))
		files = files->next;
	return files;
}

bool access_note_file(struct conf_file **files, const struct conf_file *file, struct arena *arena)
{
	struct conf_file *f;

	if (find(*files, file->setting, file->path))
		return true;
	f = arena_take(arena, sizeof(*f));
	if (!f)
		return false;
	*f = *file;
	f->path = arena_copy(arena, file->path, strlen(file->path));
	f->file = file->file ? arena_copy(arena, file->file, strlen(file->file)) : NULL;
	f->next = *files;
	*files = f;
	return f->path && (f->file || !file->file);
}

void access_note_secret(struct conf_file *files, const char *path, int line)
{
	struct conf_file *f = find(files, NULL, path);

	if (!f || f->is_secret)
		return;
	f->is_secret = true;
	f->line = line;
}

/* ---- public functions ---- */

bool access_is_guarded(const char *setting, bool *is_secret)
{
	static const char secrets[] = "auth_file, client_tls_key_file, server_tls_key_file";
	static const char others[] = "resolv_conf, client_tls_ca_file, client_tls_cert_file, server_tls_ca_file, "
				     "server_tls_cert_file";

	*is_secret = text_list_has(secrets, setting, false);
	return *is_secret || text_list_has(others, setting, false);
}

void access_check(const struct conf *conf, const char *user, struct conf_problems *problems)
{
	struct access_checker c = { .problems = problems };

	owner_of(&c.own, user);
	check_list(&c, conf->files);
	if (conf->hba)
		check_list(&c, hba_files(conf->hba));
}

void access_check_setting(const struct conf *conf, const char *name, bool rules, struct conf_problems *problems)
{
	const struct value_row *row = value_find(&setting_table, name);
	struct access_checker c = { .problems = problems };
	struct conf_file f = { .setting = row->row.name };

	owner_of(&c.own, NULL);
	if (access_is_guarded(f.setting, &f.is_secret)) {
		f.path = value_text(row, &conf->settings, NULL, 0);
		check_file(&c, &f);
	}
	if (rules && conf->hba)
		check_list(&c, hba_files(conf->hba));
}
