/* What an engine of the replay is: a shared object whose `engines` has one or more of these, an empty name behind the last.

   Its file may use what recording.h declares, which the replay exports. */
#ifndef ENGINE_H
#define ENGINE_H

#include "recording.h"

/* How a stack ended, as the engine itself has it. */
enum ending { ENDED, FAILED };

struct engine {
    const char *name;
    /* Before anything is measured, once: what the other functions get as self; or NULL, and *reason says why not. */
    void *(*open)(const struct recording *recording, const char **reason);
    /* Before each sample, not measured; may be NULL. */
    void (*prepare)(void *self, const struct sample *sample);
    /* The pcs of a sample's frames, innermost first, most of them at most: the first is where it was interrupted, the others
       are return addresses as they are on the stack. Returns how many, and sets *ending. */
    int (*unwind)(void *self, const struct sample *sample, uint64_t *pcs, int most, enum ending *ending);
};

extern const struct engine engines[];

#endif
