#include "outage/faults.h"

#include <weir/backend.h>

#include "faults/ground.h"

enum { BUSY_LOOPS = 20, LOOK_US = 200, USE_MOST_US = 5000000 };

/* A fault is run on this. */
struct scene {
  const struct fault *fault;
  struct server *server;
  const struct lane *const *lanes;
  size_t count;
  struct tally *tally;
  uint64_t *random;
  struct fault_course *course;
};

static int64_t draw(struct scene *scene, int64_t least, int64_t most) {
  return least + (int64_t)((next_number(scene->random) >> 33) % (uint64_t)(most - least + 1));
}

/* From now on key 0 of the lanes of a day is asked for; until the first of them has admitted that
 * part of its limit. Without such a lane nothing is waited for. */
static void use_day(struct scene *scene, int64_t percent) {
  atomic_store(&scene->tally->day_begun, true);
  for (size_t i = 0; i < scene->count; i++) {
    if (!scene->lanes[i]->is_day) continue;
    int64_t most = scene->lanes[i]->limit * percent / 100;
    for (int64_t end_us = weir_monotonic_us() + USE_MOST_US;
         tally_of_day(scene->tally, i, false) < most;) {
      if (weir_monotonic_us() > end_us) give_up("%s: not used", scene->lanes[i]->rule);
      sleep_us(LOOK_US);
    }
    return;
  }
}

static void begin(struct scene *scene) {
  scene->course->begin_us = real_time_us();
  atomic_store(&scene->tally->fault_us, weir_monotonic_us());
}

static void stop_for_a_while(struct scene *scene) {
  begin(scene);
  server_stop(scene->server);
  sleep_us(scene->fault->length_us);
  server_continue(scene->server);
  scene->course->end_us = real_time_us();
}

static void kill_for_a_while(struct scene *scene) {
  begin(scene);
  server_kill(scene->server);
  for (size_t i = 0; i < scene->count; i++)
    scene->course->forgotten[i] = tally_of_day(scene->tally, i, true);
  sleep_us(scene->fault->length_us);
  for (size_t i = 0; i < scene->count; i++)
    scene->course->admitted_until_back[i] = tally_of_day(scene->tally, i, false);
  server_restart(scene->server);
  scene->course->end_us = real_time_us();
}

static void loop(void *context) {
  int64_t end_us = weir_monotonic_us() + *(const int64_t *)context;
  while (weir_monotonic_us() < end_us)
    continue;
}

static void keep_busy(struct scene *scene) {
  pid_t loops[BUSY_LOOPS];
  int64_t length_us = scene->fault->length_us;
  begin(scene);
  for (size_t i = 0; i < BUSY_LOOPS; i++)
    loops[i] = start_process(loop, &length_us);
  sleep_us(length_us);
  for (size_t i = 0; i < BUSY_LOOPS; i++)
    end_process(loops[i]);
  scene->course->end_us = real_time_us();
}

void fault_run(const struct fault *fault, struct server *server, const struct lane *const *lanes,
               size_t count, struct tally *tally, uint64_t *random, struct fault_course *course) {
  struct scene scene = {fault, server, lanes, count, tally, random, course};
  *course = (struct fault_course){0};
  sleep_us(fault->warm_up_us);
  switch (fault->kind) {
    case FAULT_PAUSE:
      use_day(&scene, draw(&scene, 10, 90));
      stop_for_a_while(&scene);
      break;
    case FAULT_KILL:
      sleep_us(draw(&scene, 0, WINDOW_US));
      use_day(&scene, 50);
      kill_for_a_while(&scene);
      break;
    case FAULT_STOP:
      stop_for_a_while(&scene);
      break;
    case FAULT_BUSY:
      keep_busy(&scene);
      break;
  }
  sleep_us(fault->after_us);
}
