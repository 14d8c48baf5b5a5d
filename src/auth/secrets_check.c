/*
 * Warnings of --check, the start and RELOAD about secrets: MD5 secrets if only SCRAM is allowed, malformed MD5 secrets (they count as
 * passwords), malformed SCRAM secrets (no login is possible), and an auth_user without a secret.
 *
 * A list may have many users with one fault: one warning counts them and names the first.
 */
#include "auth/secrets_check.h"

#include "base/printable.h"
#include "base/text.h"
#include "pg/password.h"

#include <string.h>

#define MD5_PREFIX "md5"
#define HEX "0123456789abcdefABCDEF"

struct fault {
	const char *first;		/* a user */
	size_t count;
};

struct faults {
	struct fault md5, nearly_md5, broken_scram;
};

static void note(struct fault *fault, const char *user)
{
	if (fault->count++ == 0)
		fault->first = user;
}

/* A password may begin with "md5"; but if it has the length of an MD5 secret, or only hexadecimal digits after "md5", an MD5 secret was
   probably intended. */
static bool is_nearly_md5(const char *secret)
{
	const char *digits = secret + strlen(MD5_PREFIX);

	return text_starts(secret, MD5_PREFIX) && (strlen(secret) == MD5_SECRET || (strlen(digits) > 16 && strspn(digits, HEX) == strlen(digits)));
}

static void look_at(struct faults *faults, const char *user, const struct secret *secret)
{

	switch (secret_kind_of(secret->bytes)) {
	case SECRET_MD5:
		note(&faults->md5, user);
		return;
	case SECRET_PLAIN:
		if (is_nearly_md5(secret->bytes))
			note(&faults->nearly_md5, user);
		return;
	case SECRET_NONE:
		if (secret->length > 0)
			note(&faults->broken_scram, user);
		return;
	case SECRET_SCRAM:
		return;
	}
}

static void say(const struct conf *conf, const struct fault *fault, const char *what, struct conf_problems *problems)
{
	char user[PRINTABLE_NAME];

	if (fault->count > 0)
		conf_problem_add(problems, true, conf->settings.auth_file, 0, "%zu secret%s, the first of user \"%s\": %s", fault->count,
				 fault->count == 1 ? "" : "s", printable_inside(fault->first, user, sizeof(user)), what);
}

/* ---- auth_user ---- */

static bool has_password(const struct conf_database *d, const char *user)
{
	return d && d->password && (!d->user || strcmp(d->user, user) == 0);
}

/* Some database's entry has a password for it. */
static bool is_in_an_entry(const struct conf *conf, const char *user)
{
	bool has = has_password(conf->fallback, user);

	for (size_t i = 0; i < conf->database_count && !has; i++)
		has = has_password(conf->databases[i], user);
	return has;
}

static void check_auth_user(const struct conf *conf, const struct userlist *list, const char *user, struct conf_problems *problems)
{
	char name[PRINTABLE_NAME];

	/* a certificate is a secret, too */
	if (!user || !*user || (list && userlist_find(list, user)) || is_in_an_entry(conf, user) || conf->settings.server_tls_cert_file)
		return;
	conf_problem_add(problems, true, conf->path, 0, "\"auth_user\" is \"%s\", which has no secret in auth_file: the look-up of users fails, "
			 "unless servers ask it for none", printable_inside(user, name, sizeof(name)));
}

void secrets_check(const struct conf *conf, const struct userlist *list, struct conf_problems *problems)
{
	struct faults faults = { .md5 = { .count = 0 } };

	for (size_t i = 0; list && i < list->count; i++)
		look_at(&faults, list->entries[i]->user, list->entries[i]->secret);
	say(conf, &faults.nearly_md5, "it looks like an MD5 secret and is none, so it counts as a password", problems);
	say(conf, &faults.broken_scram, "a SCRAM secret that cannot be used, with which no login is possible", problems);
	if (conf->settings.auth_type == AUTH_SCRAM)
		say(conf, &faults.md5, "an MD5 secret, with which no login is possible while auth_type is scram-sha-256", problems);
	check_auth_user(conf, list, conf->settings.auth_user, problems);
	for (size_t i = 0; i < conf->database_count; i++)
		check_auth_user(conf, list, conf->databases[i]->auth_user, problems);
	if (conf->fallback)
		check_auth_user(conf, list, conf->fallback->auth_user, problems);
}
