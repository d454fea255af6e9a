/* throttle_client PORT CLIENTS DEPTH KEYS REQUESTS WORD...: a client of RESP on this machine that shares
 * nothing with weir but the wire.
 *
 * One thread keeps CLIENTS connections with DEPTH requests in flight on each, until REQUESTS have
 * been answered. A request is the WORDs; each '#' in them stands for the number of one of KEYS
 * keys, drawn anew for each request. Prints requests a second, p50 and p99 in us, and how many
 * answers began with a number other than 0 (of CL.THROTTLE: denials). An error, or a reply that is
 * no answer to be expected, ends it with 1. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { CLIENTS_MOST = 1024, DEPTH_MOST = 64, REQUEST_MOST = 512, EVENTS = 64 };
enum { INPUT_BYTES = 16384, OUTPUT_BYTES = DEPTH_MOST * REQUEST_MOST };

typedef struct text {
  size_t length;
  char bytes[REQUEST_MOST];
} text;

typedef struct client_state {
  int fd;
  size_t in_flight;
  size_t oldest; /* in sent_ns, a ring */
  int64_t sent_ns[DEPTH_MOST];
  size_t length; /* of what has come of an answer that is not whole */
  char input[INPUT_BYTES];
} client_state;

typedef struct load_state {
  size_t depth, key_count, wanted;
  size_t sent, answered, begun_otherwise;
  text *requests; /* one for each key */
  uint64_t drawn;
  int64_t *took_ns;
} load_state;

_Noreturn static void give_up(const char *what) {
  fprintf(stderr, "throttle_client: %s\n", what);
  exit(1);
}

static int64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* --- requests ----------------------------------------------------------------------------------- */

static void write_request(char *const *words, size_t count, size_t key, text *request) {
  int length = snprintf(request->bytes, REQUEST_MOST, "*%zu\r\n", count);
  for (size_t i = 0; i < count; i++) {
    char word[REQUEST_MOST];
    const char *sign = strchr(words[i], '#');
    if (sign == NULL)
      snprintf(word, sizeof word, "%s", words[i]);
    else
      snprintf(word, sizeof word, "%.*s%zu%s", (int)(sign - words[i]), words[i], key, sign + 1);
    size_t left = REQUEST_MOST - (size_t)length;
    int more = snprintf(request->bytes + length, left, "$%zu\r\n%s\r\n", strlen(word), word);
    if ((size_t)more >= left) give_up("the request is too long");
    length += more;
  }
  request->length = (size_t)length;
}

/* Sends as many as there may be in flight, together. One client's requests of a time fit into a
 * socket's own buffer. */
static void send_requests(load_state *load, client_state *client) {
  static char output[OUTPUT_BYTES];
  size_t length = 0;
  int64_t sent_ns = now_ns();
  for (; client->in_flight < load->depth && load->sent < load->wanted; load->sent++) {
    load->drawn ^= load->drawn << 13;
    load->drawn ^= load->drawn >> 7;
    load->drawn ^= load->drawn << 17;
    const text *request = &load->requests[load->drawn % load->key_count];
    memcpy(output + length, request->bytes, request->length);
    length += request->length;
    client->sent_ns[(client->oldest + client->in_flight++) % DEPTH_MOST] = sent_ns;
  }
  if (length > 0 && send(client->fd, output, length, MSG_NOSIGNAL) != (ssize_t)length)
    give_up("the server does not take a request");
}

/* --- answers ------------------------------------------------------------------------------------ */

/* How many bytes an answer has: a line, or an array of numbers, whose first is told. 0: it is not whole. */
static size_t read_answer(const char *bytes, size_t length, long *first) {
  const char *end = memchr(bytes, '\n', length);
  size_t lines = 0;
  *first = 0;
  if (end == NULL) return 0;
  if (bytes[0] == '*') lines = strtoul(bytes + 1, NULL, 10);
  if (bytes[0] != '*' && bytes[0] != '+') {
    fprintf(stderr, "throttle_client: the server answers %.*s\n", (int)(end - bytes), bytes);
    exit(1);
  }
  for (size_t i = 0; i < lines; i++) {
    const char *line = end + 1;
    end = memchr(line, '\n', (size_t)(bytes + length - line));
    if (end == NULL) return 0;
    if (*line != ':') give_up("the server answers something else than numbers");
    if (i == 0) *first = strtol(line + 1, NULL, 10);
  }
  return (size_t)(end - bytes) + 1;
}

