/* Versions across the end of a server: CAS ids begin anew, versions do not. */
#include <stdio.h>
#include <unistd.h>

#include "wire/operations.h"

/* Another client stores meanwhile. Returns the CAS id of what was stored. */
static unsigned long long store_plainly(int fd) {
  static const char request[] = "set weir:{k} 0 60 1\r\n7\r\ngets weir:{k}\r\n";
  char reply[256];
  size_t used = 0;
  assert_int_equal(write(fd, request, sizeof request - 1), sizeof request - 1);
  do {
    ssize_t got = read(fd, reply + used, sizeof reply - 1 - used);
    assert_true(got > 0);
    used += (size_t)got;
    reply[used] = '\0';
  } while (strstr(reply, "END\r\n") == NULL);
  unsigned long long id = 0;
  assert_int_equal(sscanf(reply, "STORED VALUE weir:{k} 0 1 %llu", &id), 1);
  return id;
}

static weir_operation current(weir_store *store) {
  weir_operation got = execute(store, get_of("weir:{k}"), NULL);
  assert_outcome(got, WEIR_DONE);
  assert_int_not_equal(got.version_out, 0);
  return got;
}

/* The server comes back and gives its first 100 CAS ids again, the old one among them. */
static void an_old_version_fits_nothing(const char *query) {
  struct server *server = server_start_memcached(SERVER_IPV4, NULL);
  weir_store *store = open_servers(&server, 1, query);
  int fd = server_connect(server);
  store_plainly(fd);
  assert_in_range(store_plainly(fd), 2, 3); /* by the version of memcached */
  close(fd);
  weir_operation old = current(store);
  assert_outcome(execute(store, swap_to("weir:{k}", old.version_out, 8), NULL), WEIR_DONE);
  weir_operation newest = current(store);
  server_restart(server);
  fd = server_connect(server);
  assert_outcome(execute(store, swap_to("weir:{k}", newest.version_out, 9), NULL), WEIR_ABSENT);
  for (unsigned long long id = 0; id < 100;) {
    id = store_plainly(fd);
    assert_outcome(execute(store, swap_to("weir:{k}", old.version_out, 9), NULL), WEIR_CONFLICT);
    assert_outcome(execute(store, swap_to("weir:{k}", newest.version_out, 9), NULL), WEIR_CONFLICT);
  }
  weir_operation now = current(store);
  assert_int_equal(now.value, 7);
  assert_outcome(execute(store, swap_to("weir:{k}", now.version_out, 9), NULL), WEIR_DONE);
  close(fd);
  weir_store_close(store);
}

static void an_old_version_fits_nothing_after_a_restart(void **state) {
  (void)state;
  an_old_version_fits_nothing("protocol=meta&timeout=5s");
  an_old_version_fits_nothing("protocol=classic&timeout=5s");
  an_old_version_fits_nothing("protocol=auto&timeout=5s");
}

/* Two connections to one server see one item under two versions; each knows its own. */
static void a_version_is_of_the_store_that_read_it(void **state) {
  (void)state;
  struct server *server = server_start_memcached(SERVER_IPV4, NULL);
  weir_store *one = open_servers(&server, 1, "timeout=5s");
  weir_store *other = open_servers(&server, 1, "timeout=5s");
  assert_outcome(execute(one, put_to(WEIR_PUT, "weir:{k}", 7), NULL), WEIR_DONE);
  uint64_t version = current(one).version_out;
  assert_true(version != current(other).version_out);
  assert_outcome(execute(other, swap_to("weir:{k}", version, 8), NULL), WEIR_CONFLICT);
  assert_outcome(execute(one, swap_to("weir:{k}", version, 8), NULL), WEIR_DONE);
  assert_outcome(execute(other, swap_to("weir:{k}", current(other).version_out, 9), NULL),
                 WEIR_DONE);
  weir_store_close(one);
  weir_store_close(other);
}

/* Refused as every read is; nobody is told a version that could be one. */
static void without_cas_ids_nothing_is_taken_for_a_version(void **state) {
  (void)state;
  static const char *const arguments[] = {"-C", NULL};
  struct server *server = server_start_memcached(SERVER_IPV4, arguments);
  weir_store *store = open_servers(&server, 1, "timeout=5s");
  weir_message message = {""};
  weir_operation created = execute(store, put_to(WEIR_CREATE, "weir:{k}", 7), NULL);
  assert_outcome(created, WEIR_DONE);
  assert_int_equal(created.version_out, 0);
  assert_outcome(execute(store, get_of("weir:{k}"), &message), WEIR_REFUSED);
  assert_non_null(strstr(message.text, "start memcached without -C"));
  weir_store_close(store);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(an_old_version_fits_nothing_after_a_restart),
      cmocka_unit_test(a_version_is_of_the_store_that_read_it),
      cmocka_unit_test(without_cas_ids_nothing_is_taken_for_a_version),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
