#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include <cmocka.h>

#include "logs/trace.h"

static char path[] = "/tmp/weir-trace-XXXXXX";
static weir_message message;

static int make_file(void **state) {
  (void)state;
  int descriptor = mkstemp(path);
  return descriptor < 0 ? -1 : close(descriptor);
}

static int remove_file(void **state) {
  (void)state;
  return unlink(path);
}

static void write_file(const void *bytes, size_t length) {
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(bytes, 1, length, file), length);
  assert_int_equal(fclose(file), 0);
}

static void write_gzip(const char *text, const char *mode) {
  gzFile file = gzopen(path, mode);
  assert_non_null(file);
  assert_int_equal(gzputs(file, text), strlen(text));
  assert_int_equal(gzclose(file), Z_OK);
}

static weir_trace_file *open_file(void) {
  weir_trace_file *file = weir_trace_file_open(path, &message);
  assert_non_null(file);
  return file;
}

static void assert_line(weir_trace_file *file, const char *expected) {
  const char *text;
  size_t length;
  assert_int_equal(weir_trace_file_next(file, &text, &length, &message), WEIR_TRACE_LINE);
  assert_int_equal(length, strlen(expected));
  assert_memory_equal(text, expected, length);
}

static void assert_step(weir_trace_file *file, weir_trace_step expected) {
  const char *text;
  size_t length;
  assert_int_equal(weir_trace_file_next(file, &text, &length, &message), expected);
}

static void hands_out_lines_with_and_without_a_last_newline(void **state) {
  (void)state;
  static const char *const texts[] = {"one\n\nthree\n", "one\n\nthree"};
  for (size_t i = 0; i < 2; i++) {
    write_file(texts[i], strlen(texts[i]));
    weir_trace_file *file = open_file();
    assert_line(file, "one");
    assert_line(file, "");
    assert_line(file, "three");
    assert_step(file, WEIR_TRACE_END);
    assert_step(file, WEIR_TRACE_END);
    weir_trace_file_close(file);
  }
}

static void reads_gzip_of_several_members(void **state) {
  (void)state;
  write_gzip("one\ntw", "wb");
  write_gzip("o\nthree\n", "ab");
  weir_trace_file *file = open_file();
  assert_line(file, "one");
  assert_line(file, "two");
  assert_line(file, "three");
  assert_step(file, WEIR_TRACE_END);
  weir_trace_file_close(file);
}

static void finds_nothing_in_an_empty_file(void **state) {
  (void)state;
  write_file("", 0);
  weir_trace_file *file = open_file();
  assert_step(file, WEIR_TRACE_END);
  weir_trace_file_close(file);
}

/* Lines of every length up to beyond the bound cross the edges of the buffer in every way. */
static void hands_out_long_lines_up_to_the_bound(void **state) {
  (void)state;
  static char text[WEIR_TRACE_LINE_MOST + 2];
  memset(text, 'x', sizeof text);
  FILE *out = fopen(path, "wb");
  assert_non_null(out);
  for (size_t length = 1; length <= WEIR_TRACE_LINE_MOST; length += 4095)
    assert_true(fwrite(text, 1, length, out) == length && fputc('\n', out) == '\n');
  assert_int_equal(fwrite(text, 1, WEIR_TRACE_LINE_MOST + 1, out), WEIR_TRACE_LINE_MOST + 1);
  assert_int_equal(fclose(out), 0);

  weir_trace_file *file = open_file();
  for (size_t length = 1; length <= WEIR_TRACE_LINE_MOST; length += 4095) {
    const char *line;
    size_t got;
    assert_int_equal(weir_trace_file_next(file, &line, &got, &message), WEIR_TRACE_LINE);
    assert_int_equal(got, length);
    assert_memory_equal(line, text, length);
  }
  assert_step(file, WEIR_TRACE_TOO_LONG);
  assert_non_null(strstr(message.text, "65536"));
  weir_trace_file_close(file);
}

static size_t read_file(unsigned char *bytes, size_t most) {
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  size_t length = fread(bytes, 1, most, file);
  assert_int_equal(fclose(file), 0);
  return length;
}

/* Wherever it is cut, the reader gives whole lines only and then says that something is missing. */
static void reports_gzip_that_is_cut_short(void **state) {
  (void)state;
  unsigned char bytes[256];
  write_gzip("one\ntwo\nthree\n", "wb");
  size_t length = read_file(bytes, sizeof bytes);
  for (size_t kept = 2; kept < length; kept++) {
    write_file(bytes, kept);
    weir_trace_file *file = open_file();
    const char *text;
    size_t line_length;
    weir_trace_step step;
    while ((step = weir_trace_file_next(file, &text, &line_length, &message)) == WEIR_TRACE_LINE)
      assert_in_range(line_length, 3, 5);
    assert_int_equal(step, WEIR_TRACE_BROKEN);
    assert_non_null(strstr(message.text, "cut short"));
    weir_trace_file_close(file);
  }
}

static void reports_gzip_that_is_corrupt(void **state) {
  (void)state;
  unsigned char bytes[256];
  write_gzip("one\ntwo\nthree\n", "wb");
  size_t length = read_file(bytes, sizeof bytes);
  bytes[length - 8] ^= 1; /* the checksum */
  write_file(bytes, length);
  weir_trace_file *file = open_file();
  const char *text;
  size_t line_length;
  weir_trace_step step;
  while ((step = weir_trace_file_next(file, &text, &line_length, &message)) == WEIR_TRACE_LINE)
    continue;
  assert_int_equal(step, WEIR_TRACE_BROKEN);
  assert_non_null(strstr(message.text, "corrupt"));
  weir_trace_file_close(file);
}

static void reports_a_file_that_is_not_there(void **state) {
  (void)state;
  assert_null(weir_trace_file_open("/nonexistent/trace", &message));
  assert_non_null(strstr(message.text, "No such file"));
}

static void reports_a_directory(void **state) {
  (void)state;
  weir_trace_file *file = weir_trace_file_open("/tmp", &message);
  assert_non_null(file);
  assert_step(file, WEIR_TRACE_BROKEN);
  assert_non_null(strstr(message.text, "directory"));
  weir_trace_file_close(file);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(hands_out_lines_with_and_without_a_last_newline),
      cmocka_unit_test(reads_gzip_of_several_members),
      cmocka_unit_test(finds_nothing_in_an_empty_file),
      cmocka_unit_test(hands_out_long_lines_up_to_the_bound),
      cmocka_unit_test(reports_gzip_that_is_cut_short),
      cmocka_unit_test(reports_gzip_that_is_corrupt),
      cmocka_unit_test(reports_a_file_that_is_not_there),
      cmocka_unit_test(reports_a_directory),
  };
  return cmocka_run_group_tests(tests, make_file, remove_file);
}
