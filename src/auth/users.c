/*
 * The users of auth_file.
 *
 * The list is read at the start and by RELOAD, and again when a login begins after the file has
 * changed. A new list replaces the old one as a whole, so that a login never sees half of a change.
 *
 * Secrets that cannot be used cause warnings of --check, the start and RELOAD. A list may have many
 * users with the same fault: one warning counts them and names the first.
 */
#include "auth/users.h"

#include "auth/unknown.h"
#include "backend/keys.h"
#include "base/log.h"
#include "base/printable.h"
#include "base/text.h"
#include "pg/scram.h"

#include <string.h>

#define MD5_PREFIX "md5"
#define HEX "0123456789abcdefABCDEF"

/* ---- warnings ---- */

struct secret_fault {
	const char *first_user;
	size_t count;
};

static void users_warn(const struct conf *conf, const struct secret_fault *fault, const char *what,
		       struct conf_problems *problems)
{
	char user[PRINTABLE_NAME];

	if (fault->count > 0)
		conf_problem_add(problems, true, conf->settings.auth_file, 0,
				 "%zu secret%s, the first of user \"%s\": %s", fault->count,
				 fault->count == 1 ? "" : "s",
				 printable_inside(fault->first_user, user, sizeof(user)), what);
}

/* Whether one login can be compared with both secrets. A SCRAM exchange names one salt and one
   count before the client proves a secret, so both secrets must have the same ones. */
static bool are_comparable(const char *one, const char *other)
{
	enum secret_kind kinds[] = { secret_kind_of(one), secret_kind_of(other) };
	struct scram_secret a = { .iterations = 0 }, b = { .iterations = 0 };
	bool fit;

	if (kinds[0] == SECRET_NONE || kinds[1] == SECRET_NONE)
		return false;
	if (kinds[0] != SECRET_SCRAM && kinds[1] != SECRET_SCRAM)
		return true;
	if (kinds[0] == SECRET_MD5 || kinds[1] == SECRET_MD5)
		return false;
	scram_secret_read(kinds[0] == SECRET_SCRAM ? one : other, &a);
	if (kinds[0] == SECRET_SCRAM && kinds[1] == SECRET_SCRAM) {
		scram_secret_read(other, &b);
		fit = a.iterations == b.iterations && a.salt_size == b.salt_size &&
		      memcmp(a.salt, b.salt, a.salt_size) == 0;
	} else {
		fit = a.salt_size == MOCK_SALT && a.iterations <= SCRAM_ITERATIONS_MAX;
	}
	mem_wipe(&a, sizeof(a));
	mem_wipe(&b, sizeof(b));
	return fit;
}

const struct secret *users_old_secret(const struct userlist *list, const char *user)
{
	const struct secret *old = userlist_find_old(list, user);

	return old && are_comparable(userlist_find(list, user)->bytes, old->bytes) ? old : NULL;
}

/* Whether the entry has a password for this user. */
static bool has_password(const struct conf_database *d, const char *user)
{
	return d && d->password && (!d->user || strcmp(d->user, user) == 0);
}

static void users_check_auth_user(const struct conf *conf, const struct userlist *list,
				  const char *user, struct conf_problems *problems)
{
	bool has_secret;
	char name[PRINTABLE_NAME];

	if (!user || !*user)
		return;
	/* a certificate serves as a secret */
	has_secret = userlist_find(list, user) || has_password(conf->fallback, user) ||
		     conf->settings.server_tls_cert_file;
	for (size_t i = 0; i < conf->database_count && !has_secret; i++)
		has_secret = has_password(conf->databases[i], user) || conf->databases[i]->sslcert;
	if (!has_secret)
		conf_problem_add(problems, true, conf->path, 0,
				 "\"auth_user\" is \"%s\", which has no secret in auth_file: the "
				 "look-up of users "
				 "fails, unless servers ask it for none",
				 printable_inside(user, name, sizeof(name)));
}

