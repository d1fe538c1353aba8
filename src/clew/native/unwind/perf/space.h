/* An address space of another program: its accessors, and the rules that were found in it. */
#ifndef CLEW_PERF_SPACE_H
#define CLEW_PERF_SPACE_H

#include "../cfi.h"
#include "libunwind.h"

/* Rules that are remembered, a power of two, and how long their expressions may be together. */
#define SPACE_RULES 4096
#define SPACE_STEPS 16
/* An FDE may be this long. */
#define SPACE_ENTRY 65536

struct remembered {
    word_t address; /* 0: none */
    int status;     /* CFI_OK, or the rule says nothing */
    struct cfi_rule rule;
    struct clew_step steps[SPACE_STEPS];
};

struct space {
    struct accessors accessors;
    int found;            /* what dwarf_search_unwind_table found last, and where: */
    word_t wanted, entry; /* for this address, an FDE there */
    struct remembered rules[SPACE_RULES];
    uint8_t fde[SPACE_ENTRY], cie[SPACE_ENTRY];
};

/* The rule at an address; NULL if there is none. */
const struct remembered *space_rule(struct space *space, word_t address, void *argument);

/* Reads a word; 0 if it could. */
int space_read(struct space *space, word_t address, word_t *value, void *argument);

#endif
