/* run: a place is entered, a command runs while it is held, and the place is left.
 *
 *     wait for a place ──> start COMMAND ──> its signals and ours; is the place still held?
 *                                                  │                         │ no
 *                                                  ▼                         ▼
 *                                            it has ended <──────────── it is ended (--lost kill)
 *                                                  └──> leave the place, was it lost? end as it did
 *
 * All that may be asked of this process is blocked while COMMAND runs, and waited for: so none comes
 * between looking and sleeping. COMMAND gets the mask that this process had. It dies with this one,
 * however that ends: else it would go on without a place.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <weir/backend.h>

#include "options.h"
#include "report.h"
#include "session.h"

/* As timeout(1) has them. */
enum {
  EXIT_NO_PLACE = 124,
  EXIT_FAILED = WEIR_EXIT_OF_RUN,
  EXIT_CANNOT_RUN = 126,
  EXIT_NOT_FOUND = 127
};

/* How often the place is looked at, and how long COMMAND has to end by SIGTERM: parts of the rule's
 * period. The guard is a sixteenth of it, and others enter behind that. */
enum { LOOKS = 64, MERCY = 32 };

typedef struct task {
  const weir_cli_options *options;
  weir_reservation *place;
  int64_t period_us;
  pid_t process;
  sigset_t signals, before;
  bool lost;         /* the place, while COMMAND ran */
  int64_t killed_us; /* COMMAND, by SIGKILL then, weir_monotonic_us() */
} task;

/* A terminal or a service manager sends these to end or to tell something. */
static const int passed_on[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH};

/* --- the command ------------------------------------------------------------------------------- */

/* In the child. The parent may have ended before the kernel was told to watch it. */
static void become(const task *self, pid_t parent) {
  char **arguments = self->options->arguments;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(EXIT_FAILED);
  signal(SIGPIPE, SIG_DFL);
  sigprocmask(SIG_SETMASK, &self->before, NULL);
  execvp(arguments[0], arguments);
  int error = errno;
  weir_cli_error("run: %s: %s", weir_cli_show(arguments[0]).text, strerror(error));
  _exit(error == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_RUN);
}

static bool start(task *self) {
  pid_t parent = getpid();
  sigemptyset(&self->signals);
  sigaddset(&self->signals, SIGCHLD);
  for (size_t i = 0; i < sizeof passed_on / sizeof *passed_on; i++)
    sigaddset(&self->signals, passed_on[i]);
  signal(SIGCHLD, SIG_DFL); /* where it is ignored, the end of a child is not told */
  sigprocmask(SIG_BLOCK, &self->signals, &self->before);
  self->process = fork();
  if (self->process == 0) become(self, parent);
  if (self->process > 0) return true;
  weir_cli_error("run: no process: %s", strerror(errno));
  return false;
}

static bool kills(const task *self) {
  return weir_cli_given(self->options, WEIR_CLI_LOST) == 0 ||
         strcmp(self->options->lost, "kill") == 0;
}

static void end_when_lost(task *self) {
  if (!self->lost && !weir_reservation_held(self->place)) {
    self->lost = true;
    self->killed_us = weir_monotonic_us() + self->period_us / MERCY;
    weir_cli_error("run: the place was lost: %s",
                   kills(self) ? "the command is ended" : "the command goes on without");
    if (kills(self)) kill(self->process, SIGTERM);
  }
  if (self->lost && kills(self) && weir_monotonic_us() >= self->killed_us)
    kill(self->process, SIGKILL);
}

/* Returns how it ended, as waitpid() says it. */
static int watch(task *self) {
  int64_t look_us = self->period_us / LOOKS;
  const struct timespec look = {.tv_sec = (time_t)(look_us / 1000000),
                                .tv_nsec = (long)(look_us % 1000000) * 1000};
  for (;;) {
    siginfo_t got;
    int ended;
    pid_t found = waitpid(self->process, &ended, WNOHANG);
    if (found == self->process) return ended;
    end_when_lost(self);
    if (sigtimedwait(&self->signals, &got, &look) <= 0 || got.si_signo == SIGCHLD) continue;
    bool is_from_terminal = got.si_code > 0; /* then COMMAND has got it itself */
    if (!is_from_terminal) kill(self->process, got.si_signo);
  }
}

/* --- the place --------------------------------------------------------------------------------- */

/* Whether the store hears that the place is left or not, others enter when its period is over. A process
 * that was stopped together with COMMAND finds out only here that the place was lost. */
static void leave(task *self) {
  weir_message message = {""};
  weir_status status = weir_reservation_commit(self->place, &message);
  if (status == WEIR_PLACE_LOST && !self->lost)
    weir_cli_error(
        "run: the place was lost before the command had ended: others may have run beside it");
  else if (status != WEIR_OK && status != WEIR_PLACE_LOST && !self->options->quiet)
    weir_cli_error("run: the place is free when its period is over: %s", message.text);
  self->lost = self->lost || status == WEIR_PLACE_LOST;
}

