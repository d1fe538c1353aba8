/*
 * Call frame information as it lies in memory: entries, their programs, and the rows that these make.
 *
 * DWARF 5, 6.4; LSB 5, 10.6.1 (.eh_frame). Nothing is believed: every read stays between two pointers, and what makes no
 * sense is CFI_BAD. No allocation, so that it may run in a signal handler.
 */
#ifndef CLEW_CFI_H
#define CLEW_CFI_H

#include <stddef.h>
#include <stdint.h>

#include "../packed.h"

#if defined __x86_64__
#define CFI_MACHINE CLEW_X86_64
#define CFI_REGISTERS 17
#define CFI_SP 7
#define CFI_PC 16
#define CFI_RETURN 16
#define CFI_DEFAULT_SAME 0xf048u /* rbx rbp r12-r15: what functions preserve (psABI, figure 3.4) */
#elif defined __aarch64__
#define CFI_MACHINE CLEW_AARCH64
#define CFI_REGISTERS 33
#define CFI_SP 31
#define CFI_PC 32
#define CFI_RETURN 30
#define CFI_DEFAULT_SAME 0x7ffc0000u /* x18-x30, as clew.arch.aarch64 has it (aadwarf64, "Common information entries") */
#else
#error "clew-unwind is for x86-64 and AArch64"
#endif

/* Compilers need two levels of DW_CFA_remember_state. */
#define CFI_DEEPEST 6

enum cfi_status { CFI_OK = 0, CFI_BAD = -1, CFI_END = 1 };

/* Bytes that are read one after another; what is behind the end reads as 0 and sets `bad`. */
struct cfi_bytes {
    const uint8_t *at, *end;
    uint64_t shift; /* what an address in the program is more than the pointer here */
    int bad;
};

struct cfi_cie {
    const uint8_t *program, *end;
    uint64_t code_alignment;
    int64_t data_alignment;
    uint64_t return_column;
    uint8_t encoding; /* of the addresses in its FDEs */
    uint8_t lsda_encoding;
    uint8_t sized, signal;
    uint64_t personality; /* as encoded: the pointer, or where it is; 0: none */
    uint8_t personality_encoding;
};

struct cfi_fde {
    const uint8_t *program, *end;
    uint64_t start, size; /* of the code, in the program */
    uint64_t lsda;        /* 0: none */
};

/* How a register is got back. */
enum cfi_kind {
    CFI_UNNAMED = 0,
    CFI_UNDEFINED,
    CFI_SAME,
    CFI_AT_CFA,
    CFI_CFA_PLUS,
    CFI_IN_REGISTER,
    CFI_AT_EXPRESSION,
    CFI_IS_EXPRESSION,
};
enum cfi_cfa_kind { CFI_CFA_NONE = 0, CFI_CFA_REGISTER, CFI_CFA_EXPRESSION };

/* What a rule's value is, where it is an expression: where its length stands, in bytes from the program's own bytes. */
struct cfi_row {
    uint8_t cfa_kind, is_signed;
    uint8_t kind[CFI_REGISTERS];
    uint64_t cfa_register;
    int64_t cfa_value; /* an offset, or a pointer to an expression's length */
    int64_t value[CFI_REGISTERS];
};

struct cfi_machine {
    const struct cfi_cie *cie;
    uint64_t shift;
    uint64_t location;
    struct cfi_bytes bytes; /* what is left of the FDE's program */
    struct cfi_row row, initial;
    uint32_t depth;
    struct cfi_row stack[CFI_DEEPEST];
};

uint64_t cfi_fixed(struct cfi_bytes *bytes, unsigned size);
uint64_t cfi_uleb(struct cfi_bytes *bytes);
int64_t cfi_sleb(struct cfi_bytes *bytes);

/* A pointer in one of the encodings of LSB 5, table 10.5; relative to text or data is CFI_BAD. Not dereferenced. */
uint64_t cfi_pointer(struct cfi_bytes *bytes, uint8_t encoding);

/*
 * The entry that begins at `bytes->at`, which then stands behind it. `*is_cie`; `*cie_at` is where an FDE's CIE begins.
 * CFI_END at a terminator. `body` is what stands between the identification and the end.
 */
int cfi_entry(struct cfi_bytes *bytes, struct cfi_bytes *body, int *is_cie, const uint8_t **cie_at);

int cfi_read_cie(struct cfi_bytes body, struct cfi_cie *cie);
int cfi_read_fde(struct cfi_bytes body, const struct cfi_cie *cie, struct cfi_fde *fde);

/* Runs the CIE's program, and stands at the FDE's start. */
int cfi_begin(struct cfi_machine *machine, const struct cfi_cie *cie, const struct cfi_fde *fde, uint64_t shift);

/*
 * Runs up to where the location moves. The row in `machine->row` is in force from where the location was up to
 * `machine->location`; CFI_END if the program has ended, and the row is in force up to the end of the FDE.
 */
int cfi_next(struct cfi_machine *machine);

/* ---- rows as rules (rule.c, expression.c) ---------------------------------------------------------------------------- */

#define CFI_CELLS (CFI_REGISTERS + 2)

/* A rule with its cells and steps, the numbers of which count from its own first ones. */
struct cfi_rule {
    struct clew_rule rule;
    struct clew_cell cells[CFI_CELLS];
    uint32_t cell_count, step_count, step_room;
    struct clew_step *steps;
};

/* Turns a row into a rule; what does not fit is BAD in it. `rule->steps` and `step_room` are the caller's. */
void cfi_rule_of(const struct cfi_row *row, const struct cfi_cie *cie, struct cfi_rule *rule);

/*
 * Writes the steps of the expression whose length stands at `block`. `kind` is what the register's cell would be; the cell
 * is filled in.
 */
void cfi_expression(const uint8_t *block, struct cfi_rule *rule, struct clew_cell *cell);

/* Whether an expression is a CFA that has a shorter form; fills kind, register, offset and stub of the rule if so. */
int cfi_short_cfa(const uint8_t *block, struct clew_rule *rule);

#endif
