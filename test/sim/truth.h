#ifndef SIM_TRUTH_H
#define SIM_TRUTH_H

#include "base/clock.h"
#include "pg/scram.h"

/*
 * The users that may log in: their names, their passwords, and the stored secrets in the user list or in the servers of a cluster; and the answers to
 * look-ups, with their time. A password has a generation: it may be changed while clients log in.
 */

#define TRUTH_GENERATIONS 12
#define TRUTH_NOBODY (-1)		/* in place of a user: an unknown user */
#define TRUTH_PASSWORD 48

/* How a client is asked to prove its user. */
enum proof { PROOF_NONE, PROOF_PLAIN, PROOF_MD5, PROOF_SCRAM };

/* Draws the secrets of a world and writes the user list. */
void truth_begin(void);
void truth_end(void);
/* No password is changed any more. */
void truth_calm(void);

/* The cluster that knows a database, by the name on the server ("db2"; "": physical replication, any of them). */
int truth_cluster(const char *dbname);
/* The user with the name "u1"; TRUTH_NOBODY: none. */
int truth_user(const char *name);
uint32_t truth_generation(int cluster, int user);
void truth_password(int cluster, int user, uint32_t generation, char password[TRUTH_PASSWORD]);
/* The stored secret, which a look-up returns. */
const char *truth_secret(int cluster, int user);
/* The secret that a server verifies with. */
void truth_scram(int cluster, int user, struct scram_secret *secret);
/* How servers ask this user: so that the pooler can answer. */
enum proof truth_server_asks(int user);
/* Some password has been changed in this world. */
bool truth_has_changed(void);

/* A client sends a proof of this password, for this database. From now on the pooler may believe in it. */
void truth_sends_proof(int database, int user, int generation);
/* ... and has been answered: the pooler does, or does not. Without an answer this stays in doubt. */
void truth_is_told(int database, int user, int generation);
/* A client has proven this password to the pooler, for this database ... */
void truth_shown(int database, int user, uint32_t generation);
/*
 * Returns whether the current generation has been shown since before this moment, without doubt about others: then the pooler knows the secret for a
 * server of the database.
 */
bool truth_is_shown(int database, int user, usec_t before);

/*
 * A look-up of this user is answered now: with the right row; with a row with the name and another secret; with no row; with an answer that makes the
 * look-up fail.
 */
enum truth_answer { TRUTH_RIGHT, TRUTH_NAMED, TRUTH_NONE, TRUTH_FAILURE };
void truth_answered(int cluster, int user, enum truth_answer answer);

/* ---- judging: of a login that began at this moment ---- */

/* May this user be let in, having proven the password of this generation (-1: a wrong one) or nothing? */
bool truth_may_come(int cluster, int user, enum proof proof, int generation, usec_t began);
/* May it be told that its proof is wrong? */
bool truth_may_be_wrong(int cluster, int user, enum proof proof, int generation, usec_t began);
/* May it be told that looking up does not work? */
bool truth_may_fail(int cluster, int user, usec_t began);

#endif
