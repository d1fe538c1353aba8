/* Rows and rules while a table is being built. */
#ifndef CLEW_ROWS_H
#define CLEW_ROWS_H

#include "layout.h"

/* Memory that grows, from mmap: no allocator of the program is touched. */
struct store {
    uint8_t *bytes;
    size_t used, room;
};

/* Room for `count` more records behind the others; NULL if there is no memory, or they are none. */
void *store_add(struct store *store, size_t size, size_t count);
void store_free(struct store *store);

struct row {
    uint32_t at; /* from the base */
    uint32_t rule;
};

/* Where a rule's cells and steps are, and how many. */
struct rule_parts {
    uint32_t hash, cell, step;
    uint16_t cells, steps;
};

struct rows {
    uint64_t base; /* the lowest loaded address, at a page */
    struct store rows, rules, parts, cells, steps;
    uint32_t *table; /* rules' numbers by hash; ~0: none */
    uint32_t mask;
};

int rows_begin(struct rows *rows);
void rows_free(struct rows *rows);

/* Adds a row. 0, or -1 if there is no memory. */
int rows_add(struct rows *rows, uint64_t at, const struct cfi_rule *rule);

/* As clew.table.normalise: one row where neighbours say the same, and padding between functions belongs to the one before. */
void rows_normalise(struct rows *rows);

/* Makes the packed table. */
int rows_pack(const struct rows *rows, const struct layout *layout, struct built *built);

#endif
