#ifndef BASE_LIST_H
#define BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

/*
 * A circular doubly linked list with nodes embedded in the objects. The head of an empty list and a
 * detached node point to themselves.
 */
struct list {
	struct list *next, *prev;
};

#define LIST_OBJECT(node, type, member) ((type *)((char *)(node) - offsetof(type, member)))
/* Iterates; the body must not remove `node`. */
#define LIST_EACH(node, head) \
	for (struct list *node = (head)->next; node != (head); node = node->next)
/* Iterates; the body may remove `node` (but not its successor). */
#define LIST_EACH_SAFE(node, head) \
	for (struct list *node = (head)->next, *node##_next = node->next; node != (head); \
	     node = node##_next, node##_next = node->next)

static inline void list_init(struct list *l) { l->next = l->prev = l; }
static inline bool list_is_empty(const struct list *l) { return l->next == l; }
static inline void list_insert_between(struct list *node, struct list *before, struct list *after)
{
	node->prev = before;
	node->next = after;
	before->next = node;
	after->prev = node;
}
static inline void list_append(struct list *head, struct list *node)
{
	list_insert_between(node, head->prev, head);
}
static inline void list_prepend(struct list *head, struct list *node)
{
	list_insert_between(node, head, head->next);
}
/* Leaves the node detached; removing a detached node does nothing. */
static inline void list_remove(struct list *node)
{
	node->prev->next = node->next;
	node->next->prev = node->prev;
	list_init(node);
}
/* Returns the first node, or NULL if the list is empty. */
static inline struct list *list_first(const struct list *head)
{
	return head->next == head ? NULL : head->next;
}
static inline struct list *list_last(const struct list *head)
{
	return head->prev == head ? NULL : head->prev;
}

#endif
