/* discovery=on: what a configuration endpoint may answer, and which servers are used then. The
 * endpoint is a script, the servers are real. */
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "memcached/memcached.h"
#include "wire/operations.h"

enum { SERVERS = 3, KEYS = 60, ANSWER_BYTES = 1024 };

/* --- the answer --------------------------------------------------------------------------------
 */

static void wrap(const char *counted, char answer[ANSWER_BYTES]) {
  snprintf(answer, ANSWER_BYTES, "CONFIG cluster 0 %zu\r\n%s\r\nEND\r\n", strlen(counted), counted);
}

static bool read_answer(const char *answer, weir_discovery *found, weir_message *message) {
  found->length = 0;
  for (const char *at = answer; *at != '\0'; at++) {
    assert_false(weir_discovery_is_whole(found));
    found->answer[found->length++] = *at;
  }
  assert_true(weir_discovery_is_whole(found));
  return weir_discovery_read(found, message);
}

static weir_discovery found;

static void the_host_names_a_server_and_else_its_address(void **state) {
  (void)state;
  weir_message message = {""};
  char answer[ANSWER_BYTES];
  wrap("12\nb.example|10.0.0.2|11212 |10.0.0.1|11211 |::1|1\n", answer);
  assert_true(read_answer(answer, &found, &message));
  assert_int_equal(found.host_count, 3);
  assert_string_equal(found.hosts[0].name, "b.example");
  assert_int_equal(found.hosts[0].port, 11212);
  assert_int_equal(found.hosts[0].weight, 1);
  assert_string_equal(found.hosts[1].name, "10.0.0.1");
  assert_string_equal(found.hosts[2].name, "::1");
}

static void anything_else_is_an_error_that_says_what_is_accepted(void **state) {
  (void)state;
  static const char *const counted[] = {"",
                                        "\n",
                                        "12",
                                        "12\n",
                                        "12\n\n",
                                        "x\na|b|1",
                                        "12\na|b",
                                        "12\na|b|0",
                                        "12\na|b|65536",
                                        "12\na|b|1x",
                                        "12\na|b|",
                                        "12\n||11211",
                                        "12\na|b|1  c|d|2",
                                        "12\na b|c|1",
                                        "12\na|b|1\nc|d|2\n",
                                        "12\na/|b|1"};
  static const char *const whole[] = {"ERROR\r\n", "END\r\n", "\n", "CONFIG cluster 0 x\r\n",
                                      "CONFIG cluster 0 99999999\r\n"};
  char answer[ANSWER_BYTES];
  for (size_t i = 0; i < sizeof counted / sizeof counted[0]; i++) {
    weir_message message = {""};
    wrap(counted[i], answer);
    assert_false(read_answer(answer, &found, &message));
    assert_non_null(strstr(message.text, "accepted are a version, and host|ip|port"));
  }
  for (size_t i = 0; i < sizeof whole / sizeof whole[0]; i++) {
    weir_message message = {""};
    assert_false(read_answer(whole[i], &found, &message));
    assert_non_null(strstr(message.text, "\"CONFIG cluster\""));
  }
}

static void there_are_256_servers_at_most(void **state) {
  (void)state;
  static char counted[8192], answer[8192 + 64];
  weir_message message = {""};
  size_t used = (size_t)snprintf(counted, sizeof counted, "1\n");
  for (int i = 0; i < WEIR_DISCOVERY_SERVERS_MOST; i++)
    used += (size_t)snprintf(counted + used, sizeof counted - used, "%ss%d||11211",
                             i > 0 ? " " : "", i);
  snprintf(answer, sizeof answer, "CONFIG cluster 0 %zu\r\n%s\r\nEND\r\n", used, counted);
  assert_true(read_answer(answer, &found, &message));
  assert_int_equal(found.host_count, WEIR_DISCOVERY_SERVERS_MOST);
  used += (size_t)snprintf(counted + used, sizeof counted - used, " one.more||11211");
  snprintf(answer, sizeof answer, "CONFIG cluster 0 %zu\r\n%s\r\nEND\r\n", used, counted);
  assert_false(read_answer(answer, &found, &message));
}

/* --- the endpoint ------------------------------------------------------------------------------
 */

typedef struct endpoint {
  int listener;
  uint16_t port;
  pthread_t thread;
  const char *answer; /* to "config get cluster"; NULL: it hangs up instead */
  _Atomic int asked;
} endpoint;

static bool say(int fd, const char *text) {
  return send(fd, text, strlen(text), MSG_NOSIGNAL) == (ssize_t)strlen(text);
}

/* One connection until its end. Questions come one at a time. */
static void serve(endpoint *self, int fd) {
  char heard[512];
  ssize_t length;
  while ((length = recv(fd, heard, sizeof heard - 1, 0)) > 0) {
    heard[length] = '\0';
    const char *answer = strncmp(heard, "mn", 2) == 0 ? "MN\r\n" : "EN\r\n";
    if (strcmp(heard, "config get cluster\r\n") == 0) {
      answer = self->answer;
      self->asked++;
    }
    if (answer == NULL || !say(fd, answer)) break;
  }
  close(fd);
}

