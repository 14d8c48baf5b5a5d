#ifndef VERIFY_VERIFIER_H
#define VERIFY_VERIFIER_H

#include "verify/datagram.h"
#include "verify/queue.h"

/*
 * Asynchronous authentication with PAM or LDAP, and key derivation: questions go to a limited
 * number of processes, the verifiers, which are started when they are needed.
 */
struct event_base;
struct verifiers;
struct verify_check;			/* a question without an answer yet */

struct verify_limits {
	int processes;			/* maximum number of processes; at least 1 */
	int waiting;			/* maximum number of waiting questions */
};

/* NULL: no memory. */
struct verifiers *verifiers_new(struct event_base *base, const struct verify_limits *limits);
/* Ends all processes and sets *verifiers to NULL; *verifiers may be NULL. No check may exist. */
void verifiers_free(struct verifiers **verifiers);
/* Sets new limits and replaces the processes, so that the configuration of PAM, LDAP and the
   resolver is read again. Busy processes finish first. */
void verifiers_renew(struct verifiers *verifiers, const struct verify_limits *limits);
/* Called about ten times a second: reaps processes that have ended, and ends processes that were
   idle for long. `now` is monotonic. */
void verifiers_tick(struct verifiers *verifiers, usec_t now);

typedef void verify_done(void *context, const struct verify_answer *answer);
enum verify_refusal {
	VERIFIERS_ASKED,
	VERIFIERS_TOO_MANY,
	VERIFIERS_TOO_LONG,
	VERIFIERS_NO_MEMORY
};

/* Asks a question, which is copied. `done` is called once from the event loop, never within this
   call; *check is invalid then; `done` may ask and cancel. Results other than VERIFIERS_ASKED: not
   asked, *check is NULL. `now` is monotonic. If too many questions wait, a question of another
   source may be removed; its answer is VERIFIED_DISPLACED (queue.h). */
enum verify_refusal verifiers_ask(struct verifiers *verifiers,
				  const struct verify_question *question,
				  const struct verify_source *source, usec_t now, verify_done *done,
				  void *context, struct verify_check **check);
/* A client of another source waits for the answer too: the question moves to the source with the
   earlier turn. */
void verifiers_share(struct verifiers *verifiers, struct verify_check *check,
		     const struct verify_source *source);
/* No client waits for the answer any more: if a process is working on the question, it is ended.
   Sets *check to NULL; *check may be NULL. */
void verifiers_cancel(struct verifiers *verifiers, struct verify_check **check);
/* Returns the process that works on the question; 0: it waits. */
int verify_check_process(const struct verify_check *check);

/* For SHOW: each process, then each waiting question. `user` and `method` are NULL for an idle
   process, `pid` is 0 for a waiting question. */
struct verify_view {
	int pid;
	const char *state;		/* "busy" "idle" "waiting" */
	const char *method, *user;
	usec_t since;			/* monotonic: when this state began */
	uint64_t answered;		/* number of questions answered by this process */
};
void verifiers_each(const struct verifiers *verifiers,
		    void (*visit)(void *context, const struct verify_view *view), void *context);

#endif
