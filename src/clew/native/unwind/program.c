/* The machine that turns call frame instructions into rows (DWARF 5, 6.4.2; aadwarf64, "DWARF_CFA_AARCH64"). */
#include <string.h>

#include "cfi.h"

static void set(struct cfi_row *row, uint64_t number, enum cfi_kind kind, int64_t value) {
    if (number < CFI_REGISTERS) { /* others are not walked with */
        row->kind[number] = (uint8_t)kind;
        row->value[number] = value;
    }
}

static int64_t factored(struct cfi_machine *machine, uint64_t value) {
    if (value >> 42)
        machine->bytes.bad = 1;
    return (int64_t)(value & ((1ull << 42) - 1)) * machine->cie->data_alignment;
}

static int64_t factored_signed(struct cfi_machine *machine, int64_t value) {
    if (value >= 1ll << 42 || value <= -(1ll << 42)) {
        machine->bytes.bad = 1;
        return 0;
    }
    return value * machine->cie->data_alignment;
}

static int64_t offset(struct cfi_machine *machine) {
    uint64_t value = cfi_uleb(&machine->bytes);
    if (value >> 63)
        machine->bytes.bad = 1;
    return (int64_t)value;
}

/* Where an expression's length stands; passes over it. */
static int64_t block(struct cfi_machine *machine) {
    struct cfi_bytes *bytes = &machine->bytes;
    const uint8_t *at = bytes->at;
    uint64_t length = cfi_uleb(bytes);
    if (bytes->bad || length > (uint64_t)(bytes->end - bytes->at))
        bytes->bad = 1;
    else
        bytes->at += length;
    return (int64_t)(uintptr_t)at;
}

static void restore(struct cfi_machine *machine, uint64_t number) {
    if (number < CFI_REGISTERS)
        set(&machine->row, number, (enum cfi_kind)machine->initial.kind[number], machine->initial.value[number]);
}

/* The instruction replaces the CFA's offset or register, which it has only if it is one and not an expression. */
static void need_register(struct cfi_machine *machine) {
    if (machine->row.cfa_kind != CFI_CFA_REGISTER)
        machine->bytes.bad = 1;
}

static void operate(struct cfi_machine *machine, uint8_t opcode) {
    struct cfi_bytes *bytes = &machine->bytes;
    struct cfi_row *row = &machine->row;
    uint64_t number;
    switch (opcode) {
    case 0x00: return; /* DW_CFA_nop */
    case 0x05:         /* DW_CFA_offset_extended */
        number = cfi_uleb(bytes);
        set(row, number, CFI_AT_CFA, factored(machine, cfi_uleb(bytes)));
        return;
    case 0x06: restore(machine, cfi_uleb(bytes)); return;                    /* DW_CFA_restore_extended */
    case 0x07: set(row, cfi_uleb(bytes), CFI_UNDEFINED, 0); return;          /* DW_CFA_undefined */
    case 0x08: set(row, cfi_uleb(bytes), CFI_SAME, 0); return;               /* DW_CFA_same_value */
    case 0x09: /* DW_CFA_register */
        number = cfi_uleb(bytes);
        set(row, number, CFI_IN_REGISTER, (int64_t)cfi_uleb(bytes));
        return;
    case 0x0a: /* DW_CFA_remember_state */
        if (machine->depth >= CFI_DEEPEST)
            bytes->bad = 1;
        else
            machine->stack[machine->depth++] = *row;
        return;
    case 0x0b: /* DW_CFA_restore_state */
        if (!machine->depth)
            bytes->bad = 1;
        else
            *row = machine->stack[--machine->depth];
        return;
    case 0x0c: /* DW_CFA_def_cfa */
        row->cfa_register = cfi_uleb(bytes);
        row->cfa_value = offset(machine);
        row->cfa_kind = CFI_CFA_REGISTER;
        return;
    case 0x0d: /* DW_CFA_def_cfa_register */
        need_register(machine);
        row->cfa_register = cfi_uleb(bytes);
        return;
    case 0x0e: /* DW_CFA_def_cfa_offset */
        need_register(machine);
        row->cfa_value = offset(machine);
        return;
    case 0x0f: /* DW_CFA_def_cfa_expression */
        row->cfa_value = block(machine);
        row->cfa_kind = CFI_CFA_EXPRESSION;
        return;
    case 0x10: /* DW_CFA_expression */
        number = cfi_uleb(bytes);
        set(row, number, CFI_AT_EXPRESSION, block(machine));
        return;
    case 0x11: /* DW_CFA_offset_extended_sf */
        number = cfi_uleb(bytes);
        set(row, number, CFI_AT_CFA, factored_signed(machine, cfi_sleb(bytes)));
        return;
    case 0x12: /* DW_CFA_def_cfa_sf */
        row->cfa_register = cfi_uleb(bytes);
        row->cfa_value = factored_signed(machine, cfi_sleb(bytes));
        row->cfa_kind = CFI_CFA_REGISTER;
        return;
    case 0x13: /* DW_CFA_def_cfa_offset_sf */
        need_register(machine);
        row->cfa_value = factored_signed(machine, cfi_sleb(bytes));
        return;
    case 0x14: /* DW_CFA_val_offset */
        number = cfi_uleb(bytes);
        set(row, number, CFI_CFA_PLUS, factored(machine, cfi_uleb(bytes)));
        return;
    case 0x15: /* DW_CFA_val_offset_sf */
        number = cfi_uleb(bytes);
        set(row, number, CFI_CFA_PLUS, factored_signed(machine, cfi_sleb(bytes)));
        return;
    case 0x16: /* DW_CFA_val_expression */
        number = cfi_uleb(bytes);
        set(row, number, CFI_IS_EXPRESSION, block(machine));
        return;
    case 0x2e: cfi_uleb(bytes); return; /* DW_CFA_GNU_args_size: only for who lands in the frame */
    case 0x2f:                          /* DW_CFA_GNU_negative_offset_extended */
        number = cfi_uleb(bytes);
        set(row, number, CFI_AT_CFA, -factored(machine, cfi_uleb(bytes)));
        return;
#ifdef __aarch64__
    case 0x2c:                                 /* DW_CFA_AARCH64_negate_ra_state_with_pc */
    case 0x2d: row->is_signed ^= 1; return;    /* DW_CFA_AARCH64_negate_ra_state */
    case 0x2b: /* DW_CFA_AARCH64_set_ra_state */
        number = cfi_uleb(bytes);
        cfi_sleb(bytes);
        row->is_signed = number != 0;
        if (number > 2)
            bytes->bad = 1;
        return;
#endif
    default: bytes->bad = 1; /* its operands' sizes are not known either */
    }
}

