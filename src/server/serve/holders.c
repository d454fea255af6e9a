#include "serve/holders.h"

#include <stdlib.h>
#include <string.h>

#include "serve/log.h"

enum { KEYS_SHOWN = 20, HOLDERS_SHOWN = 1000 };

/* --- /status.json -------------------------------------------------------------------------------
 */

json_t *weir_holders_row(const weir_limiter *limiter) {
  weir_limiter_counts counts = WEIR_LIMITER_COUNTS_INIT;
  weir_limiter_read_counts(limiter, &counts);
  return json_pack("{sI sI sI sI sI sI}", "held", (json_int_t)counts.places_held, "entered",
                   (json_int_t)counts.places_entered, "denied", (json_int_t)counts.places_denied,
                   "released", (json_int_t)counts.places_released, "lost",
                   (json_int_t)counts.places_lost, "renewals", (json_int_t)counts.renewals);
}

/* Of a limiter that lets its keys be shown, in whichever form; else NULL. */
static json_t *key_of(const weir_service *service, const weir_kept_busy *busy) {
  const weir_registry *registry = service->front->tick.registry;
  const weir_named *named =
      busy->prefix_length > 0 ? weir_registry_find(registry, busy->counted, busy->prefix_length - 1)
                              : NULL;
  if (named == NULL || named->config->log_keys == WEIR_CONFIG_LOG_KEYS_OFF) return NULL;
  char text[WEIR_DENIAL_KEY_BYTES];
  const weir_reply reply = {.name = named->config->name,
                            .key = busy->counted + busy->prefix_length,
                            .key_length = busy->length - busy->prefix_length};
  const weir_denial_line line = {.reply = &reply,
                                 .log_keys = named->config->log_keys,
                                 .hash = weir_denial_log_hash(&service->denials, &reply)};
  weir_denial_line_show(&line, WEIR_DENIAL_ON_PAGE, text);
  return json_pack("{ss ss sb sI sI}", "limiter", named->config->name, "key", text, "hashed",
                   named->config->log_keys == WEIR_CONFIG_LOG_KEYS_HASHED, "held",
                   (json_int_t)busy->count, "cost", (json_int_t)busy->cost);
}

json_t *weir_holders_status(weir_service *service) {
  weir_kept_figures figures;
  weir_kept_busy busiest[KEYS_SHOWN];
  json_t *keys = json_array();
  json_t *ended = json_object();
  weir_keeper_read(&service->keeper, &figures);
  size_t count = weir_keeper_find_busiest(&service->keeper, busiest, KEYS_SHOWN);
  for (size_t i = 0; i < count; i++) {
    json_t *shown = key_of(service, &busiest[i]);
    if (shown != NULL) json_array_append_new(keys, shown);
    free(busiest[i].counted);
  }
  for (size_t i = 0; i < WEIR_KEPT_ENDS; i++)
    json_object_set_new(ended, weir_kept_end_names[i], json_integer((json_int_t)figures.ended[i]));
  return json_pack("{sI sI sI so so}", "held", (json_int_t)figures.held, "most",
                   (json_int_t)service->front->tick.registry->config->places.most, "refused",
                   (json_int_t)figures.refused, "ended", ended, "keys", keys);
}

/* --- one key ------------------------------------------------------------------------------------
 */

/* What a client of an operator asks for. */
typedef struct question {
  const char *limiter, *key, *place;
  size_t limiter_length, key_length, place_length;
} question;

static json_t *holder_of(const weir_kept_holder *holder, int64_t now_us) {
  char name[WEIR_PLACE_NAME_BYTES];
  json_t *token = json_sprintf("%llu", (unsigned long long)holder->state.token);
  weir_place_name_write(&holder->name, name);
  return json_pack("{ss ss sI sb so sI sI sI}", "place", name, "client", holder->client, "cost",
                   (json_int_t)holder->cost, "held", holder->state.is_held, "token", token,
                   "held_until_us", (json_int_t)holder->state.held_until_us, "since_s",
                   (json_int_t)(now_us - holder->since_us) / 1000000, "left_s",
                   (json_int_t)(holder->until_us - now_us) / 1000000);
}

static bool tell_holders(weir_keeper *keeper, const weir_hash_text *counted, weir_bytes *out) {
  weir_kept_holder *holders = calloc(HOLDERS_SHOWN, sizeof *holders);
  if (holders == NULL) return false;
  json_t *list = json_array();
  int64_t now_us = weir_monotonic_us();
  size_t count = weir_keeper_find_holders(keeper, counted, holders, HOLDERS_SHOWN);
  for (size_t i = 0; i < count && i < HOLDERS_SHOWN; i++)
    json_array_append_new(list, holder_of(&holders[i], now_us));
  free(holders);
  json_t *told = json_pack("{sI so}", "held", (json_int_t)count, "holders", list);
  char *text = told != NULL ? json_dumps(told, JSON_COMPACT | JSON_ENSURE_ASCII) : NULL;
  if (text != NULL) weir_bytes_text(out, text);
  if (text != NULL) weir_bytes_text(out, "\n");
  json_decref(told);
  free(text);
  return text != NULL;
}

static bool put_out(weir_service *service, const question *asked, const weir_hash_text *counted,
                    weir_bytes *out, weir_http_refusal *refusal) {
  weir_ask ask = {.place = {.is_none = true}};
  refusal->status = 400;
  if (!weir_ask_read_place(&ask, asked->place, asked->place_length, &refusal->why)) return false;
  weir_kept_state state;
  weir_kept *kept = weir_keeper_take(&service->keeper, &ask.place, counted, WEIR_KEPT_PUT_OUT,
                                     &state, &refusal->why);
  if (kept == NULL) return false;
  weir_keeper_release_soon(&service->keeper, kept);
  weir_serve_log("an operator has put out a place of %.*s", (int)asked->limiter_length,
                 asked->limiter);
  weir_bytes_text(out, "{\"put_out\":true}\n");
  return true;
}

bool weir_holders_answer(weir_service *service, const weir_http_request *request, weir_bytes *out,
                         weir_http_refusal *refusal) {
  bool puts_out = weir_http_is_path(request, "/places/out");
  question asked = {.limiter = NULL};
  const weir_http_member members[] = {
      {.name = "limiter", .text = &asked.limiter, .length = &asked.limiter_length, .needed = true},
      {.name = "key", .text = &asked.key, .length = &asked.key_length, .needed = true},
      {.name = "place", .text = &asked.place, .length = &asked.place_length, .needed = true},
  };
  if (!weir_http_is(request->method, "POST"))
    return weir_http_decline(refusal, 405, "POST is accepted here");
  weir_http_call call = {.envoy = NULL};
  weir_bytes counted = {0};
  bool done = weir_http_is_json(request, refusal) &&
              weir_http_read_body(request, members, puts_out ? 3 : 2, &call, refusal);
  if (done) {
    weir_bytes_add(&counted, asked.limiter, asked.limiter_length);
    weir_bytes_text(&counted, ":");
    weir_bytes_add(&counted, asked.key, asked.key_length);
    const weir_hash_text text = {counted.data, counted.length};
    if (puts_out && !counted.failed)
      done = put_out(service, &asked, &text, out, refusal);
    else if (counted.failed || !tell_holders(&service->keeper, &text, out))
      done = weir_http_decline(refusal, 503, "the server is short of memory");
  }
  weir_bytes_free(&counted);
  weir_http_call_free(&call);
  return done;
}
