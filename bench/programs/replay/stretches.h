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

/* A recording's functions that clew compiled, by space. */
struct compiled {
    const struct recording *recording;
    struct stretches **spaces;
};

static inline struct stretches *compiled_for(const struct compiled *compiled, const struct sample *sample)
{
    return compiled->spaces[sample->space - compiled->recording->spaces];
}

/* Opens what clew compiled of each object: the path that stands at an offset in struct object, by the engine's `open`, which
   gives the function as a pointer to data, as dlsym does. */
static inline void *open_compiled(const struct recording *recording, size_t path_at, const void *(*open)(const char *path),
                                  const char **reason)
{
    const void **functions = calloc(recording->object_count + 1, sizeof *functions);
    size_t opened = 0;
    for (size_t i = 0; i < recording->object_count; i++) {
        functions[i] = open(*(const char *const *)((const char *)&recording->objects[i] + path_at));
        opened += functions[i] != NULL;
    }
    *reason = "nothing is compiled";
    if (!opened)
        return NULL;
    struct compiled *compiled = malloc(sizeof *compiled);
    *compiled = (struct compiled){recording, stretches_of(recording, functions)};
    return compiled;
}

#endif
