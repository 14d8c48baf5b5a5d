/*
 * Searches for a smaller world with the same failure: with fewer parts (plan_part_name), fewer clients, less time. A world runs in its own process,
 * because it may abort; its message on stderr identifies the failure.
 *
 * Leaving a part out changes all random events, so the failure usually does not happen at once. Therefore each smaller plan is tried several times
 * (plan_limits.salt). Early failures are found first, rare ones rarely: this is a search, not a proof, and the result is the smallest world among the
 * tried ones.
 *
 * Invariant: the best world so far failed like the first world when it was last run.
 */
#include "shrink.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHANCES 12			/* that a smaller plan is given */
#define SECONDS_MOST 60			/* of CPU, for one world */
#define OUTPUT_MOST 65536
#define START 1000.0			/* the initial clock of a world (loop.c) */

/* A world that was played. */
struct trial {
	struct plan_limits limits;
	usec_t length;
	bool failed;
	double at;			/* when it failed, by its own clock */
	char how[400];			/* the message without random parts */
};

static uint64_t the_seed;
static shrink_play *the_play;
static struct trial best;
static int played;

/* ---- how it failed ---- */

/* Removes numbers and text in brackets, which are random. */
static void simplify(char *to, size_t size, const char *line)
{
	size_t n = 0;
	int depth = 0;

	for (; *line && *line != '\n' && n + 1 < size; line++) {
		depth += *line == '(';
		if (depth == 0 && !(isdigit((unsigned char)*line) && n > 0 && to[n - 1] == '#'))
			to[n++] = isdigit((unsigned char)*line) ? '#' : *line;
		depth -= *line == ')' && depth > 0;
	}
	to[n] = '\0';
}

static void read_failure(struct trial *t, const char *output, int status)
{
	const char *at = strstr(output, " failed at ");

	t->failed = true;
	t->at = at ? strtod(at + strlen(" failed at "), NULL) : 0;
	if (strncmp(output, "sim: seed ", 10) == 0 || !*output)
		snprintf(t->how, sizeof(t->how), "signal %d", WIFSIGNALED(status) ? WTERMSIG(status) : 0);
	else
		simplify(t->how, sizeof(t->how), output);
}

/* ---- playing ---- */

static void play_here(const struct trial *t, int to)
{
	struct rlimit none = { 0, 0 }, cpu = { SECONDS_MOST, SECONDS_MOST };

	setrlimit(RLIMIT_CORE, &none);
	setrlimit(RLIMIT_CPU, &cpu);
	dup2(to, STDERR_FILENO);
	plan_limits = t->limits;
	/* a first world leaves permanent allocations: leaks show in the second run */
	the_play(the_seed, t->length);
	if (strstr(best.how, "blocks of memory"))
		the_play(the_seed, t->length);
	_exit(0);
}

static size_t read_all(int from, char *buffer, size_t size)
{
	size_t n = 0;
	ssize_t r;
	char scrap[4096];

	while ((r = n + 1 < size ? read(from, buffer + n, size - 1 - n) : read(from, scrap, sizeof(scrap))) > 0)
		n += n + 1 < size ? (size_t)r : 0;
	buffer[n] = '\0';
	return n;
}

static void play(struct trial *t)
{
	static char output[OUTPUT_MOST];
	int ends[2], status;
	pid_t pid;

	fflush(stdout);
	if (pipe(ends) != 0 || (pid = fork()) < 0) {
		perror("sim");
		exit(1);
	}
	if (pid == 0) {
		close(ends[0]);
		play_here(t, ends[1]);
	}
	close(ends[1]);
	read_all(ends[0], output, sizeof(output));
	close(ends[0]);
	waitpid(pid, &status, 0);
	played++;
	t->failed = false;
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		read_failure(t, output, status);
}

/* ---- smaller ones ---- */

/* Shortens a world that failed in its main part to the time of the failure; a failure at the end needs the full length. */
static void cut(struct trial *t)
{
	usec_t needed = (usec_t)((t->at - START) * (double)USEC) / USEC * USEC + USEC;

	if (t->at > START && needed < t->length)
		t->length = needed;
}

static bool is_as_before(struct trial *t)
{
	play(t);
	if (!t->failed || strcmp(t->how, best.how) != 0)
		return false;
	cut(t);
	best = *t;
	return true;
}

/* True when it fails as before with some of its chances; then it is the best one. */
static bool try(const struct plan_limits *limits, usec_t length)
{
	struct trial t = { .limits = *limits, .length = length };

	for (uint64_t i = 0; i < CHANCES; i++) {
		if (is_as_before(&t))
			return true;
		t.limits.salt = limits->salt + i + 1;
		t.length = length;
	}
	return false;
}

static bool leave_out_parts(void)
{
	bool some = false;

	for (int i = 0; plan_part_name(i); i++) {
		struct plan_limits limits = best.limits;

		limits.without |= 1u << i;
		if (limits.without == best.limits.without || !try(&limits, best.length))
			continue;
		printf("without %s: yes, after %.0f s\n", plan_part_name(i), (double)best.length / (double)USEC);
		some = true;
	}
	return some;
}

static bool take_fewer_clients(void)
{
	int steps[] = { best.limits.clients / 2, best.limits.clients * 3 / 4, best.limits.clients - 1 };

	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		struct plan_limits limits = best.limits;

		limits.clients = steps[i];
		if (limits.clients < 1 || !try(&limits, best.length))
			continue;
		printf("with %d clients: yes, after %.0f s\n", limits.clients, (double)best.length / (double)USEC);
		return true;
	}
	return false;
}

static bool take_less_time(void)
{
	usec_t length = best.length / 2 / USEC * USEC;

	if (length < USEC || !try(&best.limits, length))
		return false;
	printf("with %.0f s: yes\n", (double)best.length / (double)USEC);
	return true;
}

/* The parts that it did not have need not be left out; but saying so makes the plan smaller to read. */
static void begin_with_what_there_is(int clients)
{
	best.limits.clients = clients;
	for (int i = 0; plan_part_name(i); i++)
		if (!plan_has_part(i))
			best.limits.without |= 1u << i;
}

int shrink(uint64_t seed, usec_t length, shrink_play *play_world, shrink_draw *draw)
{
	bool goes_on = true;

	the_seed = seed;
	the_play = play_world;
	best = (struct trial){ .limits = plan_limits, .length = draw(seed, length) };
	play(&best);
	if (best.failed && strstr(best.how, "blocks of memory") == NULL)
		cut(&best);
	if (!best.failed) {
		printf("seed %llu does not fail\n", (unsigned long long)seed);
		return 1;
	}
	printf("it fails like this: %s\n", best.how);
	begin_with_what_there_is(plan.clients);
	while (goes_on) {
		goes_on = leave_out_parts();
		while (take_fewer_clients())
			goes_on = true;
		while (take_less_time())
			goes_on = true;
	}
	plan_limits = best.limits;
	printf("%d worlds were played; the smallest one that fails so:\n", played);
	plan_say_options(stdout, seed, best.length);
	return 0;
}
