/* Where a loaded module lies, its call frame information, and rules out of it. */
#ifndef CLEW_LAYOUT_H
#define CLEW_LAYOUT_H

#include <elf.h>
#include <stdint.h>

#include "cfi.h"

#define LAYOUT_MOST 16

struct layout_load {
    uint64_t low, high; /* addresses in this process */
    int executable;
};

/* A module's loaded segments. */
struct layout {
    uint64_t bias; /* what the file's addresses are moved by */
    struct layout_load loads[LAYOUT_MOST];
    int count;
    const uint8_t *build_id; /* in the module's own memory; NULL if it has none */
    uint32_t build_id_size;
};

/* From program headers; those that are not in a loaded segment are not believed. */
void clew_layout(struct layout *layout, const Elf64_Phdr *headers, unsigned count, uint64_t bias);

/* From what lies at the start of a mapping, which need not be an ELF header. 0, or -1. Async-signal-safe. */
int clew_layout_at(struct layout *layout, uint64_t map_start, uint64_t map_end);

/* The loaded segment around an address, as bytes that begin there; 0, or -1. */
int clew_layout_bytes(const struct layout *layout, uint64_t address, struct cfi_bytes *bytes);

/* Where .eh_frame begins, by PT_GNU_EH_FRAME's contents at `header`; 0 if that makes no sense. */
uint64_t clew_eh_frame(const struct layout *layout, uint64_t header);

/* The FDE around an address, by the header's sorted table (LSB 5, 10.6.2). CFI_OK, CFI_END: there is none, CFI_BAD. */
int clew_find_fde(const struct layout *layout, uint64_t header, uint64_t address, struct cfi_cie *cie, struct cfi_fde *fde);

/* The rule at an address, by running its FDE's program. As above. Async-signal-safe. */
int clew_interpret(const struct layout *layout, uint64_t header, uint64_t address, struct cfi_rule *rule);

/* A packed table made of a module's .eh_frame; its memory is mapped. */
struct built {
    void *bytes;
    uint64_t size;
    struct clew_table table;
};

/* 0, or -1 if nothing can be made of it. Maps memory, and is not for signal handlers. */
int clew_build(const struct layout *layout, uint64_t header, struct built *built);

#endif
