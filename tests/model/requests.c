/* Reads what a scope's clients ask for. Written here, so known to fit.
 *
 *     "1+2 3 / 1~500 <"     clients are parted by '/', requests by blanks, those of a group by '+'
 *
 *     3        take 3                       3?      peek
 *     3^       take up to 3                 3~500   take 3, a wait of 500 us is accepted
 *     1|0|2    take, a cost for every rule          3a      take 3 for the first class; 3b: the second
 *     <        refund what the last request took      x   cancel it
 *     3*2      take 3, and lease 2                     r   give back all that is leased
 *     *2       refill: lease until 2 are held
 *     >2       charge 2 to the window that follows
 *     =5       settle: the last request really cost 5 (=5|0|2: for every rule)
 *     n        pay once more for all that is held
 *     3@5      take 3, by a limit of its own of 5
 *     !5       set the key's limit to 5; !0: it is blocked; !u: unlimited; !: it has none of its own
 *
 * a: before a client's requests says for which tenant it asks.
 */
#include <string.h>

#include "model.h"

static int64_t number(const char **at) {
  int64_t value = 0;
  for (; **at >= '0' && **at <= '9'; ++*at)
    value = value * 10 + (**at - '0');
  return value;
}

static void read_cost(const char **at, struct wanted *wanted) {
  wanted->cost = wanted->costs[0] = number(at);
  for (int rule = 1; **at == '|'; rule++) {
    wanted->own_costs = true;
    ++*at;
    wanted->costs[rule] = number(at);
  }
}

static void read_wanted(const char **at, struct wanted *wanted) {
  wanted->given = true;
  if (**at == '=') {
    ++*at;
    read_cost(at, wanted);
    wanted->wish = SETTLES;
    return;
  }
  if (**at == '!') {
    char next = *++*at;
    wanted->wish = SETS;
    wanted->limit = next >= '0' && next <= '9' ? number(at) : next == 'u' ? KEY_UNLIMITED : -1;
    *at += next == 'u';
    return;
  }
  if (**at == 'n' || **at == '<' || **at == 'x' || **at == 'r') {
    wanted->wish = **at == '<' ? REFUNDS : **at == 'x' ? CANCELS : **at == 'r' ? RETURNS : RENEWS;
    ++*at;
    return;
  }
  if (**at == '*' || **at == '>') {
    wanted->wish = **at == '*' ? REFILLS : NEXTS;
    return;
  }
  read_cost(at, wanted);
  for (; strchr("?^~ab@", **at) != NULL && **at != '\0';) {
    char mark = *(*at)++;
    if (mark == '?') wanted->wish = PEEKS;
    if (mark == '^') wanted->up_to = true;
    if (mark == 'a' || mark == 'b') wanted->class = (unsigned)(mark - 'a' + 1);
    if (mark == '@') wanted->limit = number(at);
    if (mark != '~') continue;
    wanted->waits = true;
    wanted->wait_us = number(at);
  }
}

void requests_read(struct model *model) {
  const char *at = model->scope->requests;
  for (int client = 0, request = 0, place = 0; *at != '\0';) {
    if (*at == ' ') {
      at++;
    } else if (*at == '/') {
      client++;
      request = 0;
      at++;
    } else if (at[1] == ':') {
      model->tenants[client] = *at;
      at += 2;
    } else {
      read_wanted(&at, &model->requests[client][request].wanted[place]);
      if (*at == '*' || *at == '>') {
        at++;
        model->requests[client][request].lease = number(&at);
      }
      if (*at == '+') {
        place++;
        at++;
      } else {
        request++;
        place = 0;
      }
    }
  }
}
