#ifndef AUTH_LOGIN_STATE_H
#define AUTH_LOGIN_STATE_H

#include "auth/lookup.h"
#include "backend/derivation.h"
#include "conf/hba.h"
#include "conn/world.h"
#include "pg/mock.h"
#include "pg/scram.h"
#include "pg/startup.h"

/*
 * A client's login, from the first byte to ReadyForQuery. Data that only a login needs is in struct login and its arena, which is wiped
 * when the login ends.
 */
enum login_step {
#define LOGIN_STEP(id, waits_for, moves) LOGIN_##id,
#include "tbl/login_step.tbl"
#undef LOGIN_STEP
};

/* The state of the search for the client's user. */
enum login_user {
	USER_NOT_SOUGHT,		/* nothing: the method does not need it, or looking was not possible */
	USER_LISTED,			/* it is in the user list */
	USER_LOOKED_UP,			/* it is not, and auth_query was asked ... */
	USER_FOUND,			/* ... which knows it */
	USER_NOT_FOUND,			/* ... which does not */
	USER_NOT_LISTED			/* it is not in the list, and there is nothing to look it up with */
};

/* The kind of question that the client was asked. */
enum login_question { QUESTION_NONE, QUESTION_PASSWORD, QUESTION_MD5, QUESTION_SCRAM };

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
	const struct params *asked;	/* parameters in the start-up packet */
	const char **values;		/* of the tracked ones, while it is read, by index, in the packet or the arena; NULL: absent */
	struct params_pair *others;	/* ... and untracked parameters, PARAMS_OTHERS_MOST at most */
	size_t other_count;
	char *application_name;		/* the same, with application_name_add_host; NULL: none yet */
	const struct secret *stored;	/* the secret in the user list or found by auth_query ("": the user exists without a secret); NULL: unknown
					   user; its login fails in the end */
	struct secret *stored_copy;	/* owned: the list may be reloaded during the login */
	struct lookup_wait wait;
	enum login_user sought;
	uint64_t answer;		/* USER_FOUND: as of this answer (lookups->answers) */
	struct unknown_source *source;	/* the server that has answered; NULL: none has been asked, or it does not have the database */
	struct mock_name mock_name;	/* source of the made-up values for an unknown user (unknown.c) */
	bool has_mock_name;
	enum login_question question;
	bool ssl_asked, gss_asked;	/* one SSLRequest and one GSSENCRequest per connection */
	bool direct;			/* it began with TLS, without an SSLRequest */
	struct tls_context *tls;	/* LOGIN_TLS...: the TLS context for the handshake, held */
	struct verify_place handshake;	/* LOGIN_TLS_TURN, LOGIN_TLS */
	struct bytes hello;		/* LOGIN_TLS_TURN, direct: the bytes read so far */
	uint8_t md5_salt[4];		/* QUESTION_MD5 */
	struct scram_verifier scram;	/* QUESTION_SCRAM */
	struct bytes kept;		/* start-up parameters for its own server (replication): name\0value\0 ... */
	int kept_pairs;
	const struct ldap_options *ldap;	/* AUTH_LDAP: of the rule, or in the arena; NULL before the question is asked */
	struct verify_check *check;	/* LOGIN_VERIFY */
	struct derivation_wait derivation;	/* LOGIN_DERIVE ... */
	struct server_keys *derived_for;	/* ... the derived key is stored here, with this salt and count; NULL: it belongs to a made-up
						   secret */
	uint8_t derived_salt[MOCK_SALT];
	uint32_t derived_iterations;
	struct secret *password;	/* LOGIN_VERIFY, LOGIN_DERIVE: the password to check */
	struct list refusal_node;	/* LOGIN_REFUSED: of struct refusals */
	enum close_reason refusal;		/* ... the reason to give to the client ... */
	usec_t refused_at;		/* ... then */
	struct bytes out;		/* goes out with the next thing said */
};

/* The only writer of login->step (client_address.c): asserts that the table allows the move. */
void login_step_to(struct client *client, enum login_step step);
/* The user is not in the user list, and auth_query was asked for it. */
static inline bool login_user_was_looked_up(const struct login *l)
{
	return l->sought == USER_LOOKED_UP || l->sought == USER_FOUND || l->sought == USER_NOT_FOUND;
}

#endif
