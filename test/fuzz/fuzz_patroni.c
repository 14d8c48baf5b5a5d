/*
 * Patroni's answers: patroni_view_read.
 *
 * Input: the body. Properties: an accepted answer has members with names, all different, and hosts without slashes; the leader is the only member
 * with a leader's role; a refused answer has a reason; blanks around the body change nothing.
 */
#include "fuzz.h"
#include "patroni/patroni.h"

#include <stdlib.h>
#include <string.h>

static struct patroni_view view, again;

static void check_view(const struct patroni_view *v)
{
	int leaders = 0;

	FUZZ_CHECK(v->count > 0 && v->count <= PATRONI_MEMBERS_MOST);
	FUZZ_CHECK(v->leader >= -1 && v->leader < (int)v->count);
	for (unsigned i = 0; i < v->count; i++) {
		const struct patroni_member *m = &v->members[i];
		bool is_leader = m->role == PATRONI_LEADER || m->role == PATRONI_STANDBY_LEADER;

		FUZZ_CHECK(*m->name && memchr(m->name, 0, sizeof(m->name)) && memchr(m->host, 0, sizeof(m->host)));
		FUZZ_CHECK(!*m->host == !m->port && !strpbrk(m->host, "/@, \n"));
		FUZZ_CHECK(m->timeline >= 0 && m->lag >= -1);
		FUZZ_CHECK(is_leader == (v->leader == (int)i));
		leaders += is_leader;
		for (unsigned k = 0; k < i; k++)
			FUZZ_CHECK(strcmp(v->members[k].name, m->name) != 0);
	}
	FUZZ_CHECK(leaders <= 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char why[PATRONI_WHY_SIZE] = "", why_again[PATRONI_WHY_SIZE] = "";
	uint8_t *copy = fuzz_copy(data, size), *padded;
	bool done, is_same;

	memset(&view, 0, sizeof(view));
	memset(&again, 0, sizeof(again));
	done = patroni_view_read((const char *)copy, size, &view, why, sizeof(why));
	FUZZ_CHECK(done == view.is_known && done == !*why);
	if (done)
		check_view(&view);
	free(copy);
	if (size == 0 || size + 2 > PATRONI_BODY_MOST)
		return 0;
	padded = malloc(size + 2);
	FUZZ_CHECK(padded);
	padded[0] = '\n';
	memcpy(padded + 1, data, size);
	padded[size + 1] = ' ';
	is_same = patroni_view_read((const char *)padded, size + 2, &again, why_again, sizeof(why_again)) == done;
	FUZZ_CHECK(is_same && (!done || memcmp(&view, &again, sizeof(view)) == 0));
	free(padded);
	return 0;
}
