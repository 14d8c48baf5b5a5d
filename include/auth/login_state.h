#ifndef AUTH_LOGIN_STATE_H
#define AUTH_LOGIN_STATE_H

#include "auth/lookup.h"
#include "backend/derivation.h"
#include "conf/hba.h"
#include "conn/world.h"
#include "pg/password.h"
#include "pg/scram.h"
#include "pg/startup.h"

/*
 * A client's login, from the first byte to ReadyForQuery. Data that only a login needs is in struct login and its arena, which is wiped
 * when the login ends.
 */
enum login_step {
#define LOGIN_STEP(id, waits_for, part, moves) LOGIN_##id,
#include "tbl/login_step.tbl"
#undef LOGIN_STEP
};

/* The state of the search for the client's user. */
enum login_user {
	USER_NOT_SOUGHT,		/* the method needs no user, or the search has not begun or failed */
	USER_LISTED,			/* in the user list */
	USER_LOOKED_UP,			/* not in the user list; auth_query was asked and has not answered */
	USER_FOUND,			/* auth_query knows the user */
	USER_NOT_FOUND,			/* auth_query does not know the user */
	USER_NOT_LISTED			/* not in the user list, and no auth_query is configured */
};

/* The request that the client has got. */
enum login_question { QUESTION_NONE, QUESTION_PASSWORD, QUESTION_MD5, QUESTION_SCRAM };

struct login {
	union {				/* both in the arena; NULL before the start-up packet */
		struct client_names names;
		struct { char *user, *database; };
	};
	struct client *client;
	enum login_step step;		/* written by login_step_to only */
	usec_t step_since;		/* monotonic: when the step began */
	struct client_address *address;		/* the client's address, until the client is authenticated */
	struct list address_node;	/* of `address` */
	struct list waited_for_node;	/* of struct client_addresses: in a step in which the client has to send something */
	enum pg_replication replication;
	enum auth_type method;		/* chosen by auth_begin; never AUTH_HBA then */
	struct hba *hba;		/* auth_type hba: the rules in force when the method was chosen (held) */
	const struct hba_rule *rule;	/* the matching rule; NULL: none */
	struct arena *arena;
	const struct params *asked;	/* parameters of the start-up packet */
	const char **values;		/* while the packet is parsed: the tracked parameters by index, in the packet or the arena; NULL: absent */
	struct params_pair *others;	/* while the packet is parsed: the untracked parameters, at most PARAMS_OTHERS_MOST */
	size_t other_count;
	char *application_name;		/* while the packet is parsed, with application_name_add_host; NULL: none yet */
	const struct secret *stored;	/* the secret from the user list or from auth_query ("": the user exists without a secret); NULL: the user
					   is unknown, and the login fails in the end */
	struct secret *stored_copy;	/* owned: the list may be reloaded during the login */
	struct secret *old;		/* a second valid secret from the list; owned; NULL: none */
	struct lookup_wait wait;
	enum login_user sought;
	uint64_t answer;		/* USER_FOUND: the number of the answer (lookups->answers) */
	struct unknown_source *source;	/* the server that answered the look-up; NULL: none, or it does not have the database */
	uint8_t unknown_key[SHA256_SIZE];	/* of the values that are made up for an unknown user (unknown.c) */
	bool has_unknown_key;
	enum login_question question;
	bool ssl_asked, gss_asked;	/* one SSLRequest and one GSSENCRequest per connection */
	bool direct;			/* the connection began with TLS, without an SSLRequest */
	struct tls_context *tls;	/* LOGIN_TLS...: the context of the handshake (held) */
	struct verify_place handshake;	/* LOGIN_TLS_TURN, LOGIN_TLS */
	struct bytes hello;		/* LOGIN_TLS_TURN, direct: the bytes read so far */
	uint8_t md5_salt[4];		/* QUESTION_MD5 */
	struct scram_verifier scram;	/* QUESTION_SCRAM */
	struct bytes kept;		/* replication: start-up parameters for the client's server: name\0value\0 ... */
	int kept_pairs;
	const struct ldap_options *ldap;	/* AUTH_LDAP: of the rule, or in the arena; NULL before the password request */
	struct verify_check *check;	/* LOGIN_VERIFY */
	struct derivation_wait derivation;	/* LOGIN_DERIVE */
	struct server_keys *derived_for;	/* LOGIN_DERIVE: where the derived key is kept, with the salt and the count below; NULL: the secret is
						   made up */
	uint8_t derived_salt[MOCK_SALT];
	uint32_t derived_iterations;
	struct secret *password;	/* LOGIN_VERIFY, LOGIN_DERIVE: the password to check */
	struct list refusal_node;	/* LOGIN_REFUSED: of struct refusals */
	enum close_reason refusal;	/* LOGIN_REFUSED: the reason for the client */
	usec_t refused_at;		/* LOGIN_REFUSED: monotonic: when the refusal is sent */
	struct bytes out;		/* unsent messages, sent with the next request, or with the welcome */
};

/* Returns the part of the login that a step belongs to. */
static inline enum login_part login_step_part(enum login_step step)
{
	static const uint8_t parts[] = {
#define LOGIN_STEP(id, waits_for, part, moves) [LOGIN_##id] = PART_##part,
#include "tbl/login_step.tbl"
#undef LOGIN_STEP
	};

	return (enum login_part)parts[step];
}
/* The current step is over: adds its time to its part. Each sum is rounded. */
static inline void login_step_took(struct client *c)
{
	uint8_t *took = &c->login_took[login_step_part(c->login->step)];

	if (c->peer.world->now > c->login->step_since)
		*took = (uint8_t)latency_bucket((usec_t)latency_bucket_value(*took) + c->peer.world->now - c->login->step_since);
}
/* The only writer of login->step (client_address.c): asserts that the table allows the move. */
void login_step_to(struct client *client, enum login_step step);
/* Returns the reason of the client's delayed refusal; `otherwise` if there is none. */
static inline enum close_reason refusal_or(const struct client *c, enum close_reason otherwise)
{
	return c->login && c->login->step == LOGIN_REFUSED ? c->login->refusal : otherwise;
}
/* The user is not in the user list, and auth_query was asked for it. */
static inline bool login_user_was_looked_up(const struct login *l)
{
	return l->sought == USER_LOOKED_UP || l->sought == USER_FOUND || l->sought == USER_NOT_FOUND;
}

#endif
