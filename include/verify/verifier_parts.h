#ifndef VERIFY_VERIFIER_PARTS_H
#define VERIFY_VERIFIER_PARTS_H

#include "base/list.h"
#include "verify/verifier.h"

/* What verifier.c (questions, and all verifiers) and verifier_process.c (one of them) share. */

struct verifiers {
	struct event_base *base;
	struct event *dispatch;
	struct list idle, busy, ended;	/* struct verifier */
	struct verify_queue clients, own;	/* struct verify_check */
	bool own_is_next;
	struct list displaced;		/* out of it: struct verify_check, not told yet */
	struct verify_limits limits;
	int processes;			/* started and not reaped */
	uint64_t last_ticket;
	usec_t now;
};

struct verifier {
	struct list node;
	struct verifiers *of;
	struct event *readable;
	struct verify_check *check;	/* busy with */
	pid_t pid;
	int fd;				/* -1: ended */
	usec_t since;			/* idle */
	uint64_t answered;
	bool is_old;			/* ends when it has answered */
	bool is_killed;			/* by us: how it ends is no news */
};

struct verify_check {
	struct verify_place place;	/* in the queue, or its node in `displaced` */
	struct verifier *by;		/* NULL: it waits */
	struct bytes question;		/* empty when it is sent */
	uint64_t ticket;
	bool is_own;
	enum verify_method method;
	char *user;
	usec_t since;			/* asked */
	verify_done *done;
	void *context;
};

/* ---- verifier.c ---- */

/* Frees the check, and tells the answer. */
void verify_check_finish(struct verify_check *check, const struct verify_answer *answer);
/* Questions that wait. */
int verifiers_waiting(const struct verifiers *all);
/* The loop is to look whether one of them can be given to a verifier. */
void verifiers_want_dispatch(struct verifiers *all);

/* ---- verifier_process.c ---- */

/* An idle one. NULL with errno. */
struct verifier *verifier_start(struct verifiers *all);
/* Gives a question, which waits no more, to an idle verifier. */
void verifier_give(struct verifier *verifier, struct verify_check *check);
/* It gets no more questions, and how it ends is no news. Its check, if any, is the caller's to settle. */
void verifier_end(struct verifier *verifier);
/* One that was ended: frees it, if its process is gone. */
void verifier_reap(struct verifier *verifier);

#endif
