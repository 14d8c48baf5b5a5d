#ifndef NAMES_H
#define NAMES_H

#include <stddef.h>
#include <stdint.h>

/*
 * In place of c-ares: questions are kept until the target answers them, with whatever it likes. Only
 * between names_begin and names_end.
 */
#define NAMES_MOST 64

struct names_question {
	char name[64];
	int family;			/* 0: the zone's SOA */
	void *callback, *context;
};

struct names {
	int is_on, count;
	struct names_question questions[NAMES_MOST];	/* not yet answered */
};
extern struct names names;

void names_begin(void);
/* Answers the remaining queries as c-ares does when its channel ends. */
void names_end(void);
/* Answers the i-th: the addresses of this many and more bytes each (of its family), all with that time to live;
   status other than 0: that. */
void names_answer(int i, int status, const uint8_t *addresses, size_t size, int ttl);
/* The i-th, which is for a zone, gets this packet. */
void names_answer_zone(int i, int status, uint8_t *packet, size_t size);

#endif
