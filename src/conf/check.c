/*
 * Checks that need more than one value: files that do not exist, and settings that contradict each
 * other. A configuration is an error if the pooler would refuse all clients, or do less than the
 * file says (for example accept clients without the requested TLS); it causes a warning if it works
 * but is probably a mistake. See check_names.c for names in SQL texts, and check_access.c for files
 * that others can read or change.
 */
#include "conf/check.h"

#include "base/text.h"
#include "conf/check_names.h"
#include "conf/hba.h"
#include "conf/host_list.h"
#include "conf/settings.h"
#include "conf/url.h"
#include "conf/value.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/* names in track_extra_parameters: 64 together with the parameters that are always tracked */
#define TRACKED_MOST 58

struct checker {
	const struct conf *conf;
	const struct setting_place *places;
	struct conf_problems *problems;
};

static struct setting_place check_place_of(const struct checker *c, const char *name)
{
	const struct value_row *row = value_find(&setting_table, name);
	struct setting_place place = { c->conf->path, 0 };

	if (row && c->places && c->places[row - setting_table.rows].file)
		place = c->places[row - setting_table.rows];
	return place;
}

/* Adds a problem at the line that sets `name`. */
#define SAY(c, is_warning, name, ...) \
	do { \
		struct setting_place say_place = check_place_of(c, name); \
		conf_problem_add((c)->problems, is_warning, say_place.file, say_place.line, \
				 __VA_ARGS__); \
	} while (0)

bool conf_is_tls_file(const char *setting)
{
	return text_list_has("client_tls_ca_file, client_tls_cert_file, client_tls_crl_file, "
			     "client_tls_key_file, "
			     "server_tls_ca_file, server_tls_cert_file, server_tls_crl_file, "
			     "server_tls_key_file",
			     setting, false);
}

/* Checks that the file which a setting names is readable, if it must exist. */
static void check_file(const struct checker *c, const struct value_row *row)
{
	static const char must_exist[] =
		"auth_file, auth_hba_file, auth_ident_file, patroni_ca_file, resolv_conf";
	const struct settings *s = &c->conf->settings;
	const struct setting_place *place = c->places ? &c->places[row - setting_table.rows] : NULL;
	const char *name = row->row.name, *path, *why = NULL, *file = place ? place->file : NULL;
	bool is_tls_file = conf_is_tls_file(name), is_unused = false;
	int line = place ? place->line : 0;
	struct stat st;

	if (!text_list_has(must_exist, name, false) && !is_tls_file)
		return;
	path = value_text(row, s, NULL, 0);
	if (*path == '\0')
		return;
	if (stat(path, &st) != 0 || faccessat(AT_FDCWD, path, R_OK, AT_EACCESS) != 0)
		why = strerror(errno);
	else if (S_ISDIR(st.st_mode))
		why = "it is a directory";
	if (!why)
		return;
	/* TLS files are not read while sslmode is disable. */
	if (is_tls_file)
		is_unused = (text_starts(name, "client_tls_")
				     ? s->client_tls_sslmode
				     : s->server_tls_sslmode) == SSLMODE_DISABLE;
	/* Uses the same words as for a TLS file that is readable but cannot be used. */
	if (!is_tls_file || is_unused)
		conf_problem_add(c->problems, is_unused, file, line,
				 "\"%s\" names \"%s\", which cannot be read: %s", name, path, why);
	else if (strstr(name, "_ca_") || strstr(name, "_crl_"))
		conf_problem_add_tls(c->problems, false, file, line,
				     "failed to load %s: %s (\"%s\")",
				     strstr(name, "_ca_") ? "CA" : "CRL", why, path);
	else
		conf_problem_add_tls(
			c->problems, false, file, line, "failed to load %s \"%s\": %s",
			strstr(name, "_key_") ? "private key file" : "certificate file", path, why);
}

/* ---- contradictions ---- */

