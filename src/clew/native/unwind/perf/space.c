/* Rules of another program, by what its accessors tell; see space.h. */
#include "space.h"

#include <string.h>

int space_read(struct space *space, word_t address, word_t *value, void *argument) {
    return space->accessors.access_mem(space, address, value, 0, argument);
}

/* The lower half of a word there that may be the last one readable. */
static int read_half(struct space *space, word_t address, uint32_t *value, void *argument) {
    word_t word;
    if (!space_read(space, address, &word, argument)) {
        *value = (uint32_t)word;
        return 0;
    }
    if (space_read(space, address - 4, &word, argument))
        return -1;
    *value = (uint32_t)(word >> 32);
    return 0;
}

/* Copies an entry of .eh_frame. How many bytes it has, with its length; 0 if it cannot be had. */
static size_t copy_entry(struct space *space, word_t address, uint8_t *to, void *argument) {
    uint32_t length, half;
    if (read_half(space, address, &length, argument) || !length || length > SPACE_ENTRY - 4)
        return 0; /* nor is a 64-bit entry, which would be longer */
    memcpy(to, &length, 4);
    for (uint32_t done = 0; done < length; done += 4) {
        if (read_half(space, address + 4 + done, &half, argument))
            return 0;
        memcpy(to + 4 + done, &half, length - done < 4 ? length - done : 4);
    }
    return 4 + (size_t)length;
}

static int interpret(struct space *space, word_t address, struct remembered *to, void *argument) {
    struct cfi_machine machine;
    struct cfi_bytes bytes, body;
    struct cfi_cie cie;
    struct cfi_fde fde;
    const uint8_t *cie_at, *unused;
    int is_cie;
    size_t size = copy_entry(space, space->entry, space->fde, argument);
    bytes = (struct cfi_bytes){space->fde, space->fde + size, space->entry - (word_t)(uintptr_t)space->fde, 0};
    if (!size || cfi_entry(&bytes, &body, &is_cie, &cie_at) != CFI_OK || is_cie)
        return CFI_BAD;
    word_t where = (word_t)(uintptr_t)cie_at + body.shift;
    size = copy_entry(space, where, space->cie, argument);
    struct cfi_bytes cie_bytes = {space->cie, space->cie + size, where - (word_t)(uintptr_t)space->cie, 0}, cie_body;
    if (!size || cfi_entry(&cie_bytes, &cie_body, &is_cie, &unused) != CFI_OK || !is_cie ||
        cfi_read_cie(cie_body, &cie) != CFI_OK || cfi_read_fde(body, &cie, &fde) != CFI_OK || address - fde.start >= fde.size)
        return CFI_BAD;
    int status = cfi_begin(&machine, &cie, &fde, body.shift);
    while (status == CFI_OK && machine.location <= address)
        status = cfi_next(&machine);
    if (status == CFI_BAD)
        return CFI_BAD;
    to->rule.steps = to->steps;
    to->rule.step_room = SPACE_STEPS;
    cfi_rule_of(&machine.row, &cie, &to->rule);
    return CFI_OK;
}

const struct remembered *space_rule(struct space *space, word_t address, void *argument) {
    struct remembered *slot = &space->rules[(address ^ address >> 12) & (SPACE_RULES - 1)];
    if (!address)
        return NULL; /* no code, and no place: see space.h */
    if (slot->address == address)
        return slot->status == CFI_OK ? slot : NULL;
    struct proc_info info = {0};
    space->found = 0;
    space->wanted = address;
    int status = space->accessors.find_proc_info(space, address, &info, 1, argument);
    slot->address = 0;
    if (status < 0 || !space->found)
        return NULL; /* perhaps it can be told later */
    slot->status = interpret(space, address, slot, argument);
    slot->address = address;
    if (space->accessors.put_unwind_info)
        space->accessors.put_unwind_info(space, &info, argument);
    return slot->status == CFI_OK ? slot : NULL;
}

/* What find_proc_info calls: looks for an address in the sorted table of .eh_frame_hdr. */
__attribute__((visibility("default"))) int _Ux86_64_dwarf_search_unwind_table(space_t space, word_t address,
                                                                             struct dyn_info *info, struct proc_info *proc,
                                                                             int need_unwind_info, void *argument) {
    uint32_t start, offset;
    if (info->format != FORMAT_REMOTE_TABLE)
        return -EINVAL_;
    word_t low = 0, high = info->table.table_len; /* in words, of which each entry is one */
    int32_t wanted = (int32_t)(address - info->table.segbase);
    if ((word_t)(int64_t)wanted != address - info->table.segbase)
        return -ENOINFO;
    while (low < high) {
        word_t middle = low + (high - low) / 2;
        if (read_half(space, info->table.table_data + 8 * middle, &start, argument))
            return -ENOINFO;
        if ((int32_t)start <= wanted)
            low = middle + 1;
        else
            high = middle;
    }
    if (!low || read_half(space, info->table.table_data + 8 * (low - 1) + 4, &offset, argument) ||
        read_half(space, info->table.table_data + 8 * (low - 1), &start, argument))
        return -ENOINFO;
    memset(proc, 0, sizeof *proc);
    proc->start_ip = info->table.segbase + (word_t)(int64_t)(int32_t)start;
    proc->end_ip = info->end_ip;
    if (need_unwind_info && address == space->wanted) {
        space->entry = info->table.segbase + (word_t)(int64_t)(int32_t)offset;
        space->found = 1;
    }
    return 0;
}