/* How far an instruction moves the location; 0 and `*moves` 0 if it is none that does. */
static uint64_t advance(struct cfi_machine *machine, uint8_t opcode, int *moves) {
    struct cfi_bytes *bytes = &machine->bytes;
    uint64_t delta = 0, target;
    *moves = 1;
    switch (opcode) {
    case 0x01: /* DW_CFA_set_loc */
        target = cfi_pointer(bytes, machine->cie->encoding);
        if (target < machine->location)
            bytes->bad = 1;
        return target - machine->location;
    case 0x02: delta = cfi_fixed(bytes, 1); break;
    case 0x03: delta = cfi_fixed(bytes, 2); break;
    case 0x04: delta = cfi_fixed(bytes, 4); break;
    default:
        if (opcode >> 6 == 1)
            delta = opcode & 0x3f;
        else
            *moves = 0;
    }
    return delta * machine->cie->code_alignment;
}

int cfi_next(struct cfi_machine *machine) {
    struct cfi_bytes *bytes = &machine->bytes;
    while (bytes->at < bytes->end) {
        uint8_t opcode = *bytes->at++;
        int moves;
        if (opcode >> 6 == 2) /* DW_CFA_offset */
            set(&machine->row, opcode & 0x3f, CFI_AT_CFA, factored(machine, cfi_uleb(bytes)));
        else if (opcode >> 6 == 3) /* DW_CFA_restore */
            restore(machine, opcode & 0x3f);
        else {
            uint64_t delta = advance(machine, opcode, &moves);
            if (!moves)
                operate(machine, opcode);
            else if (machine->location + delta < machine->location)
                return CFI_BAD;
            else if (delta && !bytes->bad) {
                machine->location += delta;
                return CFI_OK;
            }
        }
        if (bytes->bad)
            return CFI_BAD;
    }
    return CFI_END;
}

int cfi_begin(struct cfi_machine *machine, const struct cfi_cie *cie, const struct cfi_fde *fde, uint64_t shift) {
    machine->cie = cie;
    machine->shift = shift;
    machine->location = 0;
    machine->depth = 0;
    memset(&machine->row, 0, sizeof machine->row);
    memset(&machine->initial, 0, sizeof machine->initial);
    machine->bytes = (struct cfi_bytes){cie->program, cie->end, shift, 0};
    if (cfi_next(machine) != CFI_END)
        return CFI_BAD; /* a CIE's program has no place to move in */
    machine->initial = machine->row;
    machine->location = fde->start;
    machine->depth = 0;
    machine->bytes = (struct cfi_bytes){fde->program, fde->end, shift, 0};
    return CFI_OK;
}
