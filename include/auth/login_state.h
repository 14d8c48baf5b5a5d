#ifndef AUTH_LOGIN_STATE_H
#define AUTH_LOGIN_STATE_H

#include "auth/lookup.h"
#include "backend/derivation.h"
#include "conf/hba.h"
#include "conn/world.h"
#include "pg/scram.h"
#include "pg/startup.h"

/*
 * A client's login, from the first byte to ReadyForQuery. What only a login needs lives in struct login and its arena, which is
 * wiped when the login ends.
 */
enum login_step {
	LOGIN_PACKET,			/* a start-up packet comes */
	LOGIN_TLS_HELLO,		/* TLS was promised, and the client's hello comes (handshake.c) */
	LOGIN_TLS_TURN,			/* the hello is here, and the handshake waits for its turn */
	LOGIN_TLS,			/* handshake; its next step may wait for a turn, too */
	LOGIN_LOOKUP,			/* auth_query is to find the user's secret */
	LOGIN_PASSWORD,			/* PasswordMessage: plain or md5 */
	LOGIN_SASL_FIRST,		/* SASLInitialResponse */
	LOGIN_SASL_FINAL,		/* SASLResponse */
	LOGIN_VERIFY,			/* PAM or LDAP has been asked, or a key is derived */
	LOGIN_REFUSED,			/* has failed; the refusal waits (refusal.c) */
	LOGIN_PROVEN			/* waits for the parameters of a server */
};

struct login {
	union {				/* both in the arena; NULL before the start-up packet */
		struct client_names names;
		struct { char *user, *database; };
	};
	struct client *client;		/* the client it belongs to */
	enum login_step step;		/* set by login_step_to ... */
	usec_t step_since;		/* ... then */
	struct client_address *address;		/* the address that it comes from, until the client is authenticated ... */
	struct list address_node;	/* ... on its list */
	struct list waited_for_node;	/* of struct client_addresses: in a step in which the client has to send something */
	enum pg_replication replication;
	enum auth_type method;		/* how it has to prove itself, once auth_begin has chosen; never AUTH_HBA then */
	struct hba *hba;		/* auth_type hba: the rules that were asked (held) */
	const struct hba_rule *rule;	/* the one of them that holds; NULL: none does */
	struct arena *arena;
	const struct params *asked;	/* tracked parameters in the start-up packet */
	const char **values;		/* theirs while it is read, by index, in the packet or the arena; NULL: absent */
	char *application_name;		/* the same, with application_name_add_host; NULL: none yet */
	const struct secret *stored;	/* what the user list has, or auth_query has found ("": the user is known and has
					   none); NULL: unknown user; its login fails in the end */
	struct secret *stored_copy;	/* owned: the list may be read anew meanwhile */
	struct lookup_wait wait;
	bool is_unknown;			/* no such user: neither listed nor found */
	bool looked_up;			/* the user is not in the user list, and was asked for with auth_query ... */
	bool found;			/* ... which knows the user ... */
	uint64_t answer;		/* ... as of this answer (world->lookup_answers) */
	struct unknown_source *source;	/* the server that has answered; NULL: none has been asked, or it does not have the database */
	struct mock_name mock_name;	/* what is made up for the user, if it is unknown (unknown.c) */
	bool has_mock_name;
	bool md5;			/* LOGIN_PASSWORD: the answer to AuthenticationMD5Password */
	bool ssl_asked, gss_asked;	/* one SSLRequest and one GSSENCRequest per connection */
	bool direct;			/* it began with TLS, without an SSLRequest */
	struct tls_context *tls;	/* LOGIN_TLS...: what was promised, held */
	struct verify_place handshake;	/* LOGIN_TLS_TURN, LOGIN_TLS */
	struct bytes hello;		/* LOGIN_TLS_TURN, direct: what has been read of it */
	uint8_t md5_salt[4];
	struct scram_verifier scram;
	bool scram_begun;
	struct bytes kept;		/* start-up parameters for its own server (replication): name\0value\0 ... */
	int kept_pairs;
	struct bytes untracked;		/* ParameterStatus messages of that server */
	const struct ldap_options *ldap;	/* AUTH_LDAP: of the rule, or in the arena; NULL before the question is asked */
	struct verify_check *check;	/* LOGIN_VERIFY */
	struct derivation_wait derivation;	/* LOGIN_VERIFY: or this is waited for (derive.c) ... */
	struct server_keys *derived_for;	/* ... to be kept here, with this salt and count; NULL: it is that of a made-up secret */
	uint8_t derived_salt[MOCK_SALT];
	uint32_t derived_iterations;
	struct secret *password;	/* LOGIN_VERIFY: what is asked about */
	struct list refusal_node;	/* LOGIN_REFUSED: on world->refusals */
	enum close_reason refusal;		/* ... what it is to be told ... */
	usec_t refused_at;		/* ... then */
	struct bytes out;		/* goes out with the next thing said */
};

/* The only writer of login->step. */
void login_step_to(struct client *client, enum login_step step);

#endif
