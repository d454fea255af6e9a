#include "redis/slots.h"

/* Half a byte at a time. */
static uint16_t crc16(const char *bytes, size_t length) {
  static const uint16_t table[16] = {0x0000, 0x1021, 0x2042, 0x3063, 0x4084, 0x50a5,
                                     0x60c6, 0x70e7, 0x8108, 0x9129, 0xa14a, 0xb16b,
                                     0xc18c, 0xd1ad, 0xe1ce, 0xf1ef};
  unsigned crc = 0;
  for (size_t i = 0; i < length; i++) {
    unsigned byte = (unsigned char)bytes[i];
    crc = (crc << 4 & 0xffff) ^ table[crc >> 12 ^ byte >> 4];
    crc = (crc << 4 & 0xffff) ^ table[crc >> 12 ^ (byte & 0xf)];
  }
  return (uint16_t)crc;
}

uint16_t weir_redis_slot(const char *home, size_t length) {
  return crc16(home, length) % WEIR_REDIS_SLOTS;
}

int weir_redis_slots_owner(weir_redis_slots *slots, uint16_t slot) {
  return atomic_load_explicit(&slots->owners[slot], memory_order_acquire) - 1;
}

int weir_redis_slots_learn(weir_redis_slots *slots, uint16_t slot, unsigned node) {
  return atomic_exchange_explicit(&slots->owners[slot], (uint16_t)(node + 1),
                                  memory_order_acq_rel) -
         1;
}

static void replace(weir_redis_slots *slots, uint16_t from, uint16_t to) {
  for (size_t i = 0; i < WEIR_REDIS_SLOTS; i++) {
    uint16_t owner = from;
    if (atomic_load_explicit(&slots->owners[i], memory_order_relaxed) == from)
      atomic_compare_exchange_strong_explicit(&slots->owners[i], &owner, to, memory_order_acq_rel,
                                              memory_order_relaxed);
  }
}

void weir_redis_slots_inherit(weir_redis_slots *slots, unsigned dead, unsigned heir) {
  replace(slots, (uint16_t)(dead + 1), (uint16_t)(heir + 1));
}

void weir_redis_slots_release(weir_redis_slots *slots, unsigned node) {
  replace(slots, (uint16_t)(node + 1), 0);
}

void weir_redis_slots_count_all(weir_redis_slots *slots, size_t *owned) {
  for (unsigned i = 0; i < WEIR_REDIS_SLOTS; i++) {
    int owner = weir_redis_slots_owner(slots, (uint16_t)i);
    if (owner >= 0) owned[owner]++;
  }
}

size_t weir_redis_slots_count(weir_redis_slots *slots, unsigned node) {
  size_t count = 0;
  for (unsigned i = 0; i < WEIR_REDIS_SLOTS; i++)
    count += weir_redis_slots_owner(slots, (uint16_t)i) == (int)node;
  return count;
}
