/* A file is a head and slots. A key may stand in any of the WINDOW slots from where its hash points
 * on, so looking it up is a walk over these, and a slot that was left needs no mark. One lock,
 * which all processes share, guards everything; who dies holding it leaves no slot half written. */
#include "mapped.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { WINDOW = 16, SLOTS_DEFAULT = 65536, SLOTS_MOST = 1 << 24, PATH_BYTES = 4096 };

typedef struct slot {
  int64_t value;
  uint64_t version;   /* of the last write to it, by the head's count: never 0 */
  int64_t expires_us; /* weir_monotonic_us(): all processes of a machine have the same */
  uint16_t length;    /* of the key; 0: free. Written last where a key is made */
  char key[WEIR_STORE_KEY_MOST];
} slot;

typedef struct mapped {
  char magic[8];
  uint64_t bytes; /* of the file */
  uint64_t slot_count;
  uint64_t writes;
  pthread_mutex_t lock;
  slot slots[];
} mapped;

static const char magic[8] = "weirmap1";

/* --- keys --------------------------------------------------------------------------------------
 */

static uint64_t hash(const char *key, size_t length) {
  uint64_t sum = UINT64_C(14695981039346656037);
  for (size_t i = 0; i < length; i++)
    sum = (sum ^ (unsigned char)key[i]) * UINT64_C(1099511628211);
  return sum ^ sum >> 32;
}

/* The key's slot, or NULL; *room is one that can be taken, or NULL. A key whose time is over is not
 * there. */
static slot *find(mapped *map, const weir_operation *operation, int64_t now_us, slot **room) {
  uint64_t first = hash(operation->key, operation->key_length) % map->slot_count;
  slot *found = NULL;
  *room = NULL;
  for (size_t i = 0; i < WINDOW && found == NULL; i++) {
    slot *each = &map->slots[(first + i) % map->slot_count];
    if (each->length != 0 && each->expires_us <= now_us) each->length = 0;
    if (each->length == 0 && *room == NULL) *room = each;
    if (each->length == operation->key_length &&
        memcmp(each->key, operation->key, each->length) == 0)
      found = each;
  }
  return found;
}

/* --- operations --------------------------------------------------------------------------------
 */

static void refuse(weir_operation *operation, weir_message *message, const char *why) {
  operation->outcome = WEIR_REFUSED;
  weir_message_set(message, "%s", why);
}

/* A process may be killed between any two of its stores: the fences keep these in their order. */
static void in_order(void) {
  atomic_signal_fence(memory_order_seq_cst);
}

/* Whatever writes makes the version another, before the value is. */
static void write_value(mapped *map, slot *at, int64_t value, weir_operation *operation) {
  at->version = ++map->writes;
  in_order();
  at->value = value;
  operation->version_out = at->version;
  operation->outcome = WEIR_DONE;
}

static void make(mapped *map, slot *room, int64_t value, int64_t now_us, weir_operation *operation,
                 weir_message *message) {
  if (room == NULL) {
    refuse(operation, message, "the file has no room for the key: make one with more slots");
    return;
  }
  memcpy(room->key, operation->key, operation->key_length);
  room->expires_us = now_us + operation->ttl_us;
  write_value(map, room, value, operation);
  in_order();
  room->length = operation->key_length;
}

static void add(mapped *map, slot *found, slot *room, int64_t now_us, weir_operation *operation,
                weir_message *message) {
  if (found == NULL) {
    operation->value = operation->seed + operation->delta; /* 2^62 each at the most ... */
    make(map, room, operation->value, now_us, operation, message);
  } else if (found->value > INT64_MAX - operation->delta) { /* ... but not what adds up */
    refuse(operation, message, "the total does not fit into 64 bits");
  } else {
    if (operation->refresh) found->expires_us = now_us + operation->ttl_us;
    write_value(map, found, found->value + operation->delta, operation);
    operation->value = found->value;
  }
}

static void subtract(mapped *map, slot *found, weir_operation *operation, weir_message *message) {
  if (found->value < INT64_MIN + operation->delta) {
    refuse(operation, message, "the total does not fit into 64 bits");
    return;
  }
  write_value(map, found, found->value - operation->delta, operation);
  operation->value = found->value;
}

static void replace(mapped *map, slot *found, int64_t now_us, weir_operation *operation) {
  found->expires_us = now_us + operation->ttl_us;
  write_value(map, found, operation->value, operation);
}

static void execute(mapped *map, weir_operation *operation, int64_t now_us, weir_message *message) {
  slot *room;
  slot *found = find(map, operation, now_us, &room);
  operation->outcome = WEIR_ABSENT;
  switch (operation->kind) {
    case WEIR_ADD:
      add(map, found, room, now_us, operation, message);
      break;
    case WEIR_SUB:
      if (found != NULL) subtract(map, found, operation, message);
      break;
    case WEIR_GET:
      if (found == NULL) break;
      operation->value = found->value;
      operation->version_out = found->version;
      operation->outcome = WEIR_DONE;
      break;
    case WEIR_CREATE:
      operation->outcome = WEIR_CONFLICT;
      if (found == NULL) make(map, room, operation->value, now_us, operation, message);
      break;
    case WEIR_SWAP:
      if (found == NULL) break;
      operation->outcome = WEIR_CONFLICT;
      if (found->version == operation->version) replace(map, found, now_us, operation);
      break;
    case WEIR_PUT:
      if (found != NULL)
        replace(map, found, now_us, operation);
      else
        make(map, room, operation->value, now_us, operation, message);
      break;
    case WEIR_DROP:
      if (found == NULL) break;
      found->length = 0;
      operation->outcome = WEIR_DONE;
      break;
    case WEIR_RAISE: /* for stores without compare-and-swap */
    default:
      refuse(operation, message, "there is no such operation here");
  }
}

