/* The queue of the verifiers: the order of service, and displacement. */
#include "verify/queue.h"

#include "unit.h"

/* An entry is named "a1": its source and its number. Sources with upper-case letters form a group. */
struct named {
	struct verify_place place;
	char name[8];
};

static struct named all[80];
static int used;

static struct verify_source source_of(char letter)
{
	struct verify_source source = { .bytes = { 0 } };

	source.bytes[16] = (uint8_t)letter;
	source.group = letter >= 'A' && letter <= 'Z' ? 16 : 0;
	return source;
}

static struct named *add(struct verify_queue *q, const char *name)
{
	const struct verify_source source = source_of(name[0]);
	struct named *n = &all[used++];

	verify_place_init(&n->place);
	snprintf(n->name, sizeof(n->name), "%s", name);
	CHECK(verify_queue_add(q, &n->place, &source));
	return n;
}

static void fill(struct verify_queue *q, const char *names)
{
	char copy[200], *rest = copy;

	used = 0;
	verify_queue_init(q);
	snprintf(copy, sizeof(copy), "%s", names);
	for (char *name; (name = strsep(&rest, " ")) != NULL;)
		add(q, name);
}

static const char *name_of(struct verify_place *place)
{
	return place ? LIST_OBJECT(place, struct named, place)->name : "nobody";
}

static const char *displaced_by(struct verify_queue *q, char letter)
{
	const struct verify_source source = source_of(letter);

	return name_of(verify_queue_displace(q, &source));
}

/* Returns all entries in the order of service. */
static const char *served(const char *names)
{
	static char text[200];
	struct verify_queue q;
	size_t size = 0;

	fill(&q, names);
	for (int left = q.waiting; left > 0; left--) {
		size += (size_t)snprintf(text + size, sizeof(text) - size, "%s%s", size ? " " : "", name_of(verify_queue_next(&q, NULL)));
		CHECK_INT(q.waiting, left - 1);
	}
	CHECK(!verify_queue_next(&q, NULL) && !q.by_source && !q.by_group && list_is_empty(&q.turns));
	return text;
}

TEST(sources_take_turns)
{
	CHECK_PAIRS(served,
		    { "a1", "a1" }, { "a1 a2 a3", "a1 a2 a3" }, { "a1 b1 c1", "a1 b1 c1" },
		    { "a1 a2 a3 a4 b1", "a1 b1 a2 a3 a4" },
		    { "a1 a2 a3 b1 b2 c1", "a1 b1 c1 a2 b2 a3" });
}

TEST(a_group_has_one_turn_for_all_its_sources)
{
	CHECK_PAIRS(served,
		    { "A1 B1 C1 a1 a2", "A1 a1 B1 a2 C1" },
		    { "A1 A2 A3 B1 a1 a2", "A1 a1 B1 a2 A2 A3" },
		    { "a1 A1 B1 C1 D1 b1 a2", "a1 A1 b1 a2 B1 C1 D1" });
}

TEST(groups_are_distinguished)
{
	const struct verify_source a = { { 2, 1, 7 }, 2 }, b = { { 2, 1, 8 }, 2 }, c = { { 2, 2, 7 }, 2 }, alone = { { 2, 1 }, 0 };

	CHECK(verify_source_same_group(&a, &b));
	CHECK(!verify_source_same_group(&a, &c));
	CHECK(!verify_source_same_group(&a, &alone));
}

TEST(new_entry_waits_for_one_entry_of_each_other_source)
{
	struct verify_queue q;

	fill(&q, "a1 a2 a3 a4 a5");
	CHECK_TEXT(name_of(verify_queue_next(&q, NULL)), "a1");
	add(&q, "b1");
	CHECK_TEXT(name_of(verify_queue_next(&q, NULL)), "a2");
	CHECK_TEXT(name_of(verify_queue_next(&q, NULL)), "b1");
	add(&q, "b2");
	add(&q, "b3");
	CHECK_TEXT(name_of(verify_queue_next(&q, NULL)), "a3");
	CHECK_TEXT(name_of(verify_queue_next(&q, NULL)), "b2");
	CHECK_TEXT(name_of(verify_queue_next(&q, NULL)), "a4");
	CHECK_TEXT(name_of(verify_queue_next(&q, NULL)), "b3");
	CHECK_TEXT(name_of(verify_queue_next(&q, NULL)), "a5");
	CHECK_INT(q.waiting, 0);
}