static int run_in_place(task *self) {
  if (!start(self)) return EXIT_FAILED;
  int ended = watch(self);
  leave(self);
  if (self->lost && kills(self)) return EXIT_FAILED;
  if (WIFEXITED(ended)) return WEXITSTATUS(ended);
  /* As it was ended, and without a core of this process. */
  int number = WTERMSIG(ended);
  const struct rlimit no_core = {0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  signal(number, SIG_DFL);
  sigset_t one;
  sigemptyset(&one);
  sigaddset(&one, number);
  raise(number);
  sigprocmask(SIG_UNBLOCK, &one, NULL);
  return 128 + number;
}

/* Who says a class does not wait: no call does both. */
static weir_status enter(task *self, weir_limiter *limiter, weir_request *request, int64_t wait_us,
                         weir_message *message) {
  if (self->options->class_name == NULL)
    return weir_limiter_reserve_wait(limiter, request, wait_us, &self->place, message);
  weir_extra extra = WEIR_EXTRA_INIT;
  const weir_extra *extras[] = {&extra};
  extra.class_name = self->options->class_name;
  weir_status status = weir_reserve_extra(&limiter, request, extras, 1, &self->place, message);
  int64_t delay_us =
      self->place != NULL ? request->decision.delay_us : 0; /* of a bucket in the stack */
  const struct timespec delay = {.tv_sec = (time_t)(delay_us / 1000000),
                                 .tv_nsec = (long)(delay_us % 1000000) * 1000};
  if (delay_us > 0) nanosleep(&delay, NULL);
  return status == WEIR_OK ? request->status : status;
}

static int enter_and_run(task *self, weir_limiter *limiter, weir_message *message) {
  const weir_cli_options *options = self->options;
  weir_request request = {
      .key = options->key, .key_length = strlen(options->key), .cost = options->costs[0]};
  const int64_t end_us = weir_monotonic_us() + options->wait_us;
  const struct timespec pause = {.tv_nsec = 100000000};
  int64_t left_us = options->wait_us;
  weir_status status;
  while ((status = enter(self, limiter, &request, left_us, message)) != WEIR_OK &&
         weir_status_classify(status) == WEIR_CLASS_STORE &&
         (left_us = end_us - weir_monotonic_us()) > 0)
    nanosleep(&pause, NULL); /* while there is time, a store may come back */
  if (status != WEIR_OK) {
    weir_cli_fail("run: ", status, message);
    return EXIT_FAILED;
  }
  if (self->place == NULL && request.decision.retry_after_us == WEIR_NEVER) {
    weir_cli_error("run: --cost %" PRId64 " never fits: the limit is %" PRId64, request.cost,
                   request.decision.limit);
    return EXIT_FAILED;
  }
  if (self->place == NULL) {
    if (!options->quiet) weir_cli_error("run: no place is free");
    return EXIT_NO_PLACE;
  }
  int exit_status = run_in_place(self);
  weir_reservation_destroy(self->place);
  return exit_status;
}

static bool check(const weir_cli_options *options) {
  if (options->key == NULL || options->key[0] == '\0')
    weir_cli_error("run: no key: give --key KEY, one byte or more");
  else if (options->cost_count != 1)
    weir_cli_error("run: --cost names %d costs; one is accepted", options->cost_count);
  else if (options->class_name != NULL && weir_cli_given(options, WEIR_CLI_WAIT))
    weir_cli_error("run: --wait and --class: one of them is accepted");
  else if (options->lost != NULL && strcmp(options->lost, "kill") != 0 &&
           strcmp(options->lost, "continue") != 0)
    weir_cli_error("--lost \"%s\": kill and continue are accepted",
                   weir_cli_show(options->lost).text);
  else
    return true;
  return false;
}

int weir_cli_run(const weir_cli_options *options) {
  weir_cli_session session;
  weir_message message = {""};
  int exit_status = EXIT_FAILED;
  task self = {.options = options};
  if (!check(options)) return EXIT_FAILED;
  weir_status status = weir_cli_session_open(options, &options->limiter, &session, &message);
  if (status != WEIR_OK) {
    weir_cli_fail("run: ", status, &message);
    return EXIT_FAILED;
  }
  self.period_us = weir_cli_held_us(session.limiter);
  if (self.period_us == 0) {
    weir_cli_error("run: an in-flight rule is accepted, such as in-flight:1/10s");
  } else {
    weir_cli_session_connect(&session);
    exit_status = enter_and_run(&self, session.limiter, &message);
  }
  weir_cli_session_close(&session);
  return exit_status;
}
