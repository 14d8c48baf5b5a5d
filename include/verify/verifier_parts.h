#ifndef VERIFY_VERIFIER_PARTS_H
#define VERIFY_VERIFIER_PARTS_H

#include "base/list.h"
#include "verify/verifier.h"

/* Shared by verifier.c (all verifiers and questions) and verifier_process.c (one verifier). */

struct verifiers {
	struct event_base *base;
	struct event *dispatch;
	struct list idle, busy, ended;	/* struct verifier */
	struct verify_queue clients, own;	/* struct verify_check */
	bool own_is_next;
	struct list displaced;		/* struct verify_check: removed from the queue, and not reported yet */
	struct verify_limits limits;
	int processes;			/* not reaped yet */
	uint64_t last_ticket;
	usec_t now;
};

struct verifier {
	struct list node;
	struct verifiers *of;
	struct event *readable;
	struct verify_check *check;	/* the current question */
	pid_t pid;
	int fd;				/* -1: ended */
	usec_t since;			/* when it became idle */
	uint64_t answered;
	bool is_old;			/* ends after its answer */
	bool is_killed;			/* ended by pgweir: its exit status is not logged */
};

struct verify_check {
	struct verify_place place;	/* in the queue, or its node in `displaced` */
	struct verifier *by;		/* NULL: waits */
	struct bytes question;		/* empty after sending */
	uint64_t ticket;
	bool is_own;
	enum verify_method method;
	char *user;
	usec_t since;			/* when it was asked */
	verify_done *done;
	void *context;
};

/* ---- verifier.c ---- */

/* Reports the answer and frees the check. */
void verify_check_finish(struct verify_check *check, const struct verify_answer *answer);
/* Returns the number of waiting questions. */
int verifiers_waiting(const struct verifiers *all);
/* Schedules an attempt to give waiting questions to verifiers, from the event loop. */
void verifiers_want_dispatch(struct verifiers *all);

/* ---- verifier_process.c ---- */

/* Starts an idle verifier. NULL with errno. */
struct verifier *verifier_start(struct verifiers *all);
/* Sends a question, which must not be in the queue, to an idle verifier. */
void verifier_give(struct verifier *verifier, struct verify_check *check);
/* Ends a verifier; its exit status is not logged. The caller handles its check. */
void verifier_end(struct verifier *verifier);
/* Frees an ended verifier if its process has ended. */
void verifier_reap(struct verifier *verifier);

#endif
