/* Lines for those who run the server: composed where they are said, written by a thread of its own. */
#include "tell/log.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <weir/backend.h>

#include "condition.h"
#include "thread.h"

/* A write of 4 KiB at most goes into a pipe as a whole, so lines of processes do not mix. A line has
 * room for a text in which every byte is escaped. */
enum { TEXT_BYTES = 1024, LINE_BYTES = 3 * TEXT_BYTES, WRITE_BYTES = 4096 };
enum { ROOM_BYTES = 256 * 1024 };

/* The lines that wait, one after another, from `begin` on and round. */
static struct {
  pthread_mutex_t lock;
  pthread_cond_t has_more, has_ended;
  pthread_t thread;
  bool is_running, must_end, is_over;
  size_t begin, length;
  char room[ROOM_BYTES];
} waiting = {.lock = PTHREAD_MUTEX_INITIALIZER, .has_more = PTHREAD_COND_INITIALIZER};

static _Atomic uint64_t lost;
static _Atomic bool as_json;

void weir_serve_log_as_json(bool json) {
  atomic_store(&as_json, json);
}

uint64_t weir_serve_log_lost(void) {
  return atomic_load_explicit(&lost, memory_order_relaxed);
}

/* --- a line -------------------------------------------------------------------------------------
 */

typedef struct line {
  size_t length;
  char bytes[LINE_BYTES];
} line;

enum { END_BYTES = 2 }; /* "}\n" */

static void add(line *to, const char *text) {
  size_t room = sizeof to->bytes - END_BYTES - to->length;
  size_t length = strlen(text);
  if (length > room) length = room;
  memcpy(to->bytes + to->length, text, length);
  to->length += length;
}

static void add_string(line *to, const char *text) {
  add(to, "\"");
  for (; *text != '\0'; text++) {
    const char one[2] = {*text, '\0'};
    if (*text == '"' || *text == '\\') add(to, "\\");
    add(to, one);
  }
  add(to, "\"");
}

static void compose(line *to, const char *what, const weir_log_field *fields, size_t count) {
  bool json = atomic_load(&as_json);
  char text[40];
  struct timespec now;
  struct tm parts;
  to->length = 0;
  add(to, json ? "{\"time\":\"" : "");
  clock_gettime(CLOCK_REALTIME, &now);
  gmtime_r(&now.tv_sec, &parts);
  size_t length = strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
  snprintf(text + length, sizeof text - length, ".%03ldZ", now.tv_nsec / 1000000);
  add(to, text);
  add(to, json ? "\",\"message\":" : " weir: ");
  if (json)
    add_string(to, what);
  else
    add(to, what);
  for (size_t i = 0; i < count; i++) {
    const weir_log_field *field = &fields[i];
    const char *quote = field->is_quoted ? "\"" : "";
    add(to, json ? ",\"" : " ");
    add(to, field->name);
    add(to, json ? "\":" : "=");
    if (field->text != NULL && json) {
      add_string(to, field->text);
      continue;
    }
    snprintf(text, sizeof text, "%" PRId64, field->number);
    if (field->text != NULL) add(to, quote);
    add(to, field->text != NULL ? field->text : text);
    if (field->text != NULL) add(to, quote);
  }
  if (json) to->bytes[to->length++] = '}';
  to->bytes[to->length++] = '\n';
}

/* --- writing ------------------------------------------------------------------------------------
 */

/* Where stderr is one that does not wait, its reader is waited for all the same. False: it is lost. */
static bool write_all(const char *bytes, size_t length) {
  while (length > 0) {
    ssize_t written = write(STDERR_FILENO, bytes, length);
    struct pollfd ready = {.fd = STDERR_FILENO, .events = POLLOUT};
    if (written < 0 && errno == EAGAIN)
      poll(&ready, 1, -1);
    else if (written < 0 && errno != EINTR)
      return false;
    if (written < 0) continue;
    bytes += written;
    length -= (size_t)written;
  }
  return true;
}