static void read_answers(load_state *load, client_state *client) {
  ssize_t got =
      recv(client->fd, client->input + client->length, INPUT_BYTES - client->length, MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) give_up("the server has ended a connection");
  int64_t now = now_ns();
  size_t at = 0, used;
  long first;
  client->length += (size_t)got;
  while (at < client->length &&
         (used = read_answer(client->input + at, client->length - at, &first)) > 0) {
    if (client->in_flight == 0) give_up("the server answers what was not asked");
    load->took_ns[load->answered++] = now - client->sent_ns[client->oldest];
    load->begun_otherwise += first != 0;
    client->oldest = (client->oldest + 1) % DEPTH_MOST;
    client->in_flight--;
    at += used;
  }
  client->length -= at;
  memmove(client->input, client->input + at, client->length);
}

/* --- a run -------------------------------------------------------------------------------------- */

static void connect_client(client_state *client, size_t port, int events) {
  const struct sockaddr_in address = {.sin_family = AF_INET,
                                      .sin_port = htons((uint16_t)port),
                                      .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
  const int on = 1;
  struct epoll_event readable = {.events = EPOLLIN, .data = {.ptr = client}};
  client->fd = socket(AF_INET, SOCK_STREAM, 0);
  if (client->fd < 0 ||
      connect(client->fd, (const struct sockaddr *)(const void *)&address, sizeof address) != 0)
    give_up("the server cannot be connected to");
  setsockopt(client->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  epoll_ctl(events, EPOLL_CTL_ADD, client->fd, &readable);
}

static void run(load_state *load, client_state *clients, size_t count, int events) {
  for (size_t i = 0; i < count; i++)
    send_requests(load, &clients[i]);
  while (load->answered < load->wanted) {
    struct epoll_event found[EVENTS];
    int ready = epoll_wait(events, found, EVENTS, -1);
    for (int i = 0; i < ready; i++) {
      client_state *one = found[i].data.ptr;
      read_answers(load, one);
      send_requests(load, one);
    }
  }
}

static int compare(const void *a, const void *b) {
  const int64_t *left = a, *right = b;
  return (*left > *right) - (*left < *right);
}

static size_t read_number(const char *argument, size_t most) {
  char *end;
  unsigned long long number = strtoull(argument, &end, 10);
  if (*end != '\0' || number < 1 || number > most) give_up("a number is out of range");
  return (size_t)number;
}

int main(int count, char **arguments) {
  if (count < 7) give_up("PORT CLIENTS DEPTH KEYS REQUESTS WORD... is accepted");
  size_t port = read_number(arguments[1], UINT16_MAX);
  size_t client_count = read_number(arguments[2], CLIENTS_MOST);
  load_state load = {.depth = read_number(arguments[3], DEPTH_MOST),
                     .key_count = read_number(arguments[4], 1000000),
                     .wanted = read_number(arguments[5], 100000000),
                     .drawn = 88172645463325252U};
  client_state *clients = calloc(client_count, sizeof *clients);
  load.requests = malloc(load.key_count * sizeof *load.requests);
  load.took_ns = malloc(load.wanted * sizeof *load.took_ns);
  int events = epoll_create1(0);
  if (clients == NULL || load.requests == NULL || load.took_ns == NULL || events < 0)
    give_up("there is not enough memory");
  for (size_t i = 0; i < load.key_count; i++)
    write_request(arguments + 6, (size_t)count - 6, i, &load.requests[i]);
  for (size_t i = 0; i < client_count; i++)
    connect_client(&clients[i], port, events);

  int64_t began_ns = now_ns();
  run(&load, clients, client_count, events);
  double seconds = (double)(now_ns() - began_ns) / 1e9;
  qsort(load.took_ns, load.answered, sizeof *load.took_ns, compare);
  size_t middle = load.answered / 2, late = load.answered - load.answered / 100 - 1;
  printf("%.0f %.1f %.1f %zu\n", (double)load.answered / seconds,
         (double)load.took_ns[middle] / 1e3, (double)load.took_ns[late] / 1e3,
         load.begun_otherwise);
  for (size_t i = 0; i < client_count; i++)
    close(clients[i].fd);
  close(events);
  free(clients);
  free(load.requests);
  free(load.took_ns);
  return 0;
}
