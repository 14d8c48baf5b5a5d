/*
 * The processes that derive keys, on the simulated machine: in place of verify/child.c.
 *
 * A process takes one question at a time from its end of the socket, works on it for a while, by the iterations that are asked for,
 * and answers. The queue in front of them is the real one (verify/verifier.c). The machine has two processors.
 *
 * Invariant: a process is in `processes` until the pooler has ended it; and no key is derived in the pooler's loop, where all clients would
 * wait for it: that is the last resort for a machine without processes, and this one always has them.
 */
#include "base/list.h"
#include "base/mem.h"
#include "chance.h"
#include "machine.h"
#include "pg/scram.h"
#include "sim.h"
#include "verify/child.h"
#include "verify/verifier.h"

#include <unistd.h>

#define ITERATIONS_A_MICROSECOND 5
#define DERIVED_MOST 10000		/* a key of more iterations is only for servers and clients of attackers, and is made up */

struct process {
	struct list node;
	struct actor actor;
	struct wire *wire;
	pid_t pid;
	usec_t ready_at;		/* 0: it waits for a question */
	uint64_t ticket;
	struct verify_answer answer;
};

static struct list processes = { &processes, &processes };
static pid_t last_pid;
static usec_t begun;			/* of the world */
static int64_t for_attackers;

usec_t processes_time(uint32_t iterations)
{
	return iterations / ITERATIONS_A_MICROSECOND;
}

long __real_sysconf(int name);
long __wrap_sysconf(int name);
long __wrap_sysconf(int name)
{
	return name == _SC_NPROCESSORS_ONLN ? 2 : __real_sysconf(name);
}

bool __real_scram_salted_derive(const char *password, const uint8_t *salt, size_t salt_size, uint32_t iterations, uint8_t salted[SCRAM_KEY]);
bool __wrap_scram_salted_derive(const char *password, const uint8_t *salt, size_t salt_size, uint32_t iterations, uint8_t salted[SCRAM_KEY]);
bool __wrap_scram_salted_derive(const char *password, const uint8_t *salt, size_t salt_size, uint32_t iterations, uint8_t salted[SCRAM_KEY])
{
	SIM_CHECK(false, "a key of %u iterations is derived in the loop", iterations);
	return __real_scram_salted_derive(password, salt, salt_size, iterations, salted);
}

/* Derivations for a server that sends a different salt each time are limited: DERIVATIONS_MOST and one more every DERIVE_PERIOD (server_auth.c). */
static void check_attack(const struct verify_question *question)
{
	if (plan.attack != ATTACK_SALTS || question->iterations != ATTACK_ITERATIONS)
		return;
	for_attackers++;
	SIM_CHECK(for_attackers <= 17 + (loop_now() - begun) / (5 * USEC), "%lld keys are derived for one server", (long long)for_attackers);
}

static void take_question(struct process *p)
{
	struct verify_question question;
	struct ldap_options ldap;
	size_t size;
	const uint8_t *at = wire_come(p->wire, &size);
	uint32_t iterations;

	if (size == 0)
		return;
	SIM_CHECK(verify_question_read(at, size, &p->ticket, &question, &ldap), "a process got what is no question");
	SIM_CHECK(question.method == VERIFY_SCRAM, "%s is asked", verify_method_names[question.method]);
	check_attack(&question);
	verify_answer_set(&p->answer, VERIFIED_YES, "%s", "");
	p->answer.has_key = true;
	iterations = question.iterations > DERIVED_MOST ? 1 : question.iterations;
	SIM_CHECK(__real_scram_salted_derive(question.password, question.salt, question.salt_size, iterations, p->answer.salted),
		  "no key for %s", question.user);
	p->ready_at = loop_now() + 1 + processes_time(question.iterations) + chance_spread(0, plan.slowness);
	wire_take(p->wire, size);
	actor_at(&p->actor, p->ready_at);
}

static void give_answer(struct process *p)
{
	struct bytes out = BYTES_EMPTY;

	verify_answer_write(&out, p->ticket, &p->answer);
	wire_put(p->wire, bytes_front(&out), bytes_size(&out));
	bytes_free(&out);
	p->ready_at = 0;
}

static void act(struct actor *actor)
{
	struct process *p = SIM_OBJECT(actor, struct process, actor);

	if (p->ready_at > loop_now())
		actor_at(&p->actor, p->ready_at);
	else if (p->ready_at > 0)
		give_answer(p);
	else
		take_question(p);
}

pid_t verify_process_start(int *fd)
{
	struct process *p = mem_must(sizeof(*p));

	p->pid = ++last_pid;
	actor_init(&p->actor, act, 0);
	list_append(&processes, &p->node);
	*fd = wire_pair(&p->actor, &p->wire);
	return p->pid;
}

void verify_process_kill(pid_t pid)
{
	LIST_EACH_SAFE(node, &processes) {
		struct process *p = SIM_OBJECT(node, struct process, node);

		if (p->pid != pid)
			continue;
		actor_rest(&p->actor);
		wire_close(&p->wire, false);
		list_remove(&p->node);
		mem_free(p);
	}
}

bool verify_process_reap(pid_t pid, int *status)
{
	(void)pid;
	*status = 0;
	return chance_one_in(2);
}

void processes_begin(void)
{
	last_pid = 0;
	begun = loop_now();
	for_attackers = 0;
}

bool processes_are_gone(void)
{
	return list_is_empty(&processes);
}