static void users_check_host_user(const struct conf *conf, const struct userlist *list,
				  struct conf_problems *problems)
{
	const char *user = conf->settings.host_check_user;
	bool has_secret = !user || userlist_find(list, user) || has_password(conf->fallback, user);
	char name[PRINTABLE_NAME];

	for (size_t i = 0; i < conf->database_count && !has_secret; i++)
		has_secret = has_password(conf->databases[i], user);
	if (!has_secret)
		conf_problem_add(problems, true, conf->path, 0,
				 "\"host_check_user\" names \"%s\", which has no secret in "
				 "\"auth_file\": only servers that ask for no password tell their "
				 "role",
				 printable_inside(user, name, sizeof(name)));
}

/* Logins are compared with secrets of auth_file only. */
static bool needs_list(const struct conf *conf)
{
	bool has_lookup = conf->settings.auth_user ||
			  (conf->fallback && conf->fallback->auth_user);

	for (size_t i = 0; i < conf->database_count && !has_lookup; i++)
		has_lookup = conf->databases[i]->auth_user != NULL;
	return !has_lookup && conf->settings.auth_file &&
	       (auth_methods[conf->settings.auth_type].needs & AUTH_NEEDS_SECRET);
}

/* Warns of the names in this setting that cannot log in, because auth_file has no secret
   for them. */
static void users_check_names(const struct conf *conf, const struct userlist *list,
			      const char *setting, const char *names,
			      struct conf_problems *problems)
{
	char name[PRINTABLE_NAME], shown[PRINTABLE_NAME];
	size_t size;

	names = names ? names : "";
	for (names += strspn(names, ", \t"); *names; names += strspn(names, ", \t")) {
		size = strcspn(names, ", \t");
		snprintf(name, sizeof(name), "%.*s", (int)size, names);
		if (size < sizeof(name) && !strchr(name, '"') && !name_is_console(name) &&
		    !userlist_find(list, name))
			conf_problem_add(problems, true, conf->path, 0,
					 "\"%s\" names \"%s\", which has no secret in "
					 "\"auth_file\": it cannot log in",
					 setting, printable_inside(name, shown, sizeof(shown)));
		names += size;
	}
}

static void users_check_list(const struct conf *conf, const struct userlist *list,
			     struct conf_problems *problems)
{
	const struct settings *set = &conf->settings;

	if (list->count == 0)
		conf_problem_add(problems, true, set->auth_file, 0,
				 "the file has no user: only the account of the pooler can log in, "
				 "on the Unix socket");
	else {
		users_check_names(conf, list, "admin_users", set->admin_users, problems);
		users_check_names(conf, list, "stats_users", set->stats_users, problems);
	}
}

void users_check(const struct conf *conf, const struct userlist *list,
		 struct conf_problems *problems)
{
	struct secret_fault md5 = { .count = 0 }, nearly_md5 = { .count = 0 },
			    broken_scram = { .count = 0 };

