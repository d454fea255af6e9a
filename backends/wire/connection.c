/* The connection as a state machine: closed, connecting, securing where it speaks TLS, greeting,
 * ready. Nothing here waits. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "wire/internal.h"

void weir_wire_parser_drop(weir_wire *wire) {
  if (wire->parser != NULL) wire->protocol->destroy_parser(wire->parser);
  wire->parser = NULL;
}

static void drop_socket(weir_wire *wire) {
  weir_wire_parser_drop(wire);
  weir_tls_session_end(wire->session);
  wire->session = NULL;
  wire->unread = wire->leaving = wire->demoted = false;
  if (wire->fd >= 0) close(wire->fd);
  wire->fd = -1;
  wire->state = WEIR_WIRE_CLOSED;
  wire->out_start = wire->out_end = 0;
  wire->in_start = wire->in_end = 0;
  wire->skip = wire->accepted = 0;
}

/* What a lost connection means for one slot: its end, or one more connection. */
static void settle(weir_wire *wire, weir_wire_slot *slot, int64_t now_us) {
  bool touched = slot->encoded > 0 && slot->commands[0].start < wire->accepted;
  if (!touched && !slot->moved && !slot->abandoned) {
    slot->moved = true;
    slot->encoded = 0;
    return;
  }
  if (touched) {
    weir_breaker_miss(&wire->breaker, slot, wire->why.text, now_us);
  } else {
    weir_breaker_excuse(&wire->breaker, slot, now_us);
  }
  weir_wire_slot_mark(slot, wire->accepted);
  weir_wire_slot_explain(slot, wire->why.text);
  weir_wire_slot_end(wire, slot);
}

static void settle_line(weir_wire *wire, int64_t now_us) {
  weir_wire_slot *next = NULL;
  for (weir_wire_slot *slot = wire->first; slot != NULL; slot = next) {
    next = slot->next;
    settle(wire, slot, now_us);
  }
  wire->unsent = wire->first;
}

/* Closes a ready connection; wire->why says why. */
static void lose(weir_wire *wire, int64_t now_us) {
  wire->greeting.peer = WEIR_PEER_UNKNOWN;
  if (!wire->leaving) weir_wire_name_doubt(wire);
  settle_line(wire, now_us);
  drop_socket(wire);
}

/* Which address comes next: that in use; then, as it refuses, the others in their order. Where any
 * will do, one after the other. */
static size_t next_address(const weir_wire *wire) {
  if (wire->any_address) return (wire->address + wire->tried) % wire->addresses.count;
  if (wire->tried == 0) return wire->address;
  return wire->tried - 1 < wire->address ? wire->tried - 1 : wire->tried;
}

/* None took the connection. The next try begins with the address in use, unless that refused: then
 * with the first. */
static void end_round(weir_wire *wire) {
  if (wire->any_address && wire->addresses.count > 0) {
    wire->address = (wire->trying + 1) % wire->addresses.count;
  } else if (wire->trying != wire->address) {
    wire->address = 0;
  }
  wire->tried = 0;
}

/* What is in line cannot be sent. */
static void give_up(weir_wire *wire, int64_t now_us) {
  end_round(wire);
  weir_breaker_fail(&wire->breaker, wire->why.text, now_us);
  while (wire->first != NULL) {
    wire->first->moved = true;
    settle(wire, wire->first, now_us);
  }
}

/* Only one that refuses is left for the next: keys that are counted on one server must not go to
 * another because it is slow, hangs up or answers nonsense. */
static void fail_attempt(weir_wire *wire, bool refused) {
  drop_socket(wire);
  weir_wire_name_doubt(wire);
  wire->tried = refused || wire->any_address ? wire->tried + 1 : wire->addresses.count;
  wire->greeting.step = 0;
  wire->greeting.peer = WEIR_PEER_UNKNOWN;
}

