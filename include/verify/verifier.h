#ifndef VERIFY_VERIFIER_H
#define VERIFY_VERIFIER_H

#include "verify/message.h"
#include "verify/queue.h"

/*
 * Authenticates users with PAM or LDAP, or by deriving a key, without waiting for it: questions go to a bounded number of
 * processes of our own, the verifiers, which are started as they are needed.
 */
struct event_base;
struct verifiers;
struct verify_check;			/* a question that has no answer yet */

struct verify_limits {
	int processes;			/* at most so many at a time; at least 1 */
	int waiting;			/* questions that wait for one of them */
};

/* NULL: no memory. */
struct verifiers *verifiers_new(struct event_base *base, const struct verify_limits *limits);
/* Ends all processes and sets *verifiers to NULL; no check may be left. NULL inside is fine. */
void verifiers_free(struct verifiers **verifiers);
/* New limits, and processes that read PAM's, LDAP's and the resolver's configuration anew: those that are at work
   finish it first. */
void verifiers_renew(struct verifiers *verifiers, const struct verify_limits *limits);
/* To be called about ten times a second: processes that have ended are reaped, those long idle are ended. `now` is monotonic. */
void verifiers_tick(struct verifiers *verifiers, usec_t now);

typedef void verify_done(void *context, const struct verify_answer *answer);
enum verify_refusal { VERIFY_ASKED, VERIFY_TOO_MANY, VERIFY_TOO_LONG, VERIFY_NO_MEMORY };

/* Asks. `done` is called from the event loop, never from in here, once, and *check is void when it is; it may ask and cancel. The
   question is copied. Anything but VERIFY_ASKED: it was not asked, *check is NULL. `now` is monotonic. Where too many wait, one of
   those of another source may have to go; its answer then is VERIFY_DISPLACED (queue.h). */
enum verify_refusal verifiers_ask(struct verifiers *verifiers, const struct verify_question *question, const struct verify_source *source,
				  usec_t now, verify_done *done, void *context, struct verify_check **check);
/* A client of another source waits for it, too: it is asked as soon as it would be for either. */
void verifiers_share(struct verifiers *verifiers, struct verify_check *check, const struct verify_source *source);
/* No client waits for it any more: a process that is at work on it is ended. Sets *check to NULL; NULL inside is fine. */
void verifiers_cancel(struct verifiers *verifiers, struct verify_check **check);
/* The process at work on it; 0: it waits for one. */
int verify_check_process(const struct verify_check *check);

/* For SHOW: each process, then each question that waits. `user` and `method` are NULL for an idle process, `pid` is 0 for a waiting one. */
struct verify_view {
	int pid;
	const char *state;		/* "busy" "idle" "waiting" */
	const char *method, *user;
	usec_t since;			/* monotonic: in this state */
	uint64_t answered;		/* questions that this process has answered */
};
void verifiers_each(const struct verifiers *verifiers, void (*visit)(void *context, const struct verify_view *view), void *context);

#endif