	for (size_t i = 0; list && i < list->count; i++) {
		const struct secret *secret = list->entries[i]->secret;
		const char *text = secret->bytes, *digits = text + strlen(MD5_PREFIX);
		enum secret_kind kind = secret_kind_of(text);
		struct secret_fault *fault = NULL;
		char user[PRINTABLE_NAME];

		/* a password may begin with "md5"; but a text of the length of an MD5 secret, or
		   with only hexadecimal digits, probably is a malformed MD5 secret */
		if (kind == SECRET_MD5)
			fault = &md5;
		else if (kind == SECRET_PLAIN && text_starts(text, MD5_PREFIX) &&
			 (strlen(text) == MD5_SECRET ||
			  (strlen(digits) > 16 && strspn(digits, HEX) == strlen(digits))))
			fault = &nearly_md5;
		else if (kind == SECRET_NONE && secret->length > 0)
			fault = &broken_scram;
		if (fault && fault->count++ == 0)
			fault->first_user = list->entries[i]->user;
		if (list->entries[i]->old && !are_comparable(text, list->entries[i]->old->bytes))
			conf_problem_add(
				problems, true, conf->path, 0,
				"user \"%s\": old_password_file is ignored, because no exchange "
				"can check both "
				"secrets: make the SCRAM secrets with one salt (pgweir "
				"--hash-password --like=FILE)",
				printable_inside(list->entries[i]->user, user, sizeof(user)));
	}
	users_warn(conf, &nearly_md5,
		   "it looks like an MD5 secret and is none, so it counts as a password", problems);
	users_warn(conf, &broken_scram,
		   "a SCRAM secret that cannot be used, with which no login is possible", problems);
	if (conf->settings.auth_type == AUTH_SCRAM)
		users_warn(conf, &md5,
			   "an MD5 secret, with which no login is possible while auth_type is "
			   "scram-sha-256",
			   problems);
	users_check_host_user(conf, list, problems);
	if (list && needs_list(conf))
		users_check_list(conf, list, problems);
	users_check_auth_user(conf, list, conf->settings.auth_user, problems);
	for (size_t i = 0; i < conf->database_count; i++)
		users_check_auth_user(conf, list, conf->databases[i]->auth_user, problems);
	if (conf->fallback)
		users_check_auth_user(conf, list, conf->fallback->auth_user, problems);
}

/* ---- the list ---- */

static void note_iterations(struct secrets *secrets, const struct secret *secret)
{
	struct scram_secret scram;

	if (secret && secret_kind_of(secret->bytes) == SECRET_SCRAM &&
	    scram_secret_read(secret->bytes, &scram) && scram.iterations <= SCRAM_ITERATIONS_MAX &&
	    scram.iterations > secrets->iterations_most)
		secrets->iterations_most = scram.iterations;
	mem_wipe(&scram, sizeof(scram));
}

void users_replace(struct world *w, struct userlist *fresh)
{
	struct secrets *secrets = w->logins.secrets;

	/* a server login that failed with the old secret may succeed with the new one */
	LIST_EACH(node, &w->pools->all) {
		struct pool *pool = LIST_OBJECT(node, struct pool, node);

		if (pool->login_failed &&
		    (!secret_is_same(userlist_find(secrets->list, pool->user->name),
				     userlist_find(fresh, pool->user->name)) ||
		     !secret_is_same(userlist_find_old(secrets->list, pool->user->name),
				     userlist_find_old(fresh, pool->user->name))))
			pool_login_forgiven(pool);
	}
	if (secrets->list)
		userlist_free(&secrets->list);
	secrets->list = fresh;
	secrets->kinds = (struct secret_kinds){ .all = 0 };
	secrets->iterations_most = 0;
	for (size_t i = 0; fresh && i < fresh->count; i++) {
		unknown_count_secret(&secrets->kinds, fresh->entries[i]->secret);
		note_iterations(secrets, fresh->entries[i]->secret);
		note_iterations(secrets, fresh->entries[i]->old);
	}
}

void users_refresh(struct world *w)
{
	struct conf_problems problems = { .count = 0 };
	struct secrets *secrets = w->logins.secrets;
	struct userlist *fresh;

	if (!w->conf->settings.auth_file || w->now - secrets->checked_at < USEC)
		return;
	secrets->checked_at = w->now;
	if (secrets->list && !userlist_is_stale(secrets->list))
		return;
	fresh = userlist_of_conf(w->conf, &problems);
	if (fresh)
		users_check(w->conf, fresh, &problems);
	for (size_t i = 0; i < problems.count; i++)
		log_warning("%s:%d: %s", problems.items[i].file, problems.items[i].line,
			    problems.items[i].text);
	conf_problems_free(&problems);
	if (!fresh)
		return;
	users_replace(w, fresh);
	log_info("auth_file was read again: %zu users", fresh->count);
}