static void count_lost(uint64_t lines) {
  atomic_fetch_add_explicit(&lost, lines, memory_order_relaxed);
}

/* Takes whole lines, as many as one write has. */
static size_t take(char bytes[WRITE_BYTES]) {
  size_t length = waiting.length < WRITE_BYTES ? waiting.length : WRITE_BYTES;
  for (size_t i = 0; i < length; i++)
    bytes[i] = waiting.room[(waiting.begin + i) % ROOM_BYTES];
  while (length > 0 && bytes[length - 1] != '\n')
    length--;
  waiting.begin = (waiting.begin + length) % ROOM_BYTES;
  waiting.length -= length;
  return length;
}

static void write_taken(const char *bytes, size_t length) {
  uint64_t lines = 0;
  for (size_t i = 0; i < length; i++)
    lines += bytes[i] == '\n';
  if (!write_all(bytes, length)) count_lost(lines);
}

static void *write_lines(void *nothing) {
  char bytes[WRITE_BYTES];
  uint64_t told = 0;
  pthread_mutex_lock(&waiting.lock);
  while (waiting.length > 0 || !waiting.must_end) {
    size_t length = take(bytes);
    if (length == 0) {
      pthread_cond_wait(&waiting.has_more, &waiting.lock);
      continue;
    }
    bool is_last = waiting.length == 0;
    pthread_mutex_unlock(&waiting.lock);
    write_taken(bytes, length);
    uint64_t now = weir_serve_log_lost();
    if (is_last && now != told) {
      /* The lines that were lost since that was last said. */
      char text[64];
      line one;
      snprintf(text, sizeof text, "%" PRIu64 " lines are not in this log", now - told);
      compose(&one, text, NULL, 0);
      write_all(one.bytes, one.length);
      told = now;
    }
    pthread_mutex_lock(&waiting.lock);
  }
  waiting.is_over = true;
  pthread_cond_signal(&waiting.has_ended);
  pthread_mutex_unlock(&waiting.lock);
  return nothing;
}

void weir_serve_log_begin(void) {
  waiting.is_running = weir_condition_init(&waiting.has_ended) &&
                       weir_start_thread(&waiting.thread, write_lines, NULL);
}

/* A thread that is still writing when the second is over ends with the process. */
void weir_serve_log_end(void) {
  if (!waiting.is_running) return;
  int64_t end_us = weir_monotonic_us() + 1000000;
  pthread_mutex_lock(&waiting.lock);
  waiting.must_end = true;
  pthread_cond_signal(&waiting.has_more);
  while (!waiting.is_over && weir_condition_wait_until(&waiting.has_ended, &waiting.lock, end_us)) {
  }
  bool is_over = waiting.is_over;
  pthread_mutex_unlock(&waiting.lock);
  if (is_over)
    pthread_join(waiting.thread, NULL);
  else
    pthread_detach(waiting.thread);
}

/* --- saying -------------------------------------------------------------------------------------
 */

static void say(const line *one) {
  if (!waiting.is_running) {
    write_taken(one->bytes, one->length);
    return;
  }
  pthread_mutex_lock(&waiting.lock);
  bool fits = one->length <= ROOM_BYTES - waiting.length;
  size_t end = waiting.begin + waiting.length;
  for (size_t i = 0; fits && i < one->length; i++)
    waiting.room[(end + i) % ROOM_BYTES] = one->bytes[i];
  if (fits) waiting.length += one->length;
  pthread_cond_signal(&waiting.has_more);
  pthread_mutex_unlock(&waiting.lock);
  if (!fits) count_lost(1);
}

void weir_serve_log(const char *format, ...) {
  char text[TEXT_BYTES];
  line one;
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  for (char *c = text; *c != '\0'; c++)
    if (*c < ' ' || *c > '~') *c = '?';
  compose(&one, text, NULL, 0);
  say(&one);
}

void weir_serve_log_event(const char *what, const weir_log_field *fields, size_t count) {
  line one;
  compose(&one, what, fields, count);
  say(&one);
}