static void check_tls(const struct checker *c)
{
	const struct settings *s = &c->conf->settings;

	if (s->client_tls_sslmode != SSLMODE_DISABLE &&
	    !(s->client_tls_cert_file && s->client_tls_key_file))
		SAY(c, false, "client_tls_sslmode",
		    "\"client_tls_sslmode\" other than disable needs "
		    "\"client_tls_cert_file\" and \"client_tls_key_file\"");
	if (s->client_tls_sslmode >= SSLMODE_VERIFY_CA && !s->client_tls_ca_file)
		SAY(c, false, "client_tls_sslmode",
		    "\"client_tls_sslmode\" verify-ca and verify-full need "
		    "\"client_tls_ca_file\", to check the clients' certificates with");
	if (s->client_tls_crl_file && !s->client_tls_ca_file && !c->conf->set)
		SAY(c, true, "client_tls_crl_file",
		    "\"client_tls_crl_file\" has no effect without \"client_tls_ca_file\"");
	if (s->server_tls_crl_file && s->server_tls_sslmode < SSLMODE_VERIFY_CA && !c->conf->set)
		SAY(c, true, "server_tls_crl_file",
		    "\"server_tls_crl_file\" has no effect while \"server_tls_sslmode\" is neither "
		    "verify-ca nor "
		    "verify-full");
	if (s->http_tls && !(s->client_tls_cert_file && s->client_tls_key_file))
		SAY(c, false, "http_tls",
		    "\"http_tls\" needs \"client_tls_cert_file\" and \"client_tls_key_file\"");
	if (s->auth_type == AUTH_CERT && s->client_tls_sslmode != SSLMODE_VERIFY_FULL)
		SAY(c, false, "auth_type",
		    "\"auth_type\" cert needs \"client_tls_sslmode\" verify-full");
	if (s->server_tls_sslmode >= SSLMODE_VERIFY_CA && !s->server_tls_ca_file)
		SAY(c, true, "server_tls_sslmode",
		    "\"server_tls_ca_file\" is not set: whoever has a certificate of an "
		    "authority that the system trusts counts as a server");
	if (s->server_tls_sslnegotiation == SSLNEGOTIATION_DIRECT &&
	    s->server_tls_sslmode < SSLMODE_REQUIRE)
		SAY(c, false, "server_tls_sslnegotiation",
		    "\"server_tls_sslnegotiation\" direct needs "
		    "\"server_tls_sslmode\" require, verify-ca or verify-full: there is no way "
		    "back to a connection in clear");
	if (s->server_channel_binding == CHANNEL_BINDING_REQUIRE &&
	    s->server_tls_sslmode == SSLMODE_DISABLE)
		SAY(c, false, "server_channel_binding",
		    "\"server_channel_binding\" require needs TLS, and "
		    "\"server_tls_sslmode\" is disable");
	if (s->server_tls_cert_file && !s->server_tls_key_file && !c->conf->set)
		SAY(c, s->server_tls_sslmode == SSLMODE_DISABLE, "server_tls_cert_file",
		    "\"server_tls_cert_file\" needs \"server_tls_key_file\"");
	if (s->server_tls_key_file && !s->server_tls_cert_file && !c->conf->set)
		SAY(c, true, "server_tls_key_file",
		    "\"server_tls_key_file\" has no effect without \"server_tls_cert_file\"");
}

static bool check_is_console(const char *dbname)
{
	return dbname && (strcmp(dbname, "pgbouncer") == 0 || strcmp(dbname, "pgweir") == 0);
}

/* Whether a user can be looked up with auth_query. */
static bool may_look_up(const struct conf *conf)
{
	bool may = conf->settings.auth_user || (conf->fallback && conf->fallback->auth_user);

	for (size_t i = 0; i < conf->database_count && !may; i++)
		may = conf->databases[i]->auth_user;
	return may;
}

/* Whether no entry matches the database. `database` may be NULL. */
static bool is_unknown(const struct conf *conf, const char *database)
{
	return database && !check_is_console(database) && !conf->fallback &&
	       !conf_database_find(conf, database);
}

static void check_login(const struct checker *c)
{
	const struct settings *s = &c->conf->settings;
	const struct auth_method *method = &auth_methods[s->auth_type];

	if (s->auth_type == AUTH_HBA && !s->auth_hba_file)
		SAY(c, false, "auth_type", "\"auth_type\" hba needs \"auth_hba_file\"");
	if (s->auth_type == AUTH_LDAP && !s->auth_ldap_options)
		SAY(c, false, "auth_type", "\"auth_type\" ldap needs \"auth_ldap_options\"");
	if (method->lacks)
		SAY(c, false, "auth_type",
		    "\"auth_type\" %s is not available: this pgweir was built without %s",
		    method->word, method->lacks);
	if (check_is_console(s->auth_dbname))
		SAY(c, false, "auth_dbname",
		    "cannot use the reserved \"%s\" database as an auth_dbname", s->auth_dbname);
	if (method->needs & AUTH_NEEDS_SECRET && !s->auth_file && !may_look_up(c->conf) &&
	    c->conf->path)
		SAY(c, true, "auth_type",
		    "\"auth_file\" is not set, nor is \"auth_user\", so there is no secret to "
		    "check a client's with");
	if (may_look_up(c->conf) && s->auth_query[0] && !strstr(s->auth_query, "$1"))
		SAY(c, true, "auth_query",
		    "\"auth_query\" has no $1, so it cannot ask for one user");
	if (!may_look_up(c->conf) && check_place_of(c, "auth_query").line > 0)
		SAY(c, true, "auth_query", "\"auth_query\" has no effect without \"auth_user\"");
	if (is_unknown(c->conf, s->auth_dbname))
		SAY(c, true, "auth_dbname",
		    "\"auth_dbname\" names \"%s\", which is not in [databases]", s->auth_dbname);
}

