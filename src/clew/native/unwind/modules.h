/*
 * What is known of loaded modules.
 *
 * A module is known by what _dl_find_object says of it and by its build id (or, without one, by the bytes from its
 * .eh_frame_hdr on, which tell large files apart only where these begin). What is known never becomes untrue: another module at the same place is another one by this. So nothing is
 * ever taken out; records are added under a lock, and found without.
 */
#ifndef CLEW_MODULES_H
#define CLEW_MODULES_H

#include <dlfcn.h>
#include <stdatomic.h>

#include "layout.h"

#define MODULE_ID 32

struct module {
    const void *link_map, *header; /* as _dl_find_object says; header: PT_GNU_EH_FRAME's contents */
    uint64_t low, high;            /* of its mapping */
    const uint8_t *id_at;          /* where the bytes are in its memory that tell it from another */
    uint32_t id_size;
    uint8_t id[MODULE_ID];
    struct layout layout;
    int has_table;
    struct clew_table table;
};

/* Grows by one whenever modules may have come or gone: what threads remember is then forgotten. */
extern atomic_uint clew_generation;

/* Finds the tables of all loaded modules that are not known yet. Not for signal handlers. */
void clew_modules_update(void);

/* The module that _dl_find_object found, if it is known. Async-signal-safe. */
const struct module *clew_module(const struct dl_find_object *found);

/* A module that is not known yet, in `module`: 0, or -1 if there is no telling what is in it. Async-signal-safe. */
int clew_module_unknown(const struct dl_find_object *found, struct module *module);

/* Of bytes without a build id, `id` is a sum over these: so many at most, in the page of PT_GNU_EH_FRAME's contents. */
#define MODULE_SAMPLE 512

static inline uint64_t clew_module_sum(const uint8_t *at, uint32_t size) {
    uint64_t sum = size, word;
    for (; size >= 8; at += 8, size -= 8) {
        __builtin_memcpy(&word, at, 8);
        sum = (sum ^ word) * 0xff51afd7ed558ccdull;
        sum ^= sum >> 29;
    }
    return sum;
}

/* Whether a module's memory still is the one that `id` was taken from. */
static inline int clew_module_is(const uint8_t *id_at, const uint8_t *id, uint32_t size) {
    uint64_t sum;
    if (size <= MODULE_ID)
        return !size || !__builtin_memcmp(id_at, id, size);
    __builtin_memcpy(&sum, id, 8);
    return clew_module_sum(id_at, size) == sum;
}

/* A module's table from the cache, by its build id; 0, or -1. The memory stays mapped. */
int clew_cached_table(const struct module *module, struct clew_table *table);

#endif
