/* crowd PORT THREADS SECONDS: threads that share the wire to one memcached on this machine, how long
 * their operations take, and how long leaders led while others waited (weir_wire_leading). */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "memcached/codec.h"
#include "wire/wire.h"

enum { THREADS_MOST = 256, SAMPLES = 1 << 16, TIMEOUT_US = 1000000 };

typedef struct member {
  weir_wire *wire;
  int64_t end_us;
  size_t count; /* of operations; the last SAMPLES of them are kept */
  size_t failed;
  int64_t *took_ns;
} member;

static int64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void *work(void *context) {
  static const char key[] = "weir:crowd";
  member *self = context;
  for (int64_t begin_ns = now_ns(); begin_ns / 1000 < self->end_us;) {
    weir_operation get = {.kind = WEIR_GET, .key = key};
    get.key_length = get.home_length = sizeof key - 1;
    weir_wire_slot *slot = weir_wire_slot_take(self->wire);
    if (slot == NULL || !weir_wire_slot_add(slot, &get, 0)) return NULL;
    weir_wire_submit(self->wire, slot, WEIR_WIRE_ANY_CONNECTION, ~0U, begin_ns / 1000 + TIMEOUT_US);
    weir_wire_finish(self->wire, slot, NULL);
    int64_t end_ns = now_ns();
    self->failed += get.outcome >= WEIR_NOT_SENT;
    self->took_ns[self->count++ % SAMPLES] = end_ns - begin_ns;
    begin_ns = end_ns;
  }
  return NULL;
}

static int compare(const void *one, const void *other) {
  int64_t difference = *(const int64_t *)one - *(const int64_t *)other;
  return difference < 0 ? -1 : difference > 0;
}

/* Of all members' samples together. */
static void report(member *members, size_t count, double seconds) {
  static int64_t all[THREADS_MOST * 1024];
  size_t kept = 0, done = 0, failed = 0;
  for (size_t i = 0; i < count; i++) {
    size_t own = members[i].count < SAMPLES ? members[i].count : SAMPLES;
    size_t step = own / 1024 + 1;
    for (size_t j = 0; j < own; j += step)
      all[kept++] = members[i].took_ns[j];
    done += members[i].count;
    failed += members[i].failed;
  }
  if (kept == 0) return;
  qsort(all, kept, sizeof *all, compare);
  size_t half = kept / 2;
  size_t most = kept * 99 / 100;
  double half_ns = (double)all[half];
  double most_ns = (double)all[most];
  printf("%zu threads: %.0f operations/s, p50 %.1f us, p99 %.1f us, worst %.1f us, %zu failed\n",
         count, (double)done / seconds, half_ns / 1000, most_ns / 1000,
         (double)all[kept - 1] / 1000, failed);
}

int main(int count, char **arguments) {
  static const weir_memcached_login login = {.wanted = WEIR_DIALECT_META};
  static member members[THREADS_MOST];
  pthread_t threads[THREADS_MOST];
  size_t wanted = count == 4 ? strtoul(arguments[2], NULL, 10) : 0;
  if (wanted < 1 || wanted > THREADS_MOST) {
    fputs("usage: crowd PORT THREADS SECONDS\n", stderr);
    return 2;
  }
  double seconds = strtod(arguments[3], NULL);
  const weir_wire_place place = {.host = "127.0.0.1",
                                 .port = (uint16_t)strtoul(arguments[1], NULL, 10)};
  const weir_wire_options options = {.timeout_us = TIMEOUT_US,
                                     .connect_us = TIMEOUT_US,
                                     .probe_us = TIMEOUT_US,
                                     .lookup_end_us = weir_monotonic_us() + TIMEOUT_US};
  weir_message why = {""};
  weir_wire *wire = NULL;
  if (weir_wire_open(&place, &weir_memcached_protocol, &login, &options, &wire, &why) != WEIR_OK ||
      !weir_wire_connect_all(&wire, 1, weir_monotonic_us() + TIMEOUT_US, &why)) {
    fprintf(stderr, "crowd: %s\n", why.text);
    return 1;
  }
  int64_t end_us = weir_monotonic_us() + (int64_t)(seconds * 1e6);
  for (size_t i = 0; i < wanted; i++) {
    members[i] =
        (member){.wire = wire, .end_us = end_us, .took_ns = calloc(SAMPLES, sizeof(int64_t))};
    if (members[i].took_ns == NULL || pthread_create(&threads[i], NULL, work, &members[i]) != 0)
      return 1;
  }
  size_t failed = 0;
  for (size_t i = 0; i < wanted; i++) {
    pthread_join(threads[i], NULL);
    failed += members[i].failed;
  }
  report(members, wanted, seconds);
#ifndef WITHOUT_LEADING
  weir_wire_leading led = weir_wire_read_leading(wire);
  double times = led.times > 0 ? (double)led.times : 1;
  printf(
      "  led while others waited: %llu times, %.1f us each, %.0f us at most; served %.2f each, "
      "%llu at most\n",
      (unsigned long long)led.times, (double)led.led_us / times, (double)led.longest_us,
      (double)led.served / times, (unsigned long long)led.most);
#endif
  for (size_t i = 0; i < wanted; i++)
    free(members[i].took_ns);
  weir_wire_close(wire);
  return failed > 0;
}
