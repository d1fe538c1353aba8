/*
 * Rules by program counter: a small direct-mapped cache, one for each thread or each process that is walked.
 *
 * Stacks of a program go through the same calls again and again: of a sampling profiler's frames nine in ten are at a pc that
 * was met before. A hit saves the search for the module and for the row; it is two loads and a comparison. Who walks more
 * than one address space, or a process whose modules come and go, puts what tells them apart into `owner` and compares it.
 */
#ifndef CLEW_RULE_CACHE_H
#define CLEW_RULE_CACHE_H

#include "packed.h"

#ifndef CLEW_RULE_CACHE_BITS
#define CLEW_RULE_CACHE_BITS 10
#endif

/* What was found for an address to look up (a return address less one). 32 bytes: two of them share a cache line. */
struct clew_known {
    uint64_t address;
    uint64_t owner;                 /* the includer's: an address space, a module, a generation */
    const struct clew_table *table; /* or null: nothing that a step can be taken by */
    const struct clew_rule *rule;
};

struct clew_rule_cache {
    struct clew_known known[1 << CLEW_RULE_CACHE_BITS];
};

/* The place of an address. Calls to one function lie close together, and functions begin at multiples of 16. */
static inline struct clew_known *clew_known_place(struct clew_rule_cache *cache, uint64_t address) {
    return &cache->known[(address ^ address >> CLEW_RULE_CACHE_BITS) & ((1u << CLEW_RULE_CACHE_BITS) - 1)];
}

/* Forgets everything: no place holds an address that belongs there. */
static inline void clew_known_forget(struct clew_rule_cache *cache) {
    for (uint64_t i = 0; i < 1u << CLEW_RULE_CACHE_BITS; i++)
        cache->known[i].address = i ? 0 : 1;
}

#endif
