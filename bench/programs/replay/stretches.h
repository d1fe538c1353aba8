/* Which of clew's forms an address belongs to: the modules of a space, with nothing but what a step needs. */
#ifndef STRETCHES_H
#define STRETCHES_H

#include "engine.h"

#include <stdlib.h>

/* A module: its addresses, its bias, and what clew made of its file; NULL where there is nothing. */
struct stretch {
    uint64_t start, size, bias;
    const void *form;
};

/* Those of a space, sorted; and the one that the frame before was in, and the one before that: calls tend to go to and fro
   between two. */
struct stretches {
    struct stretch last, other;
    size_t count;
    struct stretch each[];
};

/* In no module. */
static const struct stretch no_stretch;

static inline int is_in(const struct stretch *stretch, uint64_t address)
{
    return address - stretch->start < stretch->size;
}

/* The module that an address is in, or one without a form. */
static inline const struct stretch *stretch_of(struct stretches *stretches, uint64_t address)
{
    if (__builtin_expect(is_in(&stretches->last, address), 1))
        return &stretches->last;
    struct stretch found = stretches->other;
    if (!is_in(&found, address)) {
        size_t low = 0, high = stretches->count;
        while (low < high) {
            size_t middle = (low + high) / 2;
            if (stretches->each[middle].start <= address)
                low = middle + 1;
            else
                high = middle;
        }
        if (!low || !is_in(&stretches->each[low - 1], address))
            return &no_stretch;
        found = stretches->each[low - 1];
    }
    stretches->other = stretches->last;
    stretches->last = found;
    return &stretches->last;
}

/* The stretches of each space, given the forms of the objects by their numbers. */
static inline struct stretches **stretches_of(const struct recording *recording, const void *const *forms)
{
    struct stretches **spaces = calloc(recording->space_count + 1, sizeof *spaces);
    for (size_t i = 0; i < recording->space_count; i++) {
        const struct space *space = &recording->spaces[i];
        struct stretches *made = malloc(sizeof *made + space->count * sizeof made->each[0]);
        made->last = made->other = no_stretch;
        made->count = space->count;
        for (size_t k = 0; k < space->count; k++) {
            const struct module *module = &space->modules[k];
            made->each[k] = (struct stretch){module->start, module->end - module->start, module->bias,
                                             forms[module->object->number]};
        }
        spaces[i] = made;
    }
    return spaces;
}

#endif