/* Accepts every entry except the entries of this source or with this number. */
static const char *held_back;

static bool fits_source(void *context, const struct verify_source *source)
{
	const struct verify_source held = source_of(held_back[0]);

	(void)context;
	return memcmp(source, &held, sizeof(held)) != 0;
}

static bool fits_place(void *context, struct verify_place *place)
{
	(void)context;
	return LIST_OBJECT(place, struct named, place)->name[1] != held_back[1];
}

TEST(shared_entry_waits_in_the_shorter_queue)
{
	const struct verify_source b = source_of('b'), c = source_of('c');
	struct verify_queue q;

	fill(&q, "a1 a2 a3 b1");
	verify_queue_share(&q, &all[2].place, &c);
	CHECK_INT(q.waiting, 4);
	/* with one entry each there is no gain */
	verify_queue_share(&q, &all[2].place, &b);
	verify_queue_share(&q, &all[3].place, &c);
	verify_queue_share(&q, &all[1].place, &b);
	CHECK_TEXT(name_of(verify_queue_next(&q, NULL)), "a1");
	CHECK_TEXT(name_of(verify_queue_next(&q, NULL)), "b1");
	CHECK_TEXT(name_of(verify_queue_next(&q, NULL)), "a3");
	CHECK_TEXT(name_of(verify_queue_next(&q, NULL)), "a2");
	verify_queue_share(&q, &all[0].place, &b);
	CHECK(!q.by_source && q.waiting == 0);
}

TEST(shared_entry_never_waits_longer)
{
	const struct verify_source b = source_of('b'), c = source_of('c');
	struct verify_queue q;

	fill(&q, "a1 a2 a3 a4 a5 b1 b2");
	/* the next in the queue, and served before the third of b */
	verify_queue_share(&q, &all[0].place, &c);
	verify_queue_share(&q, &all[1].place, &b);
	verify_queue_share(&q, &all[2].place, &b);
	CHECK_TEXT(name_of(verify_queue_next(&q, NULL)), "a1");
	CHECK_TEXT(name_of(verify_queue_next(&q, NULL)), "b1");
	CHECK_TEXT(name_of(verify_queue_next(&q, NULL)), "a2");
	CHECK_TEXT(name_of(verify_queue_next(&q, NULL)), "b2");
	while (verify_queue_next(&q, NULL))
		;
	CHECK(!q.by_source);
}

TEST(held_back_entry_does_not_delay_others)
{
	const struct verify_fit fit = { .source = fits_source, .place = fits_place };
	struct verify_queue q;

	fill(&q, "a1 a2 b1 b2 b3 c1");
	held_back = "a1";
	CHECK_TEXT(name_of(verify_queue_next(&q, &fit)), "b2");
	CHECK_TEXT(name_of(verify_queue_next(&q, &fit)), "b3");
	CHECK_TEXT(name_of(verify_queue_next(&q, &fit)), "nobody");
	/* a and c have had no turn */
	held_back = "x2";
	CHECK_TEXT(name_of(verify_queue_next(&q, &fit)), "a1");
	CHECK_TEXT(name_of(verify_queue_next(&q, &fit)), "c1");
	CHECK_TEXT(name_of(verify_queue_next(&q, &fit)), "b1");
	CHECK_TEXT(name_of(verify_queue_next(&q, &fit)), "nobody");
	CHECK_TEXT(name_of(verify_queue_next(&q, NULL)), "a2");
	CHECK(!q.by_source);
}

