#ifndef CONF_CONF_H
#define CONF_CONF_H

#include "base/mem.h"
#include "conf/ldap.h"
#include "conf/problem.h"
#include "conf/settings.h"

/*
 * A configuration is an immutable, reference-counted snapshot of the ini file. RELOAD reads and
 * checks the whole file, and then the caller replaces one pointer. A file with an error gives no
 * snapshot, only problems.
 */

/* A host of the list of a database. */
struct conf_host {
	/* a name, an address or a socket directory; NULL: unix_socket_dir, or /tmp */
	const char *name;
	int port;
	unsigned weight;		/* for readers; 1 unless the list has another weight */
};
struct conf_database {
	const char *name;		/* "*" for the fallback */
	const char *dbname;		/* NULL: the name that the client asked for */
	/* as in the file: NULL: Unix socket in the default directory; may be a comma list */
	const char *host;
	const char *port;		/* as in the file: a number, or a comma list */
	struct conf_host *hosts;	/* made from `host` and `port`; at least one */
	unsigned host_count;
	const char *user;		/* forced user, or NULL */
	struct secret *password;	/* may be NULL */
	const char *password_file;	/* the file that `password` comes from; may be NULL */
	const char *auth_user, *auth_dbname, *auth_query, *auth_search_path;
	const char *connect_query;
	/* start-up parameters for the server; may be NULL */
	const char *client_encoding, *datestyle, *timezone, *application_name;
	/* or CONF_UNSET */
	int64_t pool_size, min_pool_size, reserve_pool_size, max_db_connections,
		max_db_client_connections, max_pinned;
	usec_t server_lifetime, query_wait_timeout, pinned_idle_timeout;	/* or CONF_UNSET */
	int pool_mode, session_link, session_state;	/* or CONF_UNSET */
	int load_balance_hosts;		/* or CONF_UNSET */
	int target_session_attrs;	/* enum target, or CONF_UNSET */
	int reads;			/* enum reads */
	const char *read_functions;	/* list of names; may be NULL */
	int reads_on_primary;		/* enum reads_on_primary */
	int read_your_writes;		/* or CONF_UNSET */
	usec_t max_lag;			/* or CONF_UNSET */
	const char *patroni;		/* list of URLs (conf/url.h); NULL: as in the settings */
	int max_protocol_version, sslnegotiation, channel_binding, sslmode;	/* or CONF_UNSET */
	/* NULL: as in the settings; see conf_server_tls() */
	const char *sslrootcert, *sslcert, *sslkey, *sslcrl;
	int require_auth;		/* list of methods (conf/settings.h), or CONF_UNSET */
	const char *file;		/* the place of the entry, for problems */
	int line;
};
struct conf_user {
	const char *name;
	const char *password_file, *old_password_file;	/* may be NULL */
	struct secret *secret, *old_secret;		/* from these files; NULL: none */
	/* or CONF_UNSET */
	int64_t pool_size, reserve_pool_size, max_user_connections, max_user_client_connections,
		max_pinned;
	/* or CONF_UNSET */
	usec_t client_idle_timeout, idle_transaction_timeout, query_timeout, query_wait_timeout,
		transaction_timeout, pinned_idle_timeout;
	int pool_mode, session_link, session_state;	/* or CONF_UNSET */
	int target_session_attrs;	/* enum target, or CONF_UNSET */
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
	/* auth_ldap_options; NULL: not set, or not usable */
	const struct ldap_options *ldap;
	const char *path;
	/* the setting or key that SET has changed; NULL: all values come from the file */
	const char *set;
	/* the files that it was read from and that its settings name: see problem.h */
	struct conf_file *files;
	struct conf_database **databases;	/* in the order of the file, without "*" */
	size_t database_count;
	struct conf_database *fallback;		/* "*", or NULL */
	struct conf_user **users;
	size_t user_count;
	struct conf_peer **peers;
	size_t peer_count;
	/* rules of auth_type hba (held); NULL until conf_read_rules, and for other types */
	struct hba *hba;
	/* owns everything above, and this structure itself */
	struct conf_storage *storage;
};

