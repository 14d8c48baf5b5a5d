/* Replaces the verifier processes: a key is derived here and delivered in the next turn; requests for PAM and LDAP get the answer in house_verifier. */
#include "house.h"
#include "pg/scram.h"

#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>

struct verify_check {
	struct event *event;
	struct verify_answer answer;
	verify_done *done;
	void *context;
};

struct house_verifier house_verifier = { .refusal = VERIFIERS_ASKED, .verdict = VERIFIED_UNKNOWN };
static struct event_base *base;

struct verifiers *__real_verifiers_new(struct event_base *of, const struct verify_limits *limits);
struct verifiers *__wrap_verifiers_new(struct event_base *of, const struct verify_limits *limits);
enum verify_refusal __wrap_verifiers_ask(struct verifiers *verifiers, const struct verify_question *question, const struct verify_source *source,
					 usec_t now, verify_done *done, void *context, struct verify_check **check);
void __wrap_verifiers_share(struct verifiers *verifiers, struct verify_check *check, const struct verify_source *source);
void __wrap_verifiers_cancel(struct verifiers *verifiers, struct verify_check **check);
int __wrap_verify_check_process(const struct verify_check *check);

struct verifiers *__wrap_verifiers_new(struct event_base *of, const struct verify_limits *limits)
{
	base = of;
	return __real_verifiers_new(of, limits);
}

static void check_free(struct verify_check *check)
{
	event_free(check->event);
	free(check);
}

static void on_event(evutil_socket_t fd, short what, void *context)
{
	struct verify_check check = *(struct verify_check *)context;

	(void)fd, (void)what;
	check_free(context);
	check.done(check.context, &check.answer);
}

enum verify_refusal __wrap_verifiers_ask(struct verifiers *verifiers, const struct verify_question *question, const struct verify_source *source,
					 usec_t now, verify_done *done, void *context, struct verify_check **out)
{
	struct verify_check *check;

	(void)verifiers, (void)source, (void)now;
	FUZZ_CHECK(*question->user && *question->password);
	if (question->method != VERIFY_SCRAM) {
		snprintf(house_verifier.asked, sizeof(house_verifier.asked), "%s %s/%s %s %s", verify_method_names[question->method], question->user,
			 question->password, question->service ? question->service : "-", question->remote ? question->remote : "-");
		if (house_verifier.refusal != VERIFIERS_ASKED)
			return house_verifier.refusal;
	}
	check = calloc(1, sizeof(*check));
	FUZZ_CHECK(check);
	verify_answer_set(&check->answer, house_verifier.verdict, "nobody is asked");
	if (question->method == VERIFY_SCRAM) {
		check->answer.verdict = VERIFIED_YES;
		check->answer.has_key = true;
		FUZZ_CHECK(scram_salted_derive(question->password, question->salt, question->salt_size, question->iterations, check->answer.salted));
	}
	check->done = done;
	check->context = context;
	check->event = event_new(base, -1, 0, on_event, check);
	FUZZ_CHECK(check->event);
	event_active(check->event, EV_TIMEOUT, 0);
	*out = check;
	return VERIFIERS_ASKED;
}

/* No request waits here. */
void __wrap_verifiers_share(struct verifiers *verifiers, struct verify_check *check, const struct verify_source *source)
{
	(void)verifiers;
	(void)check;
	(void)source;
}

void __wrap_verifiers_cancel(struct verifiers *verifiers, struct verify_check **check)
{
	(void)verifiers;
	if (*check)
		check_free(*check);
	*check = NULL;
}

int __wrap_verify_check_process(const struct verify_check *check)
{
	(void)check;
	return 0;
}