static void *run(void *argument) {
  endpoint *self = argument;
  int fd;
  while ((fd = accept(self->listener, NULL, NULL)) >= 0)
    serve(self, fd);
  return NULL;
}

static void start(endpoint *self, const char *answer) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t bytes = sizeof address;
  *self = (endpoint){.answer = answer};
  self->listener = socket(AF_INET, SOCK_STREAM, 0);
  assert_true(self->listener >= 0);
  assert_int_equal(bind(self->listener, (struct sockaddr *)&address, bytes), 0);
  assert_int_equal(listen(self->listener, 8), 0);
  assert_int_equal(getsockname(self->listener, (struct sockaddr *)&address, &bytes), 0);
  self->port = ntohs(address.sin_port);
  assert_int_equal(pthread_create(&self->thread, NULL, run, self), 0);
}

static void end(endpoint *self) {
  shutdown(self->listener, SHUT_RDWR);
  pthread_join(self->thread, NULL);
  close(self->listener);
}

static weir_status open_discovered(uint16_t port, const char *rest, weir_store **store,
                                   weir_message *message) {
  char url[128];
  snprintf(url, sizeof url, "memcached://127.0.0.1:%u?discovery=on%s", (unsigned)port, rest);
  return weir_store_open(url, store, message);
}

/* --- stores ------------------------------------------------------------------------------------
 */

static struct server *servers[SERVERS];

static int start_servers(void **state) {
  (void)state;
  for (int i = 0; i < SERVERS; i++)
    servers[i] = server_start_memcached(SERVER_IPV4, NULL);
  return 0;
}

static void a_list_that_is_told_is_as_one_in_the_url(void **state) {
  (void)state;
  char counted[ANSWER_BYTES / 2] = "7\n", answer[ANSWER_BYTES];
  for (int i = 0; i < SERVERS; i++)
    snprintf(counted + strlen(counted), sizeof counted - strlen(counted), "%s|127.0.0.1|%u%s",
             i == 0 ? "127.0.0.1" : "", (unsigned)server_port(servers[i]),
             i + 1 < SERVERS ? " " : "\n");
  wrap(counted, answer);
  endpoint asked;
  weir_message message = {""};
  weir_store *told;
  weir_store *listed = open_servers(servers, SERVERS, NULL);
  start(&asked, answer);
  if (open_discovered(asked.port, "", &told, &message) != WEIR_OK) fail_msg("%s", message.text);
  for (int i = 0; i < KEYS; i++) {
    char name[32];
    snprintf(name, sizeof name, "weir:t:{told%d}:1", i);
    assert_done(execute(listed, add_to(name, 1), &message), 1);
    assert_done(execute(told, add_to(name, 1), &message), 2);
  }
  assert_int_equal(asked.asked, 1);
  weir_store_close(listed);
  weir_store_close(told);
  end(&asked);
}

static void one_that_tells_no_list_is_an_error_of_the_url(void **state) {
  (void)state;
  static const char *const answers[] = {"ERROR\r\n", "CONFIG cluster 0 3\r\n1\n\n\r\nEND\r\n",
                                        NULL};
  for (size_t i = 0; i < sizeof answers / sizeof answers[0]; i++) {
    endpoint asked;
    weir_message message = {""};
    weir_store *store;
    start(&asked, answers[i]);
    assert_int_equal(open_discovered(asked.port, "", &store, &message), WEIR_BAD_URL);
    assert_null(store);
    assert_non_null(strstr(message.text, "config get cluster"));
    end(&asked);
  }
  weir_message message = {""};
  weir_store *store;
  assert_int_equal(open_discovered(server_port(servers[0]), "", &store, &message), WEIR_BAD_URL);
  assert_non_null(strstr(message.text, "there is no \"CONFIG cluster\""));
}

static void one_that_is_away_leaves_no_store(void **state) {
  (void)state;
  weir_message message = {""};
  weir_store *store;
  struct server *gone = server_start_memcached(SERVER_IPV4, NULL);
  server_kill(gone);
  assert_int_equal(open_discovered(server_port(gone), "", &store, &message), WEIR_UNAVAILABLE);
  assert_null(store);
  assert_non_null(strstr(message.text, "did not answer"));
}

static void one_host_is_asked(void **state) {
  (void)state;
  static const char *const urls[] = {"memcached://127.0.0.1,127.0.0.2?discovery=on",
                                     "memcached+unix:///nowhere?discovery=on"};
  for (size_t i = 0; i < 2; i++) {
    weir_message message = {""};
    weir_store *store;
    assert_int_equal(weir_store_open(urls[i], &store, &message), WEIR_BAD_URL);
    assert_non_null(strstr(message.text, "discovery=on asks one host"));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_host_names_a_server_and_else_its_address),
      cmocka_unit_test(anything_else_is_an_error_that_says_what_is_accepted),
      cmocka_unit_test(there_are_256_servers_at_most),
      cmocka_unit_test(a_list_that_is_told_is_as_one_in_the_url),
      cmocka_unit_test(one_that_tells_no_list_is_an_error_of_the_url),
      cmocka_unit_test(one_that_is_away_leaves_no_store),
      cmocka_unit_test(one_host_is_asked),
  };
  return cmocka_run_group_tests_name("discovery", tests, start_servers, NULL);
}