/* Reads a file and its %include files and checks every value, the readability of the files that
   settings name, and contradictions. Adds every problem, not only the first. Returns NULL if one of
   them is an error, or without memory. Release with conf_drop. */
struct conf *conf_load(const char *path, struct conf_problems *problems);
static inline struct conf *conf_hold(struct conf *conf)
{
	conf->references++;
	return conf;
}
void conf_drop(struct conf **conf);
/* Returns a copy of `conf` with one setting changed (SET), or a number or word of an entry in
   [databases]: "shop.pool_size". NULL with a problem: unknown name, value not accepted, or the
   setting needs a restart. The copy shares the HBA rules of `conf`, unless they depend on the
   setting. */
struct conf *conf_with(struct conf *conf, const char *name, const char *value,
		       struct conf_problems *problems);
/* Whether the setting is a client_tls_... or server_tls_... setting that names a file. SET changes
   them one after the other, so they need not fit together. */
bool conf_is_tls_file(const char *setting);
/* Copies settings that need a restart from `running` to `fresh`, which no other code may use yet.
   Adds a warning for each difference, and an error without memory: `fresh` must not be used
   then. */
void conf_keep_fixed(struct conf *fresh, const struct conf *running,
		     struct conf_problems *problems);

/* Reads the HBA rules for auth_type hba into conf->hba, which must not be shared yet; other types
   have no rules. An unusable line is an error, and the rules in force stay. With `is_start`, and if
   `running` (may be NULL) has the same faulty lines already, it is a warning: a faulty line of the
   HBA file refuses every login that it could concern, and a faulty line of the ident file is
   skipped. False: an error was added. */
bool conf_read_rules(struct conf *conf, const struct conf *running, bool is_start,
		     struct conf_problems *problems);

struct ini_line;
struct value_table;
/* Parses the list of a database, user or peer into `object`, which is set to the defaults first.
   Adds every problem. Modifies `line->value`. *has_password: the line contains a password. False:
   no memory. */
bool entry_read(const struct value_table *table, void *object, const struct ini_line *line,
		struct arena *arena, bool *has_password, struct conf_problems *problems);

/* Returns the URLs of Patroni for the database; NULL: none. */
const char *conf_patroni_of(const struct conf *conf, const struct conf_database *database);
/*
 * Returns the role (enum target) that clients of the database ask for if neither they nor [users]
 * name one: the entry's target_session_attrs. Without it, an entry with the hosts of a cluster of
 * Patroni is for the primary: it names Patroni itself, or it names no host and [pgbouncer] names
 * Patroni. An entry with hosts of its own may be another server beside the cluster, so a Patroni of
 * [pgbouncer] gives it no role.
 */
int64_t conf_target_of(const struct conf *conf, const struct conf_database *database);
/* Whether clients of the database may ask for a role by the configuration. */
bool conf_asks_for_roles(const struct conf *conf, const struct conf_database *database);

/* TLS with the servers of a database: its own values, or the values of the settings. */
struct conf_server_tls {
	bool is_own;			/* the database has a value of its own */
	int sslmode;			/* enum sslmode */
	const char *ca_file, *cert_file, *key_file, *crl_file;	/* NULL: none */
};
struct conf_server_tls conf_server_tls(const struct settings *s,
				       const struct conf_database *database);

/* PostgreSQL truncates longer names of users and databases in a start-up packet (NAMEDATALEN -
   1). */
#define CONF_NAME_MOST 63
/* Looks up an exact name in a hash table. Returns NULL if unknown, never the fallback. */
const struct conf_database *conf_database_find(const struct conf *conf, const char *name);
const struct conf_user *conf_user_find(const struct conf *conf, const char *name);

#endif