/* The owner of a database can replace a function or operator that is found by search_path: see
   check_names.c. */
#define UNQUALIFIED "uses \"%.64s\" without a schema: "
#define FOR_LOOKUPS \
	UNQUALIFIED "set \"auth_dbname\", or write OPERATOR(pg_catalog.=) and SCHEMA.FUNCTION, " \
		    "lest the owner of a database " \
		    "put something else in its place"
#define NOT_FOUND \
	"calls \"%.64s\" without a schema, which is found in pg_catalog and the search_path of " \
	"the role of auth_user only: write " \
	"the schema, as in public.%.64s(...), or set \"auth_search_path\", or \"auth_dbname\" to " \
	"a database in which public can be trusted"
#define FOR_SESSIONS \
	UNQUALIFIED "write OPERATOR(pg_catalog.=) and SCHEMA.FUNCTION, lest the owner of a " \
		    "database, or a client that " \
		    "sets search_path, put something else in its place"

/* Text about the names in this auth_query, which asks the database of the client: buf, or NULL. */
static const char *lookup_fault(const char *sql, const char *path, char *buf, size_t size)
{
	char name[65];

	if (!path && unqualified_name(sql, true, name, sizeof(name)))
		snprintf(buf, size, NOT_FOUND, name, name);
	else if (unqualified_name(sql, false, name, sizeof(name)))
		snprintf(buf, size, FOR_LOOKUPS, name);
	else
		return NULL;
	return buf;
}

/* The pooler's own queries run with the rights of the pool's user, or of auth_user. */
static void check_names(const struct checker *c)
{
	const struct settings *s = &c->conf->settings;
	char name[65], fault[512];

	if (may_look_up(c->conf) && !s->auth_dbname &&
	    lookup_fault(s->auth_query, s->auth_search_path, fault, sizeof(fault)))
		SAY(c, true, "auth_query", "\"auth_query\" %s", fault);
	if (s->server_check_query &&
	    unqualified_name(s->server_check_query, false, name, sizeof(name)) &&
	    strcmp(s->server_check_query, "<empty>") != 0)
		SAY(c, true, "server_check_query", "\"server_check_query\" " FOR_SESSIONS, name);
	if (s->server_reset_query &&
	    unqualified_name(s->server_reset_query, false, name, sizeof(name)))
		SAY(c, true, "server_reset_query", "\"server_reset_query\" " FOR_SESSIONS, name);
}

#define SUN_PATH_SIZE sizeof(((struct sockaddr_un *)NULL)->sun_path)

/* Whether "DIR/.s.PGSQL.PORT" fits into struct sockaddr_un. */
static bool fits_socket(const char *dir, int64_t port)
{
	return snprintf(NULL, 0, "%s/.s.PGSQL.%" PRId64, dir, port) < (int)SUN_PATH_SIZE;
}

static bool is_socket_dir(const char *host)
{
	return host && (*host == '/' || *host == '@');
}

