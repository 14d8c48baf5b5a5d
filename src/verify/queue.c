/*
 * The queue in front of the verifiers, which serves the sources in turns.
 *
 * An unauthenticated client can ask any number of questions, each as long as PAM needs to reject a
 * password. In a single queue these questions would delay all others. Therefore each source has its
 * own share of the queue, and the shares take turns: a client from an address without other
 * questions waits for at most one question of each other address.
 *
 * A site may have very many addresses: all of a /48 network of IPv6. Its sources form a group, and
 * the groups take turns; in each turn of a group its next source is served.
 *
 * The caller limits the length of the queue. If the queue is full, a question from a source with
 * few questions displaces the newest question of the source with the most; a source that would then
 * have as many as the fullest source displaces no question of another source. The same holds for
 * groups, and for the sources of one group. Therefore no source can lock out another, and a crowd
 * from one address does not displace its own questions.
 *
 * Invariant: a share exists while a question waits in it, and is in its group and in `by_source`; a
 * group exists while it has a share, and is in `turns` and in `by_group`; each `waiting` is the sum
 * over the level below.
 */
#include "verify/queue.h"

#include "base/assert.h"
#include "base/mem.h"

#include <string.h>

struct verify_group {
	struct list node;		/* in `turns` */
	struct list shares;		/* in the order of service */
	int share_count, waiting;	/* waiting: number of places in all shares */
	struct verify_source key;	/* zeros after the bytes of the group */
	UT_hash_handle hh;
};

struct verify_share {
	struct list node;		/* of the group */
	struct list places;		/* oldest first */
	int waiting;
	struct verify_group *group;
	struct verify_source source;
	UT_hash_handle hh;
};

static struct verify_source group_key(const struct verify_source *source)
{
	struct verify_source key = *source;

	if (key.group > 0 && key.group < sizeof(key.bytes))
		memset(key.bytes + key.group, 0, sizeof(key.bytes) - key.group);
	return key;
}

bool verify_source_same_group(const struct verify_source *a, const struct verify_source *b)
{
	const struct verify_source one = group_key(a), other = group_key(b);

	return memcmp(&one, &other, sizeof(one)) == 0;
}

/* ---- shares and groups ---- */

static struct verify_share *queue_find(const struct verify_queue *q,
				       const struct verify_source *source)
{
	struct verify_share *share;

	HASH_FIND(hh, q->by_source, source, sizeof(*source), share);
	return share;
}

static struct verify_group *find_group(const struct verify_queue *q,
				       const struct verify_source *source)
{
	const struct verify_source key = group_key(source);
	struct verify_group *group;

	HASH_FIND(hh, q->by_group, &key, sizeof(key), group);
	return group;
}

static void group_free_if_empty(struct verify_queue *q, struct verify_group *group)
{
	if (group->share_count > 0)
		return;
	list_remove(&group->node);
	HASH_DEL(q->by_group, group);
	mem_free(group);
}

/* Adds a share, and a group if necessary. NULL: no memory. */
static struct verify_share *share_new(struct verify_queue *q, const struct verify_source *source)
{
	struct verify_group *group = find_group(q, source);
	struct verify_share *share;

	if (!group) {
		group = mem_try(sizeof(*group));
		if (!group)
			return NULL;
		group->key = group_key(source);
		HASH_ADD(hh, q->by_group, key, sizeof(group->key), group);
		if (!HASH_HAS(hh, group)) {
			mem_free(group);
			return NULL;
		}
		list_init(&group->shares);
		list_init(&group->node);
		list_append(&q->turns, &group->node);
	}
	share = mem_try(sizeof(*share));
	if (share) {
		share->source = *source;
		HASH_ADD(hh, q->by_source, source, sizeof(share->source), share);
	}
	if (!share || !HASH_HAS(hh, share)) {
		mem_free(share);
		group_free_if_empty(q, group);
		return NULL;
	}
	share->group = group;
	list_init(&share->places);
	list_init(&share->node);
	list_append(&group->shares, &share->node);
	group->share_count++;
	return share;
}

/* ---- waiting ---- */

static void join(struct verify_queue *q, struct verify_share *share, struct verify_place *place)
{
	place->share = share;
	list_append(&share->places, &place->node);
	share->waiting++;
	share->group->waiting++;
	q->waiting++;
}

bool verify_queue_add(struct verify_queue *q, struct verify_place *place,
		      const struct verify_source *source)
{
	struct verify_share *share = queue_find(q, source);

	ASSERT(!place->share);
	if (!share && !(share = share_new(q, source)))
		return false;
	join(q, share, place);
	return true;
}

