/* What of a world can change. */
#ifndef MODEL_RANGES_H
#define MODEL_RANGES_H

#include "model.h"

/* A word of the world, where it stands in what is saved, and what it was; places count words. */
struct change {
  uint16_t at, saved;
  uint64_t old;
};

/* Saves and restores it. */
void ranges_find(struct model *model);
void ranges_save(const struct model *model, char *saved);
void ranges_restore(struct model *model, const char *saved);

/* The words that are not as they were saved, where this client's steps are all that came since. */
size_t ranges_compare(const struct model *model, const char *saved, int who,
                      struct change *changes);

/* What is saved becomes as the world is; and both become as they were. */
void ranges_keep(const struct model *model, char *saved, const struct change *changes,
                 size_t count);
void ranges_undo(struct model *model, char *saved, const struct change *changes, size_t count);

#endif