/* Deadlines are of CLOCK_MONOTONIC, the lock's are not. */
static bool lock(mapped *map, int64_t deadline_us) {
  int64_t left_us = deadline_us - weir_monotonic_us();
  struct timespec end;
  if (left_us <= 0) return false;
  clock_gettime(CLOCK_REALTIME, &end);
  int64_t end_us = end.tv_nsec / 1000 + left_us;
  end.tv_sec += end_us / 1000000;
  end.tv_nsec = end_us % 1000000 * 1000;
  int error = pthread_mutex_timedlock(&map->lock, &end);
  if (error == EOWNERDEAD) error = pthread_mutex_consistent(&map->lock);
  return error == 0;
}

static void mapped_exec(void *handle, weir_operation *operations, size_t count, int64_t deadline_us,
                        weir_message *message) {
  mapped *map = handle;
  bool locked = lock(map, deadline_us);
  int64_t now_us = weir_monotonic_us();
  for (size_t i = 0; i < count; i++) {
    if (locked) {
      execute(map, &operations[i], now_us, message);
    } else { /* nobody proves that the file is away: so it is late */
      operations[i].outcome = WEIR_NOT_SENT;
      operations[i].late = true;
    }
  }
  if (locked)
    pthread_mutex_unlock(&map->lock);
  else
    weir_message_set(message, "the deadline passed before the file could be locked");
}

/* --- opening -----------------------------------------------------------------------------------
 */

static bool init_lock(pthread_mutex_t *made) {
  pthread_mutexattr_t attributes;
  if (pthread_mutexattr_init(&attributes) != 0) return false;
  bool good = pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED) == 0 &&
              pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST) == 0 &&
              pthread_mutex_init(made, &attributes) == 0;
  pthread_mutexattr_destroy(&attributes);
  return good;
}

/* A file is made under another name and whole before it gets its own, so that nobody sees half of
 * one. A process that comes second takes the first one's. Errors are errno's. */
static bool make_file(const char *path, uint64_t slot_count) {
  char name[PATH_BYTES];
  uint64_t bytes = sizeof(mapped) + slot_count * sizeof(slot);
  if (snprintf(name, sizeof name, "%s.XXXXXX", path) >= (int)sizeof name) {
    errno = ENAMETOOLONG;
    return false;
  }
  int file = mkstemp(name);
  if (file < 0) return false;
  mapped *map = MAP_FAILED;
  if (ftruncate(file, (off_t)bytes) == 0)
    map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  bool good = map != MAP_FAILED && init_lock(&map->lock);
  if (good) {
    memcpy(map->magic, magic, sizeof magic);
    map->bytes = bytes;
    map->slot_count = slot_count;
    good = link(name, path) == 0 || errno == EEXIST;
  }
  int error = errno;
  if (map != MAP_FAILED) munmap(map, bytes);
  unlink(name);
  close(file);
  errno = error;
  return good;
}

/* NULL: errno says why; EINVAL for a file of another kind. */
static mapped *map_file(const char *path) {
  struct stat found;
  mapped *map = MAP_FAILED;
  int file = open(path, O_RDWR | O_CLOEXEC);
  if (file < 0) return NULL;
  errno = EINVAL;
  if (fstat(file, &found) == 0 && (uint64_t)found.st_size >= sizeof *map)
    map = mmap(NULL, (size_t)found.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (map == MAP_FAILED) return NULL;
  uint64_t slots_bytes = (uint64_t)found.st_size - sizeof *map;
  if (memcmp(map->magic, magic, sizeof magic) == 0 && map->bytes == (uint64_t)found.st_size &&
      map->slot_count > 0 && map->slot_count == slots_bytes / sizeof(slot))
    return map;
  munmap(map, (size_t)found.st_size);
  errno = EINVAL;
  return NULL;
}

static weir_status mapped_open(const weir_url *url, int64_t timeout_us, void **handle,
                               weir_message *message) {
  int64_t slot_count;
  (void)timeout_us;
  weir_status status =
      weir_url_integer(url, "slots", WINDOW, SLOTS_MOST, SLOTS_DEFAULT, &slot_count, message);
  if (status != WEIR_OK) return status;
  mapped *map = map_file(url->path);
  if (map == NULL && errno == ENOENT && make_file(url->path, (uint64_t)slot_count))
    map = map_file(url->path);
  if (map == NULL) {
    weir_message_set(message, "%s: %s", url->path,
                     errno == EINVAL ? "no file of this kind" : strerror(errno));
    return WEIR_BAD_URL;
  }
  *handle = map;
  return WEIR_OK;
}

static void mapped_close(void *handle) {
  mapped *map = handle;
  munmap(map, map->bytes);
}

const weir_backend mapped_backend = {
    .size = sizeof(weir_backend),
    .name = "mapped",
    .schemes = (const weir_scheme[]){{"mapped", WEIR_URL_PATH}, {NULL, 0}},
    .options = (const char *const[]){"slots", NULL},
    .traits = WEIR_TRAIT_SWAP,
    .open = mapped_open,
    .exec = mapped_exec,
    .close = mapped_close,
};
