/* Who counts under which tag in a store. Entering and leaving take no longer where there are many.
 *
 *     bucket of the tag ──> stands ──> stands ──> ...   of any meanings, the newest first
 *                             ╵ └──> equal ──> equal    a ring: the same tag and meaning
 *
 * Who enters looks at all that stand in the bucket only until one has the same tag and another
 * meaning: that one is what he is told of. */
#include <stdio.h>
#include <string.h>

#include "store/process.h"
#include "store/store.h"

static weir_store_use **bucket_of(weir_store *store, const char *tag) {
  uint32_t hash = 2166136261U;
  for (; *tag != '\0'; tag++)
    hash = (hash ^ (unsigned char)*tag) * 16777619U;
  return &store->uses[(hash ^ hash >> 16) % WEIR_STORE_USE_BUCKETS];
}

static void stand(weir_store_use **link, weir_store_use *use) {
  use->next = *link;
  if (use->next != NULL) use->next->link = &use->next;
  use->link = link;
  *link = use;
}

static void join(weir_store_use *use, weir_store_use *equal) {
  use->equal = equal->equal;
  use->equal_before = equal;
  use->equal->equal_before = use;
  equal->equal = use;
}

bool weir_store_enter(weir_store *store, weir_store_use *use, char *other, size_t size) {
  weir_store_use **bucket = bucket_of(store, use->tag);
  const weir_store_use *differs = NULL;
  use->link = NULL;
  use->equal = use->equal_before = use;
  pthread_mutex_lock(&store->uses_lock);
  for (weir_store_use *found = *bucket; found != NULL && differs == NULL; found = found->next) {
    if (strcmp(found->tag, use->tag) != 0) continue;
    if (strcmp(found->meaning, use->meaning) != 0)
      differs = found;
    else if (use->equal == use)
      join(use, found);
  }
  if (use->equal == use) stand(bucket, use);
  if (differs != NULL) snprintf(other, size, "%s", differs->meaning);
  pthread_mutex_unlock(&store->uses_lock);
  return differs != NULL;
}

/* At the fork, a thread of the parent may have held the lock. */
void weir_store_leave(weir_store *store, weir_store_use *use) {
  if (store->process != weir_process_number) return;
  pthread_mutex_lock(&store->uses_lock);
  if (use->link != NULL) {
    *use->link = use->next;
    if (use->next != NULL) use->next->link = use->link;
    if (use->equal != use) stand(use->link, use->equal);
  }
  use->equal->equal_before = use->equal_before;
  use->equal_before->equal = use->equal;
  pthread_mutex_unlock(&store->uses_lock);
}
