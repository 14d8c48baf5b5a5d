#ifndef PATRONI_PATRONI_H
#define PATRONI_PATRONI_H

#include "base/clock.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct event_base;
struct dns;
struct secret;

/*
 * The members of a cluster by the word of Patroni, with the holder of the leader lock. The lock
 * does not prove that a promotion has ended, so the caller asks the server itself before it sends a
 * write.
 */
#define PATRONI_MEMBERS_MOST 64
#define PATRONI_NAME_SIZE 128		/* with the terminating NUL; a longer name is refused */
#define PATRONI_HOST_SIZE 256
#define PATRONI_WHY_SIZE 600		/* of the text that tells why an answer is refused */
#define PATRONI_BODY_MOST (128 * 1024)	/* bytes of an answer */

enum patroni_role { PATRONI_OTHER, PATRONI_LEADER, PATRONI_STANDBY_LEADER, PATRONI_REPLICA };
struct patroni_member {
	char name[PATRONI_NAME_SIZE];
	/* a name or an IP address; "": Patroni does not know the address of the server yet */
	char host[PATRONI_HOST_SIZE];
	/* of its REST interface, "http://host:port" or with https; "": unknown, or another
	   scheme */
	char url[PATRONI_HOST_SIZE];
	uint16_t port;			/* 5432 if Patroni gives a host only; 0 without a host */
	enum patroni_role role;		/* PATRONI_REPLICA includes synchronous standbys */
	bool is_running;		/* PostgreSQL runs, by the last report of the member */
	bool no_load_balance;		/* the tag noloadbalance */
	int64_t timeline;		/* 0: unknown */
	/* bytes that the member has not received of the leader's last known position; -1:
	   unknown */
	int64_t lag;
};
struct patroni_view {
	bool is_known;			/* false: the other members mean nothing */
	/* clock_monotonic() before the question of this answer: its age counts from here */
	usec_t asked_at;
	bool is_paused;			/* maintenance mode: Patroni changes no roles */
	bool has_switchover;		/* a switchover is scheduled */
	/* index of the member with the leader lock, which may be the leader of a standby cluster;
	   -1: no member */
	int leader;
	unsigned count;
	struct patroni_member members[PATRONI_MEMBERS_MOST];	/* in the order of the answer */
};

/*
 * Reads the body of an answer to GET /cluster (Patroni 3.0 to 4.1) into *view; view->asked_at is
 * unchanged. False with a text in `why`: the answer is refused as a whole, and view->is_known is
 * false. The answer is refused if it is not a JSON object, if a used value has an unexpected type,
 * without members, if two members have the same name or address, or if there are two leaders.
 */
bool patroni_view_read(const char *text, size_t size, struct patroni_view *view, char *why,
		       size_t why_size);

/*
 * A source: a list of REST URLs of one cluster. One URL is asked once per period. If a URL gives no
 * usable answer, the next URL is asked at once; the last URL with an answer is asked first. At most
 * one question is in progress. Nothing in here logs.
 *
 * The view turns unknown when all URLs have failed twice; until then it is the last answer, with
 * its age.
 */
struct patroni {
	struct patroni_view view;	/* read-only for the caller */
	/* the last failure, with its URL: "Patroni at http://a:8008 cannot be reached"; "" after an
	   answer */
	char why[PATRONI_WHY_SIZE];
	/* the caller may change it; it applies after the next question; at least 0.1 seconds are
	   kept */
	usec_t period;
	struct patroni_client *client;
};
/* How to be admitted. The strings are copied. */
struct patroni_access {
	/* authorities for the certificates of https; NULL: the authorities of the system. The name
	   is always checked */
	const char *ca_file;
	/* of HTTP basic authentication, which is sent over https and to addresses of loopback only;
	   NULL: none */
	const char *user;
	const struct secret *password;	/* NULL: empty */
};
struct patroni_config {
	struct event_base *base;
	struct dns *dns;
	const char *urls;		/* as conf_url_next() reads them; copied */
	usec_t period;
	struct patroni_access access;
	/* of the whole answer of a URL, with the name's resolution; 0: 2 seconds */
	usec_t timeout;
	/* Called from the event loop when the view has changed in more than asked_at and lag, and
	   when `why` has changed. It must not call patroni_free(). */
	void (*changed)(void *context, const struct patroni *source);
	void *context;
};
/* Returns a source, which asks its first question in the next turn of the event loop. NULL with a
   text in `why`: a URL is wrong, or no memory. */
struct patroni *patroni_new(const struct patroni_config *config, char *why, size_t why_size);
/* A host is in doubt: asks in the next turn of the event loop, but at least 0.1 seconds after the
   last question began. If a question is in progress, another one follows, because its answer may be
   older than the doubt. */
void patroni_ask_now(struct patroni *source);
/* Changes the access from the next question on. The file of authorities is read again before the
   next question with https. */
void patroni_set_access(struct patroni *source, const struct patroni_access *access);
/* Ends the question in progress and frees everything. Sets *source to NULL; *source may be NULL. */
void patroni_free(struct patroni **source);

#endif
