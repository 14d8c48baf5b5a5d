#ifndef CONF_SETTINGS_H
#define CONF_SETTINGS_H

#include "base/clock.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* a number is unset in the entry of a database or user: the next higher level applies */
#define CONF_UNSET (-1)

/*
 * The settings of [pgbouncer] / [pgweir]: one row each in include/tbl/settings.tbl,
 *
 * SETTING(name, TYPE, default as text, least, most, words of an enum or NULL, applies, scope,
 * "paragraph")
 *
 * The rows generate the members of struct settings, the parser, SHOW CONFIG, SET, the sample ini
 * and pgweir(5). `applies` says when a change takes effect: see enum setting_applies. `scope` is a
 * set of GLOBAL, DATABASE, USER: where else the name may be set. The types and their C types:
 */
typedef bool setting_BOOL;		/* 0 1 yes no on off true false */
typedef int64_t setting_COUNT;		/* whole number from least to most */
typedef int64_t setting_OCTAL;		/* as 0777 */
/* "120", "0.5"; stored in microseconds; bounds in seconds */
typedef usec_t setting_SECONDS;
typedef int64_t setting_MILLIS;		/* whole milliseconds */
typedef int64_t setting_FRACTION;	/* "0.25"; stored in millionths */
typedef int64_t setting_POLLING;	/* whole microseconds, off (0) or auto (SETTING_AUTO) */
typedef const char *setting_TEXT;	/* NULL when empty, unless the default says otherwise */
/* "" is stored as "" (no query); "<empty>" is an empty query */
typedef const char *setting_SQL;
typedef const char *setting_PATH;
typedef const char *setting_NAMES;	/* comma-separated list, stored as text */
/* a port, or a comma-separated list of ports, stored as text */
typedef const char *setting_PORTS;
/* a comma-separated list of networks (conf/networks.h), stored as text */
typedef const char *setting_NETWORKS;
typedef struct secret *setting_SECRET;	/* a text, which is never shown; NULL when empty */
typedef int setting_ENUM;		/* index into the row's words */
typedef int setting_METHODS;		/* list of authentication methods: see enum server_method */

#define SETTING_AUTO (-2)
#define FRACTION_ONE 1000000

struct settings {
#define SETTING(name, type, ...) setting_##type name;
#include "tbl/settings.tbl"
#undef SETTING
};

