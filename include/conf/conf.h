#ifndef CONF_CONF_H
#define CONF_CONF_H

#include "base/bytes.h"
#include "base/mem.h"
#include "conf/ldap.h"
#include "conf/settings.h"

/*
 * A configuration is an immutable, reference-counted snapshot of the ini file. A RELOAD reads and checks
 * everything, then the caller swaps one pointer; a file with any fault gives no snapshot, only problems.
 */
struct conf_problem {
	char *file;
	int line;			/* 0: not a line's fault */
	char *text;			/* what was found, what is accepted, the nearest known name */
	bool is_warning;		/* said, but the configuration is usable */
	bool is_about_tls;		/* files for TLS that cannot be used; a warning: what was in force stays */
};
struct conf_problems {
	struct conf_problem *items;
	size_t count;
	size_t errors;			/* of them not warnings */
};
void conf_problem_add(struct conf_problems *p, bool is_warning, const char *file, int line, const char *format, ...)
	__attribute__((format(printf, 5, 6)));
/* The same about files for TLS, with "TLS setup failed: " before the text. */
void conf_problem_add_tls(struct conf_problems *p, bool is_warning, const char *file, int line, const char *format, ...)
	__attribute__((format(printf, 5, 6)));
void conf_problems_free(struct conf_problems *p);

#define CONF_UNSET (-1)			/* a number that a database or user leaves to the level above */

struct conf_database {
	const char *name;		/* "*" for the fallback */
	const char *dbname;		/* NULL: same as the name the client asked for */
	const char *host;		/* NULL: Unix socket in the default directory; may be a comma list */
	int port;
	const char *user;		/* forced user, or NULL */
	struct secret *password;	/* or NULL */
	const char *auth_user, *auth_dbname, *auth_query, *auth_search_path;
	const char *connect_query;
	const char *client_encoding, *datestyle, *timezone, *application_name;	/* sent to the server at start-up; or NULL */
	int64_t pool_size, min_pool_size, reserve_pool_size, max_db_connections, max_db_client_connections, max_pinned;	/* or CONF_UNSET */
	usec_t server_lifetime, query_wait_timeout, pinned_idle_timeout;	/* or CONF_UNSET */
	int pool_mode, session_link, session_state;	/* or CONF_UNSET */
	int load_balance_hosts;
	int max_protocol_version, sslnegotiation, channel_binding;	/* or CONF_UNSET */
	int require_auth;		/* list of methods (conf/methods.h), or CONF_UNSET */
};
struct conf_user {
	const char *name;
	int64_t pool_size, reserve_pool_size, max_user_connections, max_user_client_connections, max_pinned;	/* or CONF_UNSET */
	usec_t client_idle_timeout, idle_transaction_timeout, query_timeout, query_wait_timeout, transaction_timeout, pinned_idle_timeout;	/* or CONF_UNSET */
	int pool_mode, session_link, session_state;	/* or CONF_UNSET */
};
struct conf_peer {
	int id;
	const char *host;
	int port;
	int64_t pool_size;		/* or CONF_UNSET */
};

struct conf {
	unsigned references;
	struct settings settings;
	const struct ldap_options *ldap;	/* auth_ldap_options; NULL: none, or of no use */
	const char *path;
	const char *set;			/* name of the setting that SET has changed; NULL: all is as the file says */
	struct conf_file *files;		/* that it was read from, and that its settings name: see access.h */
	struct conf_database **databases;	/* in the order of the file, without "*" */
	size_t database_count;
	struct conf_database *fallback;		/* "*", or NULL */
	struct conf_user **users;
	size_t user_count;
	struct conf_peer **peers;
	size_t peer_count;
	struct hba *hba;			/* rules of auth_type hba (held); NULL until conf_read_rules, and for other types */
	struct conf_storage *storage;		/* owns everything above, and this structure itself */
};

/* Reads a file and its %include files and checks every value, the files that settings name (readability, not contents) and
   what contradicts. Every problem is added, not only the first. NULL when there is an error among them (or no memory).
   A configuration from conf_defaults has no databases. Release with conf_drop. */
struct conf *conf_load(const char *path, struct conf_problems *problems);
/* NULL: no memory. */
struct conf *conf_defaults(void);
struct conf *conf_hold(struct conf *conf);
void conf_drop(struct conf **conf);
/* A new snapshot that is `conf` with one setting changed (SET). NULL with a problem: unknown name, value not
   accepted, or a setting that needs a restart. It shares the rules of `conf`, unless the setting is one that they follow from. */
struct conf *conf_with(struct conf *conf, const char *name, const char *value, struct conf_problems *problems);
/* auth_user of the general settings or of any database has this name. */
bool conf_is_auth_user(const struct conf *conf, const char *user);
/* One of client_tls_... and server_tls_... that name a file: SET exchanges them one after the other, so they need not fit together. */
bool conf_is_tls_file(const char *setting);
/* Keeps in `fresh`, which no other code may know yet, what needs a restart to change as it is in `running`, adding a warning
   for each such difference (and an error, if there is no memory: `fresh` is then not to be used). */
void conf_keep_fixed(struct conf *fresh, const struct conf *running, struct conf_problems *problems);

/* Reads the rules that auth_type hba goes by into conf->hba, which must not be shared yet; other types have none. A line
   that cannot be used is an error, and the rules in force stay. It is a warning when `is_start`, and when `running` (NULL:
   none) has the same lines already: then such a line of the HBA file refuses every login that it could be about, and one of
   the ident file is passed over. False with an error. */
bool conf_read_rules(struct conf *conf, const struct conf *running, bool is_start, struct conf_problems *problems);

/* Exact name, or NULL. Never the fallback. Hashed. */
/* Bytes that PostgreSQL leaves of the name of a user or database (NAMEDATALEN - 1): it cuts a longer one in a start-up packet. */
#define CONF_NAME_MOST 63
const struct conf_database *conf_database_find(const struct conf *conf, const char *name);
const struct conf_user *conf_user_find(const struct conf *conf, const char *name);
/* True when connections made for `a` must not serve `b`: host, port, dbname, user, password or a start-up parameter differ. */
bool conf_database_connects_differently(const struct conf_database *a, const struct conf_database *b);
/* The same things as bytes, which are equal exactly where two databases, also of two processes, connect alike. The password is
   among them. */
void conf_database_pack_connection(struct bytes *out, const struct conf_database *database);

#endif
