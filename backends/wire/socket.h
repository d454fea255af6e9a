/* Sockets: every system call of the wire except poll. */
#ifndef WEIR_WIRE_SOCKET_H
#define WEIR_WIRE_SOCKET_H

#include <sys/types.h>

#include "wire/endpoint.h"

/* A non-blocking socket on its way to `address`: 0 (connected), EINPROGRESS, or the error, and then
 * *fd is -1. */
int weir_socket_connect(const weir_address *address, int *fd);

/* Once poll reports the socket: 0, and it is ready for the functions below, or the error. */
int weir_socket_finish(int fd);

/* As send and recv without blocking or signals, repeated on EINTR. With `wait` a receive waits once
 * for at most weir_socket_patience_us(), and may end with EINTR. */
ssize_t weir_socket_send(int fd, const char *bytes, size_t length);
ssize_t weir_socket_receive(int fd, char *bytes, size_t room, bool wait);

/* As a receive that does not wait, again and again for `most_us` until it brings something, with the
 * processor yielded in between; *longest_us: by the longest of the yields; -1: none. */
ssize_t weir_socket_try(int fd, char *bytes, size_t room, int64_t most_us, int64_t *longest_us);

/* What an errno means, for people. */
enum { WEIR_ERROR_BYTES = 128 };
const char *weir_error_text(int error, char text[WEIR_ERROR_BYTES]);

/* A slice of time, rounded up to ticks of the kernel's clock, and one more before it is noticed. */
int64_t weir_socket_patience_us(void);

#endif