/* The names are put into queries unquoted, and each has a bit. */
static void check_tracked(const struct checker *c)
{
	static const char letters[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.";
	const char *at = c->conf->settings.track_extra_parameters;
	int count = 0;

	while (at && *(at += strspn(at, ", \t"))) {
		size_t size = strcspn(at, ", \t");

		if (strspn(at, letters) < size)
			SAY(c, false, "track_extra_parameters",
			    "\"%.*s\" is no parameter name: letters, digits, _ and . are "
			    "accepted",
			    (int)size, at);
		at += size;
		count++;
	}
	if (count > TRACKED_MOST)
		SAY(c, false, "track_extra_parameters",
		    "%d names are too many: at most %d are accepted", count, TRACKED_MOST);
}

/* Whether one of the hosts is neither a Unix socket nor this machine. */
static bool has_remote(const struct conf_database *d)
{
	for (unsigned i = 0; i < d->host_count; i++) {
		const char *name = d->hosts[i].name;

		if (name && *name && !is_socket_dir(name) && !text_starts(name, "127.") &&
		    strcmp(name, "localhost") != 0 && strcmp(name, "::1") != 0)
			return true;
	}
	return false;
}

struct conf_server_tls conf_server_tls(const struct settings *s, const struct conf_database *d)
{
	return (struct conf_server_tls){
		.is_own = d->sslmode != CONF_UNSET || d->sslrootcert || d->sslcert || d->sslkey ||
			  d->sslcrl,
		.sslmode = d->sslmode == CONF_UNSET ? s->server_tls_sslmode : d->sslmode,
		.ca_file = d->sslrootcert ? d->sslrootcert : s->server_tls_ca_file,
		.cert_file = d->sslcert ? d->sslcert : s->server_tls_cert_file,
		.key_file = d->sslkey ? d->sslkey : s->server_tls_key_file,
		.crl_file = d->sslcrl ? d->sslcrl : s->server_tls_crl_file,
	};
}

/* Channel binding and the methods that a server may ask for. */
static void check_server_login(const struct checker *c, const struct conf_database *d)
{
	const struct settings *s = &c->conf->settings;
	int list = d->require_auth == CONF_UNSET ? s->server_require_auth : d->require_auth;
	int binding = d->channel_binding == CONF_UNSET ? s->server_channel_binding
						       : d->channel_binding;
	struct conf_server_tls tls = conf_server_tls(s, d);
	bool allows_scram = methods_allow(list, METHOD_SCRAM);
	bool allows_others = methods_allow(list, METHOD_PASSWORD) ||
			     methods_allow(list, METHOD_MD5) || methods_allow(list, METHOD_NONE);
	const char *why = NULL;
	char words[64];

	/* Channel binding needs TLS, so a Unix socket or a connection without TLS cannot have
	   it. */
	if (!d->host || is_socket_dir(d->host))
		why = "a Unix socket has none";
	else if (tls.sslmode == SSLMODE_DISABLE)
		why = d->sslmode == CONF_UNSET ? "\"server_tls_sslmode\" is disable"
					       : "\"sslmode\" is disable";
	if (binding == CHANNEL_BINDING_REQUIRE && why)
		conf_problem_add(c->problems, false, c->conf->path, 0,
				 "database \"%s\": \"channel_binding\" require needs TLS, and %s",
				 d->name, why);
	why = NULL;
	if (!allows_scram && !allows_others)
		why = "none of these methods is one that pgweir speaks";
	else if (!allows_scram && binding == CHANNEL_BINDING_REQUIRE)
		why = "\"channel_binding\" require needs scram-sha-256";
	if (why)
		conf_problem_add(c->problems, false, c->conf->path, 0,
				 "database \"%s\": \"require_auth\" is \"%s\", but %s", d->name,
				 methods_text(list, words, sizeof(words)), why);
	if (methods_name(list, METHOD_PASSWORD) && tls.sslmode < SSLMODE_VERIFY_FULL &&
	    has_remote(d))
		conf_problem_add(c->problems, true, c->conf->path, 0,
				 "database \"%s\": \"require_auth\" names password, and "
				 "\"server_tls_sslmode\" is not "
				 "verify-full: a machine between pgweir and the server can ask for "
				 "passwords in clear text",
				 d->name);
}

static void check_database_tls(const struct checker *c, const struct conf_database *d)
{
	const struct settings *s = &c->conf->settings;
	struct conf_server_tls tls = conf_server_tls(s, d);
	int negotiation = d->sslnegotiation == CONF_UNSET ? s->server_tls_sslnegotiation
							  : d->sslnegotiation;

	if (negotiation == SSLNEGOTIATION_DIRECT && tls.sslmode < SSLMODE_REQUIRE &&
	    (tls.is_own || d->sslnegotiation != CONF_UNSET))
		conf_problem_add(c->problems, false, d->file, d->line,
				 "database \"%s\": \"sslnegotiation\" direct needs \"%s\" require, "
				 "verify-ca or verify-full",
				 d->name,
				 d->sslmode == CONF_UNSET ? "server_tls_sslmode" : "sslmode");
	if (!d->sslcert != !d->sslkey)
		conf_problem_add(c->problems, false, d->file, d->line,
				 "database \"%s\": \"sslcert\" and \"sslkey\" need each other",
				 d->name);
	if (tls.is_own && tls.sslmode >= SSLMODE_VERIFY_CA && !tls.ca_file)
		conf_problem_add(c->problems, true, d->file, d->line,
				 "database \"%s\": neither \"sslrootcert\" nor "
				 "\"server_tls_ca_file\" is set: "
				 "whoever has a certificate of an authority that the system trusts "
				 "counts as a server",
				 d->name);
	if (tls.sslmode != SSLMODE_DISABLE && tls.sslmode < SSLMODE_VERIFY_CA && d->sslcrl)
		conf_problem_add(c->problems, true, d->file, d->line,
				 "database \"%s\": \"sslcrl\" has no effect while \"%s\" is "
				 "neither verify-ca "
				 "nor verify-full",
				 d->name,
				 d->sslmode == CONF_UNSET ? "server_tls_sslmode" : "sslmode");
	if (tls.sslmode == SSLMODE_DISABLE && (d->sslrootcert || d->sslcert || d->sslcrl))
		conf_problem_add(
			c->problems, true, d->file, d->line,
			"database \"%s\": the files for TLS have no effect while \"%s\" is disable",
			d->name, d->sslmode == CONF_UNSET ? "server_tls_sslmode" : "sslmode");
}

static void check_database(const struct checker *c, const struct conf_database *d)
{
	const struct settings *s = &c->conf->settings;
	int64_t size = d->pool_size == CONF_UNSET ? s->default_pool_size : d->pool_size;
	char name[65], fault[512];
	const char *schemas;

	if (check_is_console(d->auth_dbname))
		conf_problem_add(c->problems, true, c->conf->path, 0,
				 "database \"%s\": \"auth_dbname\" is the console \"%s\": "
				 "a user who is not in \"auth_file\" cannot be looked up there",
				 d->name, d->auth_dbname);
	if (is_unknown(c->conf, d->auth_dbname))
		conf_problem_add(c->problems, true, c->conf->path, 0,
				 "database \"%s\": \"auth_dbname\" names \"%s\", which is not in "
				 "[databases]",
				 d->name, d->auth_dbname);
	if (d->auth_query && !strstr(d->auth_query, "$1"))
		conf_problem_add(
			c->problems, true, c->conf->path, 0,
			"database \"%s\": \"auth_query\" has no $1, so it cannot ask for one user",
			d->name);
	if (d->auth_query && !may_look_up(c->conf))
		conf_problem_add(
			c->problems, true, c->conf->path, 0,
			"database \"%s\": \"auth_query\" has no effect without \"auth_user\"",
			d->name);
	if (d->host_count == 1 && is_socket_dir(d->host) && !fits_socket(d->host, d->hosts[0].port))
		conf_problem_add(
			c->problems, false, c->conf->path, 0,
			"database \"%s\": \"host\" is too long for the name of a Unix socket",
			d->name);
	hosts_check(c->conf, d, c->problems);
	check_database_tls(c, d);
	check_server_login(c, d);
	schemas = d->auth_search_path ? d->auth_search_path : s->auth_search_path;
	if (d->auth_query && !d->auth_dbname && !s->auth_dbname &&
	    lookup_fault(d->auth_query, schemas, fault, sizeof(fault)))
		conf_problem_add(c->problems, true, c->conf->path, 0,
				 "database \"%s\": \"auth_query\" %s", d->name, fault);
	if (d->connect_query && unqualified_name(d->connect_query, false, name, sizeof(name)))
		conf_problem_add(c->problems, true, c->conf->path, 0,
				 "database \"%s\": \"connect_query\" " FOR_SESSIONS, d->name, name);
	if (size > 0 && d->min_pool_size > size)
		conf_problem_add(c->problems, true, c->conf->path, 0,
				 "database \"%s\": \"min_pool_size\" %" PRId64
				 " is above the pool size %" PRId64,
				 d->name, d->min_pool_size, size);
}

/* Whether a server on another machine can be logged in to without channel binding. */
static bool may_relay(const struct conf *conf, const struct conf_database *d)
{
	int binding = d->channel_binding == CONF_UNSET ? conf->settings.server_channel_binding
						       : d->channel_binding;

	return has_remote(d) &&
	       (binding != CHANNEL_BINDING_REQUIRE ||
		conf_server_tls(&conf->settings, d).sslmode != SSLMODE_VERIFY_FULL);
}

/* Warns if auth_user logs in to several places with one secret: without channel binding, the server
   of one database can pass the SCRAM login of auth_user on to the server of another database. */
static void check_auth_user(const struct checker *c)
{
	const struct conf *conf = c->conf;
	const struct conf_database *first = NULL;
	bool is_same_place;

	if (!conf->settings.auth_user || conf->settings.auth_dbname)
		return;
	for (size_t i = 0; i <= conf->database_count; i++) {
		const struct conf_database *d = i < conf->database_count ? conf->databases[i]
									 : conf->fallback;

		if (!d || d->auth_user || d->auth_dbname)
			continue;
		is_same_place = first && strcmp(first->port, d->port) == 0 &&
				(first->host == d->host ||
				 (first->host && d->host && strcmp(first->host, d->host) == 0));
		if (first && !is_same_place && (may_relay(conf, first) || may_relay(conf, d))) {
			SAY(c, true, "auth_user",
			    "the servers of \"%s\" and \"%s\" can pass on logins of \"auth_user\" "
			    "to one another: set "
			    "\"auth_dbname\", an \"auth_user\" for each, or "
			    "\"server_channel_binding\" require with \"server_tls_sslmode\" "
			    "verify-full",
			    first->name, d->name);
			return;
		}
		first = first ? first : d;
	}
}

/* Adds the files that settings name, and that other users must not change, to conf->files. False:
   no memory. */
static bool note_files(struct conf *conf, const struct setting_place *places, struct arena *arena)
{
	for (size_t i = 0; i < setting_table.count; i++) {
		const struct value_row *row = &setting_table.rows[i];
		struct conf_file f = { .setting = row->row.name,
				       .file = places[i].file,
				       .line = places[i].line };

		if (!setting_guards_file(f.setting, &f.is_secret))
			continue;
		f.path = value_text(row, &conf->settings, NULL, 0);
		if (*f.path && !access_note_file(&conf->files, &f, arena))
			return false;
	}
	return true;
}

bool check_whole(struct conf *conf, const struct setting_place *places, struct arena *arena,
		 struct conf_problems *problems)
{
	const struct checker checker = { conf, places, problems }, *c = &checker;
	const struct conf_database *without_user = NULL;
	const struct settings *s = &conf->settings;
	char why[512];

	/* after a SET only the file that the setting names */
	for (const struct value_row *row = setting_table.rows;
	     row < setting_table.rows + setting_table.count; row++)
		if (!conf->set || strcmp(row->row.name, conf->set) == 0)
			check_file(c, row);
	check_tls(c);
	check_login(c);
	check_names(c);
	check_tracked(c);
	/* PgBouncer's settings that have no effect in pgweir are accepted with a warning. */
	if (check_place_of(c, "job_name").line > 0)
		SAY(c, true, "job_name", "\"%s\" has no effect here", "job_name");
	if (s->unix_socket_dir && !fits_socket(s->unix_socket_dir, s->listen_port))
		SAY(c, false, "unix_socket_dir",
		    "\"unix_socket_dir\" is too long: with /.s.PGSQL.%" PRId64
		    " behind it, it must stay below %zu bytes",
		    s->listen_port, SUN_PATH_SIZE);
	if (s->patroni && conf_url_list_fault(s->patroni, why, sizeof(why)))
		SAY(c, false, "patroni", "\"patroni\": %s", why);
	if (s->patroni_user && strchr(s->patroni_user, ':'))
		SAY(c, false, "patroni_user",
		    "\"patroni_user\" has a colon, which HTTP cannot tell from the password");
	if (conf->peer_count > 0 && s->peer_id == 0)
		SAY(c, true, "peer_id", "[peers] has no effect while \"peer_id\" is 0");
	if (s->default_pool_size > 0 && s->min_pool_size > s->default_pool_size)
		SAY(c, true, "min_pool_size",
		    "\"min_pool_size\" %" PRId64 " is above \"default_pool_size\" %" PRId64,
		    s->min_pool_size, s->default_pool_size);
	check_auth_user(c);
	for (size_t i = 0; i <= conf->database_count; i++) {
		const struct conf_database *d = i < conf->database_count ? conf->databases[i]
									 : conf->fallback;

		if (!d)
			continue;
		check_database(c, d);
		if (!without_user && !d->user)
			without_user = d;
	}
	if (s->auth_type == AUTH_ANY && without_user)
		SAY(c, true, "auth_type",
		    "\"auth_type\" any needs a \"user\" in each database, and \"%s\" has "
		    "none",
		    without_user->name);
	return !places || note_files(conf, places, arena);
}