void verify_queue_remove(struct verify_queue *q, struct verify_place *place)
{
	struct verify_share *share = place->share;
	struct verify_group *group;

	if (!share)
		return;
	group = share->group;
	place->share = NULL;
	list_remove(&place->node);
	q->waiting--;
	group->waiting--;
	if (--share->waiting > 0)
		return;
	list_remove(&share->node);
	HASH_DEL(q->by_source, share);
	mem_free(share);
	group->share_count--;
	group_free_if_empty(q, group);
}

/* Returns the index of the node in the list. */
static int index_of(const struct list *head, const struct list *of)
{
	int before = 0;

	for (const struct list *node = head->next; node != of; node = node->next)
		before++;
	return before;
}

void verify_queue_share(struct verify_queue *q, struct verify_place *place,
			const struct verify_source *source)
{
	const struct verify_share *old = place->share;
	struct verify_share *fresh = queue_find(q, source);
	const struct verify_group *group = find_group(q, source);
	int before, before_new;

	if (!old)
		return;
	/* the turns of its group that come before the turn of this place, and before the turn of a
	   new place of this source */
	before = index_of(&old->places, &place->node) * old->group->share_count +
		 index_of(&old->group->shares, &old->node);
	if (fresh)
		before_new = fresh->waiting * fresh->group->share_count +
			     index_of(&fresh->group->shares, &fresh->node);
	else
		before_new = group ? group->share_count : 0;
	if (before <= before_new || (!fresh && !(fresh = share_new(q, source))))
		return;
	verify_queue_remove(q, place);
	join(q, fresh, place);
}

/* ---- turns ---- */

struct verify_place *verify_queue_next(struct verify_queue *q, const struct verify_fit *fit)
{
	LIST_EACH(turn, &q->turns) {
		LIST_EACH(node, &LIST_OBJECT(turn, struct verify_group, node)->shares) {
			struct verify_share *share = LIST_OBJECT(node, struct verify_share, node);

			if (fit && !fit->source(fit->context, &share->source))
				continue;
			LIST_EACH(waiting, &share->places) {
				struct verify_place *place = LIST_OBJECT(waiting,
									 struct verify_place, node);

				if (fit && !fit->place(fit->context, place))
					continue;
				/* the next turn of this source and of its group comes after all
				   others */
				list_remove(&share->group->node);
				list_append(&q->turns, &share->group->node);
				list_remove(&share->node);
				list_append(&share->group->shares, &share->node);
				verify_queue_remove(q, place);
				return place;
			}
		}
	}
	return NULL;
}

/* ---- displacing ---- */

static const struct verify_share *fullest_share(const struct verify_group *group)
{
	const struct verify_share *fullest = NULL;

	LIST_EACH(node, &group->shares) {
		const struct verify_share *share = LIST_OBJECT(node, struct verify_share, node);

		if (!fullest || share->waiting > fullest->waiting)
			fullest = share;
	}
	return fullest;
}

struct verify_place *verify_queue_displace(struct verify_queue *q,
					   const struct verify_source *source)
{
	const struct verify_share *own = queue_find(q, source), *fullest = NULL;
	const struct verify_group *own_group = find_group(q, source), *group = NULL;
	struct verify_place *youngest;

	LIST_EACH(node, &q->turns) {
		const struct verify_group *each = LIST_OBJECT(node, struct verify_group, node);

		if (!group || each->waiting > group->waiting)
			group = each;
	}
	if (group && group->waiting > (own_group ? own_group->waiting : 0) + 1)
		fullest = fullest_share(group);
	else if (own_group && (fullest = fullest_share(own_group)) != NULL &&
		 fullest->waiting <= (own ? own->waiting : 0) + 1)
		fullest = NULL;
	if (!fullest)
		return NULL;
	youngest = LIST_OBJECT(fullest->places.prev, struct verify_place, node);
	verify_queue_remove(q, youngest);
	return youngest;
}

void verify_queue_each(const struct verify_queue *q,
		       void (*visit)(void *context, struct verify_place *place), void *context)
{
	LIST_EACH(turn, &q->turns)
		LIST_EACH(share, &LIST_OBJECT(turn, struct verify_group, node)->shares)
			LIST_EACH(node, &LIST_OBJECT(share, struct verify_share, node)->places)
				visit(context, LIST_OBJECT(node, struct verify_place, node));
}
