#ifndef WEB_CONNECTION_H
#define WEB_CONNECTION_H

#include "web/history.h"
#include "web/http.h"
#include "web/web.h"

#include "backend/derivation.h"
#include "conn/world.h"

/*
 * An HTTP connection and the endpoint around it: for the files of room web.
 */
struct connection;
struct web_socket;

struct web {
	struct world *world;
	const char *version;
	web_set *set;
	usec_t started_at;			/* wall clock */
	/* of the TCP sockets, by the configuration of the last web_prepare(); NULL: no TLS */
	struct tls_context *tls, *next_tls;
	/* open; by the configuration of the last web_prepare(), ... */
	struct web_socket *sockets, *next;
	size_t socket_count, next_count;
	struct list connections;		/* in the order of their last progress */
	/* number of connections; of these, beyond http_max_connections */
	size_t count, spares;
	/* new connections that may be accepted until the next tick */
	int accepts_left;
	/* connections with work to do, first come first served */
	struct list ready;
	struct event work, tick;
	usec_t work_at;				/* monotonic: no work before */
	/* monotonic: opening the sockets is tried again at each tick; 0: it is not */
	usec_t retry_until;
	bool is_leaving;			/* another process has replaced this one */
	struct histories histories;
};

enum web_phase {
	WEB_HEADER,				/* of the PROXY protocol, from a load balancer */
	WEB_SECURING,				/* a TLS handshake */
	WEB_READING,				/* a request, or nothing */
	/* another request than a health check, on a spare connection */
	WEB_WAITING,
	WEB_ASKING,				/* a SCRAM key of a password is being derived */
	WEB_REFUSING,				/* the refusal of a wrong password is delayed */
	WEB_ANSWERING,
	/* the answer is sent; waits until the client closes */
	WEB_CLOSING
};

struct web_answer {
	int status;
	const char *type;			/* Content-Type; constant */
	char fields[320];			/* further header fields, each with CRLF */
	struct bytes body;			/* the part to be sent next */
	/* Appends the next part of the body, and sets is_whole after the last part. NULL: the body
	   is whole. */
	void (*more)(struct connection *c);
	void (*drop)(void *state);		/* frees `state`; NULL: none */
	void *state;
	bool is_whole, has_head, is_chunked;
};

struct connection {
	struct peer peer;			/* socket, address, world */
	struct web *web;
	struct list node, ready;
	enum web_phase phase;
	bool is_secure;				/* TLS follows, or is used */
	bool is_spare;				/* only health checks are answered */
	struct verify_source source;		/* address of the client */
	/* monotonic: last progress, or when the request is to be refused */
	usec_t since;
	struct bytes in;			/* received and not handled */
	struct http_request request;
	char user[HTTP_TEXT_MOST];		/* that has logged in; "": none */
	struct secret *password;		/* WEB_ASKING */
	/* WEB_ASKING: of the second derivation, after a wrong password; 0: this is the second */
	uint32_t iterations_left;
	struct derivation_wait derivation;
	bool is_reader, is_admin;		/* has the rights of stats_users; of admin_users */
	struct web_answer answer;
};

/* route.c: decides about the request, and begins its answer or waits. WEB_REFUSING: the wait is
   over. WEB_WAITING after the call: the request is handled again, from its beginning, when the
   connection is not spare any more. */
void connection_route(struct connection *c);

/* Begins an answer. The body is appended to c->answer.body, or made by c->answer.more. `type` is a
   constant text. */
void connection_answer(struct connection *c, int status, const char *type);
/* Answers with a short text as the whole body. */
void connection_tell(struct connection *c, int status, const char *text);

/* Begin an answer: json.c, metrics.c. `items`: names of SHOW and of this room's lists, separated by
   commas. */
void json_answer(struct connection *c, const char *items);
void metrics_answer(struct connection *c);

/* The page, written by etc/embed.sh from page.html. */
extern const char web_page[];
extern const size_t web_page_size;

#endif