void weir_wire_adopt(weir_wire *wire, weir_addresses *found) {
  weir_addresses *known = &wire->addresses;
  if (weir_addresses_equal(known, found)) {
    weir_addresses_free(found);
    return;
  }
  size_t used = wire->state == WEIR_WIRE_CLOSED ? wire->address : wire->trying;
  size_t at = known->count > 0 ? weir_addresses_find(found, &known->list[used]) : found->count;
  bool named = at < found->count;
  weir_addresses_free(known);
  *known = *found;
  wire->address = wire->trying = named ? at : 0;
  wire->tried = 0;
  weir_breaker_hasten(&wire->breaker);
  if (named) return;
  if (wire->state == WEIR_WIRE_READY) {
    wire->leaving = true;
  } else {
    drop_socket(wire);
    wire->greeting.step = 0;
    wire->greeting.peer = WEIR_PEER_UNKNOWN;
  }
}

static void explain_connect(weir_wire *wire, int error) {
  char text[128] = "";
  if (strerror_r(error, text, sizeof text) != 0) text[0] = '\0';
  weir_message_set(&wire->why, "cannot connect: %s", text);
}

/* How long an attempt may last. Where any address will do it is shared among them, so that a dead
 * one does not hide the next. */
static int64_t attempt_us(const weir_wire *wire) {
  if (!wire->any_address) return wire->connect_us;
  return wire->connect_us / (int64_t)wire->addresses.count;
}

/* Whether nobody takes connections there, or none can go there from this machine at all. A host
 * that cannot be reached (EHOSTUNREACH) is as silent as one that lets a connection time out. */
static bool is_refusal(const weir_wire *wire, int error) {
  bool v6 = wire->addresses.list[wire->trying].bytes.ss_family == AF_INET6;
  return error == ECONNREFUSED || error == ENETUNREACH || error == EAFNOSUPPORT ||
         (error == EADDRNOTAVAIL && v6); /* no IPv6 here; with IPv4 it means: out of ports */
}

static void try_address(weir_wire *wire, int64_t now_us) {
  wire->attempt_end_us = now_us + attempt_us(wire);
  wire->trying = next_address(wire);
  int error = weir_socket_connect(&wire->addresses.list[wire->trying], &wire->fd);
  if (error == 0 || error == EINPROGRESS) {
    wire->state = WEIR_WIRE_CONNECTING;
  } else {
    explain_connect(wire, error);
    fail_attempt(wire, is_refusal(wire, error));
  }
}

/* On a socket that is connected. */
static void start_talking(weir_wire *wire) {
  wire->state = WEIR_WIRE_GREETING;
  wire->out_most = wire->tls == NULL ? sizeof wire->out : WEIR_WIRE_RECORD_BYTES;
  if (wire->tls == NULL) return;
  wire->state = WEIR_WIRE_SECURING;
  wire->session = weir_tls_session_start(wire->tls, wire->host, wire->fd);
  if (wire->session != NULL) return;
  weir_message_set(&wire->why, "no memory for TLS");
  fail_attempt(wire, false);
}

/* Whether there is nothing to do but wait. */
static bool step_connecting(weir_wire *wire, short revents, int64_t now_us) {
  if ((revents & (POLLOUT | POLLERR | POLLHUP)) != 0) {
    int error = weir_socket_finish(wire->fd);
    if (error == 0) {
      start_talking(wire);
    } else {
      explain_connect(wire, error);
      fail_attempt(wire, is_refusal(wire, error));
    }
    return false;
  }
  if (now_us < wire->attempt_end_us) return true;
  explain_connect(wire, ETIMEDOUT);
  fail_attempt(wire, false);
  return false;
}

/* The lock is let go, as signatures take their time. */
static bool step_securing(weir_wire *wire, int64_t now_us) {
  weir_message why = {WEIR_WIRE_NO_HANDSHAKE};
  weir_wire_unlock(wire);
  weir_tls_hands hands = weir_tls_session_shake(wire->session, &why);
  pthread_mutex_lock(&wire->lock);
  if (hands == WEIR_TLS_SHAKING && now_us < wire->attempt_end_us) return true;
  if (hands == WEIR_TLS_SHAKEN) {
    wire->state = WEIR_WIRE_GREETING;
    return false;
  }
  wire->why = why;
  fail_attempt(wire, false);
  return false;
}

