/*
 * Replaces c-ares: see names.h. Results of c-ares are built here in the forms of its documentation, and freed here as well; its parser of SOA packets
 * is the real one, because pgweir passes the packet to it.
 */
#include "names.h"

#include "fuzz.h"

#include <ares.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct names names;

static void keep(const char *name, int family, void *callback, void *context)
{
	FUZZ_CHECK(names.count < NAMES_MOST);
	names.questions[names.count] = (struct names_question){ .family = family, .callback = callback, .context = context };
	snprintf(names.questions[names.count++].name, sizeof(names.questions[0].name), "%s", name);
}

/* Removes the query before it is answered, so that it is answered only once even if the callback sends another query. */
static struct names_question take(int i)
{
	struct names_question q = names.questions[i];

	memmove(&names.questions[i], &names.questions[i + 1], (size_t)(--names.count - i) * sizeof(q));
	return q;
}

static struct ares_addrinfo_node *node_new(int family, const uint8_t *bytes, int ttl)
{
	struct ares_addrinfo_node *node = calloc(1, sizeof(*node));

	FUZZ_CHECK(node);
	node->ai_ttl = ttl;
	node->ai_family = family;
	if (family == AF_INET6) {
		struct sockaddr_in6 *a = calloc(1, sizeof(*a));

		FUZZ_CHECK(a);
		a->sin6_family = AF_INET6;
		memcpy(&a->sin6_addr, bytes, 16);
		node->ai_addr = (struct sockaddr *)a;
		node->ai_addrlen = sizeof(*a);
	} else {
		struct sockaddr_in *a = calloc(1, sizeof(*a));

		FUZZ_CHECK(a);
		a->sin_family = AF_INET;
		memcpy(&a->sin_addr, bytes, 4);
		node->ai_addr = (struct sockaddr *)a;
		node->ai_addrlen = sizeof(*a);
	}
	return node;
}

void names_answer(int i, int status, const uint8_t *addresses, size_t size, int ttl)
{
	struct names_question q = take(i);
	size_t each = q.family == AF_INET6 ? 16 : 4;
	struct ares_addrinfo *info = status == ARES_SUCCESS ? calloc(1, sizeof(*info)) : NULL;
	ares_addrinfo_callback callback = (ares_addrinfo_callback)(uintptr_t)q.callback;
	struct ares_addrinfo_node **end = info ? &info->nodes : NULL;

	for (size_t at = 0; info && at + each <= size; at += each) {
		*end = node_new(q.family, addresses + at, ttl);
		end = &(*end)->ai_next;
	}
	if (info && size % each == 1) {
		info->cnames = calloc(1, sizeof(*info->cnames));
		FUZZ_CHECK(info->cnames);
		info->cnames->ttl = (int)size - 2;
	}
	callback(q.context, status, 0, info);
}

void names_answer_zone(int i, int status, uint8_t *packet, size_t size)
{
	struct names_question q = take(i);
	ares_callback callback = (ares_callback)(uintptr_t)q.callback;

	callback(q.context, status, 0, status == ARES_SUCCESS ? packet : NULL, status == ARES_SUCCESS ? (int)size : 0);
}

void names_begin(void)
{
	memset(&names, 0, sizeof(names));
	names.is_on = 1;
}

void names_end(void)
{
	while (names.count > 0) {
		if (names.questions[0].family == 0)
			names_answer_zone(0, ARES_EDESTRUCTION, NULL, 0);
		else
			names_answer(0, ARES_EDESTRUCTION, NULL, 0, 0);
	}
	names.is_on = 0;
}

/* ---- functions that the linker substitutes for c-ares ---- */

void __real_ares_getaddrinfo(ares_channel channel, const char *name, const char *service, const struct ares_addrinfo_hints *hints,
			     ares_addrinfo_callback callback, void *arg);
void __wrap_ares_getaddrinfo(ares_channel channel, const char *name, const char *service, const struct ares_addrinfo_hints *hints,
			     ares_addrinfo_callback callback, void *arg);
void __wrap_ares_getaddrinfo(ares_channel channel, const char *name, const char *service, const struct ares_addrinfo_hints *hints,
			     ares_addrinfo_callback callback, void *arg)
{
	if (!names.is_on)
		__real_ares_getaddrinfo(channel, name, service, hints, callback, arg);
	else if (names.count == NAMES_MOST)
		callback(arg, ARES_ENOMEM, 0, NULL);
	else
		keep(name, hints->ai_family, (void *)(uintptr_t)callback, arg);
}

void __real_ares_query(ares_channel channel, const char *name, int class, int type, ares_callback callback, void *arg);
void __wrap_ares_query(ares_channel channel, const char *name, int class, int type, ares_callback callback, void *arg);
void __wrap_ares_query(ares_channel channel, const char *name, int class, int type, ares_callback callback, void *arg)
{
	if (!names.is_on)
		__real_ares_query(channel, name, class, type, callback, arg);
	else if (names.count == NAMES_MOST)
		callback(arg, ARES_ENOMEM, 0, NULL, 0);
	else
		keep(name, 0, (void *)(uintptr_t)callback, arg);
}

void __real_ares_freeaddrinfo(struct ares_addrinfo *info);
void __wrap_ares_freeaddrinfo(struct ares_addrinfo *info);
void __wrap_ares_freeaddrinfo(struct ares_addrinfo *info)
{
	if (!names.is_on) {
		__real_ares_freeaddrinfo(info);
		return;
	}
	for (struct ares_addrinfo_node *node = info->nodes, *next; node; node = next) {
		next = node->ai_next;
		free(node->ai_addr);
		free(node);
	}
	free(info->cnames);
	free(info);
}

int __real_ares_gethostbyname_file(ares_channel channel, const char *name, int family, struct hostent **host);
int __wrap_ares_gethostbyname_file(ares_channel channel, const char *name, int family, struct hostent **host);
int __wrap_ares_gethostbyname_file(ares_channel channel, const char *name, int family, struct hostent **host)
{
	/* /etc/hosts is a file of the machine */
	return names.is_on ? ARES_ENOTFOUND : __real_ares_gethostbyname_file(channel, name, family, host);
}
