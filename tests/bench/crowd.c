/* crowd PORT THREADS SECONDS: threads that share the wire to one memcached on this machine, how long
 * their operations take, where that time goes, and how long leaders led while others waited
 * (weir_wire_leading). */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "memcached/codec.h"
#include "wire/wire.h"

enum { THREADS_MOST = 256, SAMPLES = 1 << 16, TIMEOUT_US = 1000000 };

typedef struct member {
  weir_wire *wire;
  int64_t end_us;
  size_t count; /* of operations; the last SAMPLES of them are kept */
  size_t failed;
  int64_t *took_ns;
  int64_t ran_ns, queued_ns; /* on a processor; waiting for one, as the kernel tells */
} member;

static int64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Reads the kernel's figures of this thread; without them, nothing. */
static void read_schedule(member *self) {
  char path[64], line[128];
  long long ran = 0, queued = 0;
  snprintf(path, sizeof path, "/proc/self/task/%ld/schedstat", syscall(SYS_gettid));
  FILE *file = fopen(path, "r");
  if (file == NULL) return;
  if (fgets(line, sizeof line, file) != NULL && sscanf(line, "%lld %lld", &ran, &queued) == 2) {
    self->ran_ns = ran;
    self->queued_ns = queued;
  }
  fclose(file);
}

static void *work(void *context) {
  static const char key[] = "weir:crowd";
  member *self = context;
  for (int64_t begin_ns = now_ns(); begin_ns / 1000 < self->end_us;) {
    weir_operation get = {.kind = WEIR_GET, .key = key};
    get.key_length = get.home_length = sizeof key - 1;
    weir_wire_slot *slot = weir_wire_slot_take(self->wire);
    if (slot == NULL || !weir_wire_slot_add(slot, &get, 0)) return NULL;
    weir_wire_submit(self->wire, slot, ~0U, begin_ns / 1000 + TIMEOUT_US);
    weir_wire_finish(self->wire, slot, NULL);
    int64_t end_ns = now_ns();
    self->failed += get.outcome >= WEIR_NOT_SENT;
    self->took_ns[self->count++ % SAMPLES] = end_ns - begin_ns;
    begin_ns = end_ns;
  }
  read_schedule(self);
  return NULL;
}

static int compare(const void *one, const void *other) {
  int64_t difference = *(const int64_t *)one - *(const int64_t *)other;
  return difference < 0 ? -1 : difference > 0;
}

/* Reports all members' samples together. */
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

static void report_times(const member *members, size_t count, double seconds) {
  static const int64_t ends_us[] = {25, 50, 100, 200, 400, 800, 1600, 3200, 6400, INT64_MAX};
  enum { ENDS = sizeof ends_us / sizeof *ends_us };
  size_t bins[ENDS] = {0}, done = 0;
  double ran = 0, queued = 0;
  for (size_t i = 0; i < count; i++) {
    size_t own = members[i].count < SAMPLES ? members[i].count : SAMPLES;
    for (size_t j = 0; j < own; j++) {
      int bin = 0;
      while (members[i].took_ns[j] / 1000 >= ends_us[bin])
        bin++;
      bins[bin]++;
    }
    done += members[i].count;
    ran += (double)members[i].ran_ns / 1e3;
    queued += (double)members[i].queued_ns / 1e3;
  }
  if (done == 0) return;
  double all = (double)count * seconds * 1e6;
  printf("  an operation: %.1f us on a processor, %.1f waiting for one, %.1f for the rest\n",
         ran / (double)done, queued / (double)done, (all - ran - queued) / (double)done);
  printf("  operations by time:");
  for (int i = 0; i < ENDS; i++)
    if (i < ENDS - 1)
      printf(" <%lld us %zu,", (long long)ends_us[i], bins[i]);
    else
      printf(" above %zu\n", bins[i]);
}

static void report_leading(weir_wire *wire) {
  weir_wire_leading led = weir_wire_read_leading(wire);
  double times = led.times > 0 ? (double)led.times : 1;
  printf(
      "  led while others waited: %llu times, %.1f us each, %.0f us at most; served %.2f each, "
      "%llu at most\n  times by served:",
      (unsigned long long)led.times, (double)led.led_us / times, (double)led.longest_us,
      (double)led.served / times, (unsigned long long)led.most);
  for (int i = 0; i < WEIR_WIRE_LEADING_BINS; i++)
    printf(" %s%d: %llu%s", i > 1 ? "from " : "", i > 0 ? 1 << (i - 1) : 0,
           (unsigned long long)led.bins[i], i + 1 < WEIR_WIRE_LEADING_BINS ? "," : "\n");
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
  report_times(members, wanted, seconds);
  report_leading(wire);
  for (size_t i = 0; i < wanted; i++)
    free(members[i].took_ns);
  weir_wire_close(wire);
  return failed > 0;
}