static void become_ready(weir_wire *wire, int64_t now_us) {
  wire->state = WEIR_WIRE_READY;
  wire->codec = wire->protocol->codecs[wire->greeting.dialect];
  wire->active_us = now_us;
  wire->serial = 0;
  wire->address = wire->trying;
  wire->tried = 0;
  wire->greeting.step = 0;
  atomic_store_explicit(&wire->dialect, (int)wire->greeting.dialect, memory_order_relaxed);
}

static bool make_parser(weir_wire *wire) {
  if (wire->protocol->create_parser == NULL) return true;
  wire->parser = wire->protocol->create_parser();
  if (wire->parser == NULL) weir_message_set(&wire->why, "no memory for another connection");
  return wire->parser != NULL;
}

/* What TLS has to say on why the server hung up, if anything. */
static bool has_fault(weir_wire *wire) {
  if (wire->session == NULL || weir_tls_session_fault(wire->session)[0] == '\0') return false;
  weir_wire_explain(wire, "", 0);
  return true;
}

/* A greeting is short and first on its connection: the socket takes it whole or is broken. A server
 * that refuses a certificate says so before it hangs up. */
static bool say(weir_wire *wire) {
  size_t length = wire->greeting.say_length;
  if (weir_wire_put(wire, wire->greeting.say, length) == (ssize_t)length) return true;
  if (wire->session != NULL) weir_wire_take(wire, wire->in, sizeof wire->in, false);
  if (!has_fault(wire)) weir_message_set(&wire->why, "the greeting cannot be sent");
  return false;
}

/* Lets the protocol read what came and answer; false when the peer must speak next. */
static bool converse(weir_wire *wire, bool closed, int64_t now_us) {
  weir_greeting *greeting = &wire->greeting;
  greeting->taken = 0;
  weir_greeting_answer answer = wire->protocol->greet(
      greeting, wire->in + wire->in_start, wire->in_end - wire->in_start, closed, &wire->why);
  wire->in_start += greeting->taken;
  switch (answer) {
    case WEIR_GREETING_MORE:
      if (!closed && wire->in_end < sizeof wire->in) return false;
      weir_message_set(&wire->why, "the server hung up during the greeting");
      break;
    case WEIR_GREETING_SAY:
      if (say(wire)) return true;
      break;
    case WEIR_GREETING_READY:
      if (wire->in_start < wire->in_end) {
        weir_message_set(&wire->why, "the server said more than the greeting asked for");
        break;
      }
      if (!make_parser(wire)) break;
      become_ready(wire, now_us);
      return true;
    case WEIR_GREETING_RECONNECT:
      drop_socket(wire);
      return true;
    case WEIR_GREETING_FAILED:
      break;
  }
  fail_attempt(wire, false);
  return true;
}

static bool step_greeting(weir_wire *wire, int64_t now_us) {
  size_t room = sizeof wire->in - wire->in_end;
  ssize_t got = weir_wire_take(wire, wire->in + wire->in_end, room, false);
  bool closed = got == 0 || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK);
  if (got > 0) wire->in_end += (size_t)got;
  if (got > 0) wire->silent_since_us = 0;
  wire->unread = got > 0 && weir_wire_holds(wire);
  if (closed && has_fault(wire)) {
    fail_attempt(wire, false);
    return false;
  }
  bool moved = false;
  while (wire->state == WEIR_WIRE_GREETING && converse(wire, closed, now_us))
    moved = true;
  if (moved || now_us < wire->attempt_end_us) return !moved;
  weir_message_set(&wire->why, "the server does not answer the greeting");
  fail_attempt(wire, false);
  return false;
}

/* Towards a ready connection, for those in line. */
static void step_towards_ready(weir_wire *wire, short revents, int64_t now_us) {
  bool stuck = false;
  while (!stuck && wire->first != NULL && wire->state != WEIR_WIRE_READY) {
    switch (wire->state) {
      case WEIR_WIRE_CLOSED:
        weir_wire_name_follow(wire, now_us);
        if (wire->tried < wire->addresses.count) {
          try_address(wire, now_us);
        } else {
          give_up(wire, now_us);
        }
        revents = 0;
        break;
      case WEIR_WIRE_CONNECTING:
        stuck = step_connecting(wire, revents, now_us);
        break;
      case WEIR_WIRE_SECURING:
        stuck = step_securing(wire, now_us);
        break;
      case WEIR_WIRE_GREETING:
        stuck = step_greeting(wire, now_us);
        break;
      case WEIR_WIRE_READY:
        break;
    }
  }
}

