/* The list with nodes inside the objects. */
#include "base/list.h"

#include "unit.h"

struct item {
	int value;
	struct list node;
};

static struct item items[4];

static void setup(struct list *head)
{
	list_init(head);
	for (int i = 0; i < 4; i++) {
		items[i].value = i;
		list_init(&items[i].node);
	}
}

/* The values from first to last as a decimal number, which also walks back to check the other direction. */
static int read_out(struct list *head)
{
	int sum = 0, back = 0, scale = 1;

	LIST_EACH(node, head)
		sum = sum * 10 + LIST_OBJECT(node, struct item, node)->value;
	for (struct list *node = head->prev; node != head; node = node->prev, scale *= 10)
		back += LIST_OBJECT(node, struct item, node)->value * scale;
	CHECK_INT(back, sum);
	return sum;
}

TEST(append_and_prepend_keep_order)
{
	struct list head;

	setup(&head);
	CHECK(list_is_empty(&head));
	CHECK(!list_first(&head));
	CHECK(!list_last(&head));
	list_append(&head, &items[2].node);
	list_append(&head, &items[3].node);
	list_prepend(&head, &items[1].node);
	CHECK_INT(read_out(&head), 123);
	CHECK(list_first(&head) == &items[1].node);
	CHECK(list_last(&head) == &items[3].node);
	CHECK(!list_is_empty(&head));
}

TEST(remove_detaches_and_may_be_repeated)
{
	struct list head;

	setup(&head);
	for (int i = 1; i < 4; i++)
		list_append(&head, &items[i].node);
	list_remove(&items[2].node);
	CHECK(list_is_empty(&items[2].node));
	CHECK_INT(read_out(&head), 13);
	list_remove(&items[2].node);
	CHECK_INT(read_out(&head), 13);
	list_remove(&items[1].node);
	list_remove(&items[3].node);
	CHECK(list_is_empty(&head));
}

TEST(safe_walk_survives_removal)
{
	struct list head;
	int seen = 0;

	setup(&head);
	for (int i = 1; i < 4; i++)
		list_append(&head, &items[i].node);
	LIST_EACH_SAFE(node, &head) {
		seen = seen * 10 + LIST_OBJECT(node, struct item, node)->value;
		list_remove(node);
	}
	CHECK_INT(seen, 123);
	CHECK(list_is_empty(&head));
}

UNIT_MAIN
