/* A packed table out of a loaded module's .eh_frame, for modules that the cache has none of. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "layout.h"
#include "rows.h"

struct range {
    uint64_t start, end;
    const uint8_t *entry;
};

static int compare(const void *left, const void *right) {
    const struct range *a = left, *b = right;
    if (a->start != b->start)
        return a->start < b->start ? -1 : 1;
    /* Of equal starts the one that stands last counts, as everywhere in clew. */
    return (a->entry > b->entry) - (a->entry < b->entry);
}

/* The CIE of the last FDE, which is nearly always the next one's as well. */
struct cie_at {
    const uint8_t *at;
    struct cfi_cie cie;
    int good;
};

static const struct cfi_cie *cie_of(const struct layout *layout, struct cie_at *last, const uint8_t *at) {
    struct cfi_bytes bytes, body;
    const uint8_t *unused;
    int is_cie;
    if (last->at != at) {
        last->at = at;
        last->good = !clew_layout_bytes(layout, (uint64_t)(uintptr_t)at, &bytes) &&
                     cfi_entry(&bytes, &body, &is_cie, &unused) == CFI_OK && is_cie && cfi_read_cie(body, &last->cie) == CFI_OK;
    }
    return last->good ? &last->cie : NULL;
}

static int read_fde(const struct layout *layout, struct cie_at *last, const uint8_t *entry, struct cfi_fde *fde) {
    struct cfi_bytes bytes, body;
    const uint8_t *cie_at;
    int is_cie;
    if (clew_layout_bytes(layout, (uint64_t)(uintptr_t)entry, &bytes) ||
        cfi_entry(&bytes, &body, &is_cie, &cie_at) != CFI_OK || is_cie)
        return CFI_BAD;
    const struct cfi_cie *cie = cie_of(layout, last, cie_at);
    return cie ? cfi_read_fde(body, cie, fde) : CFI_BAD;
}

/* Whether an address is in code that was loaded. */
static int is_code(const struct layout *layout, uint64_t address) {
    for (int i = 0; i < layout->count; i++)
        if (layout->loads[i].executable && address >= layout->loads[i].low && address < layout->loads[i].high)
            return 1;
    return 0;
}

static int list(const struct layout *layout, struct cfi_bytes bytes, struct store *ranges) {
    struct cie_at last = {0};
    int rising = 1;
    uint64_t before = 0;
    for (;;) {
        const uint8_t *entry = bytes.at, *cie_at;
        struct cfi_bytes body;
        struct cfi_fde fde;
        int is_cie;
        if (cfi_entry(&bytes, &body, &is_cie, &cie_at) != CFI_OK)
            break; /* the terminator; or nothing can be told from here on */
        if (is_cie || read_fde(layout, &last, entry, &fde) != CFI_OK || !fde.size || !is_code(layout, fde.start))
            continue;
        struct range *range = store_add(ranges, sizeof *range, 1);
        if (!range)
            return -1;
        *range = (struct range){fde.start, fde.start + fde.size, entry};
        rising &= fde.start > before;
        before = fde.start;
    }
    if (!rising)
        qsort(ranges->bytes, ranges->used / sizeof(struct range), sizeof(struct range), compare);
    return 0;
}

/*
 * The rows of one FDE up to `end`. A program that cannot be run says nothing of its function: its rows are taken back.
 */
static int expand(struct rows *rows, const struct layout *layout, struct cie_at *last, const struct range *range,
                  uint64_t end) {
    static const struct cfi_rule nothing;
    struct clew_step steps[64];
    struct cfi_rule rule = {.steps = steps, .step_room = 64};
    struct cfi_machine machine;
    struct cfi_fde fde;
    size_t mark = rows->rows.used;
    int status = read_fde(layout, last, range->entry, &fde);
    if (status == CFI_OK)
        status = cfi_begin(&machine, &last->cie, &fde, 0);
    uint64_t at = range->start;
    while (status == CFI_OK && at < end) {
        status = cfi_next(&machine);
        if (status == CFI_BAD)
            break;
        cfi_rule_of(&machine.row, &last->cie, &rule);
        if (rows_add(rows, at - rows->base, &rule))
            return -1;
        at = machine.location;
    }
    if (status == CFI_BAD) {
        rows->rows.used = mark;
        return rows_add(rows, range->start - rows->base, &nothing);
    }
    return 0;
}

/* All FDEs in the order of their addresses; where two overlap, the one that starts later counts. */
static int expand_all(struct rows *rows, const struct layout *layout, const struct store *ranges) {
    static const struct cfi_rule nothing;
    const struct range *each = (const struct range *)ranges->bytes;
    size_t count = ranges->used / sizeof *each;
    struct cie_at last = {0};
    uint64_t reach = rows->base;
    for (size_t i = 0; i < count; i++) {
        uint64_t end = each[i].end;
        if (i + 1 < count && each[i + 1].start < end)
            end = each[i + 1].start;
        if (end <= each[i].start)
            continue;
        if (end - rows->base > UINT32_MAX)
            return -1;
        if (each[i].start > reach && rows_add(rows, reach - rows->base, &nothing))
            return -1;
        if (expand(rows, layout, &last, &each[i], end))
            return -1;
        reach = end;
    }
    return rows_add(rows, reach - rows->base, &nothing);
}

int clew_build(const struct layout *layout, uint64_t header, struct built *built) {
    struct cfi_bytes bytes;
    struct store ranges = {0};
    struct rows rows = {0};
    uint64_t eh_frame = clew_eh_frame(layout, header);
    int status = -1;
    if (!eh_frame || !layout->count || clew_layout_bytes(layout, eh_frame, &bytes))
        return -1;
    rows.base = layout->loads[0].low & ~4095ull;
    for (int i = 1; i < layout->count; i++)
        if (layout->loads[i].low < rows.base)
            rows.base = layout->loads[i].low & ~4095ull;
    if (!list(layout, bytes, &ranges) && ranges.used && !rows_begin(&rows) && !expand_all(&rows, layout, &ranges)) {
        rows_normalise(&rows);
        status = rows_pack(&rows, layout, built);
    }
    store_free(&ranges);
    rows_free(&rows);
    return status;
}
