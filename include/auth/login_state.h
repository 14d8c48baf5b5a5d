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
 * A client's login, from the first byte to ReadyForQuery. Data that only a login needs is in struct
 * login and its arena, which is wiped when the login ends.
 */
enum login_step {
#define LOGIN_STEP(id, waits_for, part, moves) LOGIN_##id,
#include "tbl/login_step.tbl"
#undef LOGIN_STEP
};

/* The state of the search for the client's user. */
enum login_user {
	/* the method needs no user, or the search has not begun or failed */
	USER_NOT_SOUGHT,
	USER_LISTED,			/* in the user list */
	/* not in the user list; auth_query was asked and has not answered */
	USER_LOOKED_UP,
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
	/* the client's address, until the client is authenticated */
	struct client_address *address;
	struct list address_node;	/* of `address` */
	/* of struct client_addresses: in a step in which the client has to send something */
	struct list waited_for_node;
	enum pg_replication replication;
	enum auth_type method;		/* chosen by auth_begin; never AUTH_HBA then */
	/* auth_type hba: the rules in force when the method was chosen (held) */
	struct hba *hba;
	const struct hba_rule *rule;	/* the matching rule; NULL: none */
	struct arena *arena;
	const struct params *asked;	/* parameters of the start-up packet */
	/* while the packet is parsed: the tracked parameters by index, in the packet or the arena;
	   NULL: absent */
	const char **values;
	/* while the packet is parsed: the untracked parameters, at most PARAMS_OTHERS_MOST */
	struct params_pair *others;
	size_t other_count;
	/* while the packet is parsed, with application_name_add_host; NULL: none yet */
	char *application_name;
	/* the secret from the user list or from auth_query ("": the user exists without a secret);
	   NULL: the user is unknown, and the login fails in the end */
	const struct secret *stored;
	struct secret *stored_copy;	/* owned: the list may be reloaded during the login */
	struct secret *old;		/* a second valid secret from the list; owned; NULL: none */
	struct lookup_wait wait;
	enum login_user sought;
	/* USER_FOUND: the number of the answer (lookups->answers) */
	uint64_t answer;
	/* the server that answered the look-up; NULL: none, or it does not have the database */
	struct unknown_source *source;
	/* of the values that are made up for an unknown user (unknown.c) */
	uint8_t unknown_key[SHA256_SIZE];
	bool has_unknown_key;
	enum login_question question;
	/* LOGIN_HEADER: bytes of the header that have not arrived and are skipped */
	size_t header_left;
	/* the load balancer that has sent a header of the PROXY protocol; family 0: none */
	struct brief_address sender;
	bool ssl_asked, gss_asked;	/* one SSLRequest and one GSSENCRequest per connection */
	bool direct;			/* the connection began with TLS, without an SSLRequest */
	struct tls_context *tls;	/* LOGIN_TLS...: the context of the handshake (held) */
	struct verify_place handshake;	/* LOGIN_TLS_TURN, LOGIN_TLS */
	struct bytes hello;		/* LOGIN_TLS_TURN, direct: the bytes read so far */
	uint8_t md5_salt[4];		/* QUESTION_MD5 */
	struct scram_verifier scram;	/* QUESTION_SCRAM */
	/* replication: start-up parameters for the client's server: name\0value\0 ... */
	struct bytes kept;
	int kept_pairs;
	/* AUTH_LDAP: of the rule, or in the arena; NULL before the password request */
	const struct ldap_options *ldap;
	struct verify_check *check;	/* LOGIN_VERIFY */
	struct derivation_wait derivation;	/* LOGIN_DERIVE */
	/* LOGIN_DERIVE: where the derived key is kept, with the salt and the count below; NULL: the
	   secret is made up */
	struct server_keys *derived_for;
	uint8_t derived_salt[MOCK_SALT];
	uint32_t derived_iterations;
	struct secret *password;	/* LOGIN_VERIFY, LOGIN_DERIVE: the password to check */
	struct list refusal_node;	/* LOGIN_REFUSED: of struct refusals */
	enum close_reason refusal;	/* LOGIN_REFUSED: the reason for the client */
	usec_t refused_at;		/* LOGIN_REFUSED: monotonic: when the refusal is sent */
	/* unsent messages, sent with the next request, or with the welcome */
	struct bytes out;
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
	uint8_t *took = &c->login_facts.took[login_step_part(c->login->step)];

	if (c->peer.world->now > c->login->step_since)
		*took = (uint8_t)latency_bucket((usec_t)latency_bucket_value(*took) +
						c->peer.world->now - c->login->step_since);
}
/* The only writer of login->step (login_state.c): asserts that the table allows the move. */
void login_step_to(struct client *client, enum login_step step);
/* Returns the reason of the client's delayed refusal; `otherwise` if there is none. */
static inline enum close_reason refusal_or(const struct client *c, enum close_reason otherwise)
{
	return c->login && c->login->step == LOGIN_REFUSED ? c->login->refusal : otherwise;
}
/* Whether the user is not in the user list, and auth_query was asked for it. */
static inline bool login_user_was_looked_up(const struct login *l)
{
	return l->sought == USER_LOOKED_UP || l->sought == USER_FOUND ||
	       l->sought == USER_NOT_FOUND;
}

#endif
