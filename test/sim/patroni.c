/*
 * No simulated world has Patroni.
 */
#include "patroni/patroni.h"

#include <stdio.h>

struct patroni *patroni_new(const struct patroni_config *config, char *why, size_t why_size)
{
	(void)config;
	snprintf(why, why_size, "not simulated");
	return NULL;
}

void patroni_ask_now(struct patroni *source)
{
	(void)source;
}

void patroni_set_access(struct patroni *source, const struct patroni_access *access)
{
	(void)source;
	(void)access;
}

void patroni_free(struct patroni **source)
{
	*source = NULL;
}
