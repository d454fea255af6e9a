/* Shared by the headers: the mark of functions that the shared library shows, and the begin of a
 * structure that says its own size. */
#ifndef WEIR_EXPORT_H
#define WEIR_EXPORT_H

#if defined(__GNUC__)
#define WEIR_EXPORT __attribute__((visibility("default")))
#else
#define WEIR_EXPORT
#endif

/* A structure that is all zero but for its `size`: what each WEIR_..._INIT is. In C an initialiser,
 * in C++ a value. */
#ifdef __cplusplus
#define WEIR_SIZED(type)     \
  ([] {                      \
    type made = type();      \
    made.size = sizeof made; \
    return made;             \
  }())
#else
#define WEIR_SIZED(type) \
  { .size = sizeof(type) }
#endif

#endif