/* A busy process cannot tell before a second has passed. */
static int64_t overdue_us(const weir_wire *wire) {
  const weir_wire_slot *oldest = wire->first;
  if (oldest == NULL || oldest->encoded == 0) return INT64_MAX;
  int64_t due_us = oldest->deadline_us + wire->timeout_us;
  int64_t second_us = oldest->sent_us + WEIR_BREAKER_PROOF_US;
  return wire->busy_until_us > due_us && second_us > due_us ? second_us : due_us;
}

/* A server that refuses to write is as good as away. Its name may lead elsewhere in a moment, or
 * its address to another server; and another of its addresses may be the primary's. */
static void leave_demoted(weir_wire *wire, int64_t now_us) {
  weir_message_set(&wire->why,
                   "closed, as the server refuses to write: another is the primary by now");
  weir_breaker_fail(&wire->breaker, wire->why.text, now_us);
  wire->address = (wire->address + 1) % wire->addresses.count;
}

/* Leaves a connection that is to be left once it has nothing more to say and to hear. */
static bool may_leave(weir_wire *wire, int64_t now_us) {
  bool drained =
      wire->out_start == wire->out_end && (wire->first == NULL || wire->first->encoded == 0);
  if (!wire->leaving || !drained) return false;
  if (wire->demoted) {
    leave_demoted(wire, now_us);
  } else {
    weir_message_set(&wire->why, "closed, as another server may be meant by now");
  }
  return true;
}

static bool work(weir_wire *wire, short revents, int64_t now_us) {
  bool idle = now_us - wire->active_us > WEIR_WIRE_IDLE_US;
  wire->active_us = now_us;
  /* TLS may have waited to write before it could read. */
  if (wire->session != NULL && revents != 0) revents |= POLLIN;
  if ((idle || (revents & ~POLLOUT) != 0) && !weir_wire_receive(wire)) return false;
  if (now_us > overdue_us(wire)) {
    weir_message_set(&wire->why, "closed, as the oldest request stayed unanswered for too long");
    weir_wire_judge(wire, wire->first, overdue_us(wire), wire->why.text);
    return false;
  }
  if (weir_wire_send(wire, now_us, false)) return !may_leave(wire, now_us);
  /* What the server answered before it hung up still counts. */
  weir_message why = wire->why;
  if (weir_wire_receive(wire)) wire->why = why;
  return false;
}

void weir_wire_step(weir_wire *wire, short revents, int64_t now_us) {
  if (wire->state == WEIR_WIRE_READY) {
    if (work(wire, revents, now_us)) return;
    lose(wire, now_us);
  }
  step_towards_ready(wire, revents, now_us);
  if (wire->state == WEIR_WIRE_READY && !work(wire, 0, now_us)) lose(wire, now_us);
}

bool weir_wire_only_receives(const weir_wire *wire) {
  return wire->state == WEIR_WIRE_READY && !weir_wire_has_to_send(wire);
}

short weir_wire_events(const weir_wire *wire) {
  if (wire->state == WEIR_WIRE_CONNECTING) return POLLOUT;
  bool listens = wire->state != WEIR_WIRE_READY || weir_wire_only_receives(wire);
  if (wire->session != NULL) return weir_tls_session_events(wire->session, !listens);
  return listens ? POLLIN : POLLIN | POLLOUT;
}

int64_t weir_wire_alarm_us(const weir_wire *wire) {
  if (wire->state == WEIR_WIRE_READY) return overdue_us(wire);
  return wire->state == WEIR_WIRE_CLOSED ? INT64_MAX : wire->attempt_end_us;
}

bool weir_wire_is_connecting(const weir_wire *wire) {
  return wire->state != WEIR_WIRE_CLOSED && wire->state != WEIR_WIRE_READY;
}

void weir_wire_end_attempt(weir_wire *wire, bool spoken, int64_t now_us) {
  if (spoken) {
    wire->attempt_end_us = now_us + attempt_us(wire);
    return;
  }
  fail_attempt(wire, false);
  end_round(wire);
}
