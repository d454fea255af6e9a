/* A TCP listener before it closes: what has come is taken in, what comes finds whoever listens next. */
#include "serve/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

enum { MOMENT_MS = 200, PATIENCE_MS = 60000 };

static int come(const weir_socket *there) {
  int client = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  assert_true(client >= 0);
  assert_int_equal(connect(client, (const struct sockaddr *)(const void *)&there->address,
                           there->address_length),
                   -1);
  assert_int_equal(errno, EINPROGRESS);
  return client;
}

/* Whether its connection is made by then. */
static bool is_in(int client, int within_ms) {
  struct pollfd look = {.fd = client, .events = POLLOUT};
  return poll(&look, 1, within_ms) == 1 && look.revents == POLLOUT;
}

static void test_one_that_comes_at_the_end(void **state) {
  (void)state;
  weir_socket old = {.address_length = sizeof(struct sockaddr_in)};
  struct sockaddr_in *address = (void *)&old.address;
  *address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
  int first = weir_socket_again(&old);
  assert_true(first >= 0);
  assert_int_equal(getsockname(first, (void *)&old.address, &old.address_length), 0);

  int before = come(&old);
  assert_true(is_in(before, PATIENCE_MS));
  weir_socket_turn_deaf(first);
  int after = come(&old);
  assert_false(is_in(after, MOMENT_MS));
  int taken = accept(first, NULL, NULL);
  assert_true(taken >= 0);
  assert_int_equal(accept(first, NULL, NULL), -1);

  int next = weir_socket_again(&old);
  assert_true(next >= 0);
  assert_int_equal(close(first), 0);
  assert_true(is_in(after, PATIENCE_MS));
  assert_int_equal(send(taken, "a", 1, MSG_NOSIGNAL),
                   1); /* the filter, which it has as well, lets it speak */
  assert_true(poll(&(struct pollfd){.fd = before, .events = POLLIN}, 1, PATIENCE_MS) == 1);
  close(next);
  close(taken);
  close(before);
  close(after);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_one_that_comes_at_the_end)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
