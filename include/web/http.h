#ifndef WEB_HTTP_H
#define WEB_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Requests of HTTP/1.0 and 1.1 (RFC 9112), as far as the endpoint needs them. Pure functions: no
 * descriptor, clock, allocation or global.
 */
#define HTTP_HEAD_MOST 8192		/* bytes of request line and header fields */
#define HTTP_BODY_MOST 4096		/* bytes of a body, which is ignored */
#define HTTP_TEXT_MOST 512		/* bytes of a path, a query or a value, and a NUL */

enum http_method { HTTP_METHOD_GET, HTTP_METHOD_HEAD, HTTP_METHOD_POST };

struct http_request {
	enum http_method method;
	bool is_old;			/* HTTP/1.0: no chunks */
	bool keeps_alive;		/* the client may send another request on the connection */
	bool wants_openmetrics;		/* Accept prefers OpenMetrics to the older text */
	/* the header X-Pgweir, which a page of another origin cannot send */
	bool is_marked;
	/* of a whole request: the Host field is an IP address, localhost or absent, because another
	   site's DNS server may resolve a name of that site to this machine; the request comes from
	   a page of this endpoint, or from no page */
	bool is_host_plain, is_same_origin;
	size_t size;			/* bytes of head and body */
	char path[HTTP_TEXT_MOST];	/* decoded; begins with '/' */
	char query[HTTP_TEXT_MOST];	/* not decoded, without '?' */
	/* "": absent */
	char host[HTTP_TEXT_MOST], origin[HTTP_TEXT_MOST], authorization[HTTP_TEXT_MOST];
};

enum http_verdict { HTTP_READ_OK, HTTP_READ_MORE, HTTP_READ_BAD };
/* Reads the request at the beginning of the input. HTTP_READ_BAD: *status is the status of the
   answer, and the rest of the input is unusable. */
enum http_verdict http_read(const char *input, size_t size, struct http_request *request,
			    int *status);
/* Finds a parameter of the query and decodes its value. False: it is missing, malformed or longer
   than the buffer. */
bool http_parameter(const struct http_request *request, const char *name, char *value, size_t size);
/* Reads user and password of HTTP Basic (RFC 7617). `user` and `password` have room for
   HTTP_TEXT_MOST bytes. False: malformed. */
bool http_credentials(const struct http_request *request, char *user, char *password);
/* "Not Found" */
const char *http_reason(int status);

#endif