TEST(youngest_entry_of_the_fullest_source_is_displaced)
{
	struct verify_queue q;

	fill(&q, "a1 a2 a3 a4 b1 b2");
	CHECK_TEXT(displaced_by(&q, 'c'), "a4");
	add(&q, "c1");
	CHECK_TEXT(displaced_by(&q, 'c'), "a3");
	add(&q, "c2");
	/* two entries each: a third would exceed every other source */
	CHECK_TEXT(displaced_by(&q, 'c'), "nobody");
	CHECK_TEXT(displaced_by(&q, 'a'), "nobody");
	/* the first login of a source precedes the second of another */
	CHECK_TEXT(displaced_by(&q, 'd'), "a2");
	add(&q, "d1");
	CHECK_TEXT(displaced_by(&q, 'd'), "nobody");
	CHECK_TEXT(displaced_by(&q, 'e'), "b2");
	add(&q, "e1");
	CHECK_TEXT(displaced_by(&q, 'f'), "c2");
	add(&q, "f1");
	CHECK_TEXT(displaced_by(&q, 'g'), "nobody");
	CHECK_INT(q.waiting, 6);
	while (verify_queue_next(&q, NULL))
		;
	CHECK_TEXT(displaced_by(&q, 'a'), "nobody");
}

TEST(entry_of_the_fullest_group_is_displaced)
{
	struct verify_queue q;

	fill(&q, "A1 B1 B2 C1 D1 a1 a2 a3");
	CHECK_TEXT(displaced_by(&q, 'b'), "B2");
	add(&q, "b1");
	CHECK_TEXT(displaced_by(&q, 'b'), "A1");
	/* three, and three of a: no other group may displace more of its own */
	CHECK_TEXT(displaced_by(&q, 'E'), "nobody");
	add(&q, "B3");
	CHECK_TEXT(displaced_by(&q, 'a'), "nobody");
	add(&q, "C2");
	CHECK_TEXT(displaced_by(&q, 'c'), "B3");
	CHECK_TEXT(displaced_by(&q, 'E'), "C2");
	while (verify_queue_next(&q, NULL))
		;
}

TEST(shared_entry_leaves_a_large_group)
{
	const struct verify_source a = source_of('a'), b = source_of('b');
	struct verify_queue q;

	fill(&q, "A1 B1 C1 D1 a1 a2");
	/* the fourth turn of the group, and the third of a */
	verify_queue_share(&q, &all[3].place, &a);
	verify_queue_share(&q, &all[0].place, &b);
	CHECK_TEXT(name_of(verify_queue_next(&q, NULL)), "A1");
	CHECK_TEXT(name_of(verify_queue_next(&q, NULL)), "a1");
	CHECK_TEXT(name_of(verify_queue_next(&q, NULL)), "B1");
	CHECK_TEXT(name_of(verify_queue_next(&q, NULL)), "a2");
	CHECK_TEXT(name_of(verify_queue_next(&q, NULL)), "C1");
	CHECK_TEXT(name_of(verify_queue_next(&q, NULL)), "D1");
	CHECK(!q.by_source && !q.by_group);
}

static void join(void *context, struct verify_place *place)
{
	strcat(context, name_of(place));
}

TEST(removed_entry_takes_no_turn)
{
	struct verify_queue q;
	char text[100] = "";

	fill(&q, "a1 a2 b1 b2 c1");
	verify_queue_remove(&q, &all[0].place);
	verify_queue_remove(&q, &all[0].place);
	verify_queue_remove(&q, &all[4].place);
	verify_queue_each(&q, join, text);
	CHECK_TEXT(text, "a2b1b2");
	CHECK_INT(q.waiting, 3);
	verify_queue_remove(&q, &all[1].place);
	CHECK_TEXT(name_of(verify_queue_next(&q, NULL)), "b1");
	verify_queue_remove(&q, &all[3].place);
	CHECK(!verify_queue_next(&q, NULL) && !q.by_source);
}

TEST(sources_are_compared_in_full)
{
	struct verify_queue q;
	struct verify_source source = { .bytes = { 0 } };

	used = 0;
	verify_queue_init(&q);
	for (size_t i = 0; i < sizeof(source.bytes); i++) {
		verify_place_init(&all[i].place);
		source.bytes[i] = 1;
		CHECK(verify_queue_add(&q, &all[i].place, &source));
		source.bytes[i] = 0;
	}
	LIST_EACH(node, &q.turns)
		used++;
	CHECK_INT(used, 17);
	while (verify_queue_next(&q, NULL))
		;
}

UNIT_MAIN