/* The words of enums, in the order of the table's word lists. */
enum pool_mode { MODE_SESSION, MODE_TRANSACTION, MODE_STATEMENT };
enum session_link { LINK_FIRST_QUERY, LINK_LOGIN };
enum session_state { STATE_OFF, STATE_FULL };
enum auth_type {
#define AUTH_METHOD(id, ...) AUTH_##id,
#include "tbl/auth_method.tbl"
#undef AUTH_METHOD
	AUTH_METHODS
};
enum auth_needs {
	AUTH_NEEDS_NOTHING = 0,
	AUTH_NEEDS_USER = 1,		/* the user must be in auth_file or found by auth_query */
	AUTH_NEEDS_SECRET = 2,		/* the proof is checked with the user's secret */
	/* PAM or LDAP checks a password in clear text; the user's secret is not used */
	AUTH_NEEDS_VERIFIER = 4,
	AUTH_NEEDS_PROCESS = 8,		/* a login may wait for a process of the room verify */
	AUTH_NEEDS_CERTIFICATE = 16,	/* the client must show a certificate over TLS */
	AUTH_NEEDS_UNIX_SOCKET = 32
};
/* A row of tbl/auth_method.tbl. */
struct auth_method {
	/* in auth_type, "" if not there; in auth_hba_file, NULL if not there */
	const char *word, *keyword;
	unsigned needs;			/* enum auth_needs */
	/* the library that this build does not have, "PAM" or "LDAP"; NULL: nothing is missing */
	const char *lacks;
};
extern const struct auth_method auth_methods[AUTH_METHODS];	/* by enum auth_type */
enum sslmode {
	SSLMODE_DISABLE,
	SSLMODE_ALLOW,
	SSLMODE_PREFER,
	SSLMODE_REQUIRE,
	SSLMODE_VERIFY_CA,
	SSLMODE_VERIFY_FULL
};
enum channel_binding { CHANNEL_BINDING_DISABLE, CHANNEL_BINDING_PREFER, CHANNEL_BINDING_REQUIRE };
enum sslnegotiation { SSLNEGOTIATION_POSTGRES, SSLNEGOTIATION_DIRECT };
enum protocol_version { PROTOCOL_3_0, PROTOCOL_3_2, PROTOCOL_LATEST };
enum load_balance { BALANCE_ROUND_ROBIN, BALANCE_DISABLE, BALANCE_LEAST };
/* The role that the servers of a client must have, in the words of libpq. */
enum target {
	TARGET_ANY,
	TARGET_READ_WRITE,
	TARGET_READ_ONLY,
	TARGET_PRIMARY,
	TARGET_STANDBY,
	TARGET_PREFER_STANDBY,
	/* in no configuration: the requests that the key `reads` sends to any fresh host */
	TARGET_READ
};
enum reads { READS_OFF, READS_TRANSACTION, READS_AUTO };
enum reads_on_primary { PRIMARY_READS, PRIMARY_IS_SPARED };
enum read_your_writes { READ_OF_SESSION, READ_OF_DATABASE, READ_OFF };
enum log_format { LOG_FORMAT_TEXT, LOG_FORMAT_JSON };
enum client_gone { CLIENT_GONE_CANCEL, CLIENT_GONE_FINISH, CLIENT_GONE_CLOSE };
enum server_down { SERVER_DOWN_WAIT, SERVER_DOWN_FAIL };
enum setting_words {
	WORDS_POOL_MODE,
	WORDS_SESSION_LINK,
	WORDS_SESSION_STATE,
	WORDS_LOAD_BALANCE,
	WORDS_SSLMODE,
	WORDS_TARGET
};
/* Returns the word for a value of one of these enums; NULL for CONF_UNSET. */
const char *setting_word(enum setting_words words, int value);

/* When a change of a setting takes effect. The tables omit APPLIES_. */
enum setting_applies {
	APPLIES_START,			/* restart of the process */
	APPLIES_NOW,			/* RELOAD or SET */
	/* RELOAD or SET, and server connections are replaced when no client uses them */
	APPLIES_SERVERS,
	/* the same, except for Unix sockets, which do not use TLS */
	APPLIES_TCP_SERVERS,
};

/* A row as data, for SHOW CONFIG, --print-config, the manual and the sample. */
struct setting_row {
	const char *name, *type, *default_text, *words, *paragraph;
	int64_t least, most;
	enum setting_applies applies;
	/* SCOPE_GLOBAL | SCOPE_DATABASE | SCOPE_USER | SCOPE_PEER */
	unsigned scope;
};
enum { SCOPE_GLOBAL = 1, SCOPE_DATABASE = 2, SCOPE_USER = 4, SCOPE_PEER = 8 };

/*
 * Authentication methods that a server may ask for, with the words of libpq's require_auth
 * (PostgreSQL 16). A list of methods is one number: bit i means that method i is listed,
 * METHODS_FORBIDDEN that the words have a `!` in front. The empty list is CONF_UNSET.
 */
enum server_method {
	METHOD_PASSWORD,
	METHOD_MD5,
	METHOD_GSS,
	METHOD_SSPI,
	METHOD_SCRAM,
	METHOD_NONE,
	SERVER_METHODS
};
#define METHODS_FORBIDDEN (1 << SERVER_METHODS)

/* Writes the words of the list, separated by commas, to buf. Returns buf. */
const char *methods_text(int64_t list, char *buf, size_t size);
/* Whether the list allows this method. The empty list allows every method; a list with `password`
   also allows `none`. */
bool methods_allow(int list, enum server_method method);
/* Whether the list names this method as allowed, without a `!`. The empty list names no method. */
static inline bool methods_name(int list, enum server_method method)
{
	return list != CONF_UNSET && !(list & METHODS_FORBIDDEN) && list >> method & 1;
}

#define METHODS_ACCEPTED \
	"words out of password, md5, gss, sspi, scram-sha-256, none with commas between, all or " \
	"none of them with a ! in front"

#endif
