/*
 * The packed table: an unwind table as one flat, position-independent piece of memory.
 *
 *     header | segments | pages | buckets | rows | escapes | rules | cells | steps
 *
 * Addresses are those of the file that the table is of, before it is loaded somewhere. A segment is a stretch of code; it
 * is cut into pages of 64 KiB, and a page into buckets of 256 bytes. A row is four bytes: where it starts in its page, and
 * the number of its rule. Each page begins with the row that is in force at its start and ends with ROW_PADDING copies of
 * its last row, so that a look-up never leaves its page. A bucket holds the number, in its page, of the row in force at
 * its first byte; each page has one bucket more than it needs, which holds the number of its last row. So the row at an
 * address is among rows [bucket, next bucket] of its page.
 *
 * All numbers are little-endian. Every part starts at a multiple of its records' size, which divides 4096, so that no
 * record lies across two pages of memory: the kernel's program reads the table in pieces of that size. (Segments, pages,
 * rows: 32, 4, 4 bytes; buckets 2, escapes 8; rules 32, cells 8, steps 8.)
 *
 * Everything is checked once, by packed_check.h; step.h trusts what was checked.
 *
 * This header is plain C11 without a library. It is included by the in-process library, by clew's own extension, by the
 * program in the kernel and by benchmarks.
 */
#ifndef CLEW_PACKED_H
#define CLEW_PACKED_H

#ifndef CLEW_NO_STDINT
#include <stdint.h>
#endif

#define CLEW_PACKED_MAGIC 0x6b6361702d776c63ull /* "clw-pack" */
#define CLEW_PACKED_VERSION 1

#define CLEW_PAGE_BITS 16
#define CLEW_BUCKET_BITS 8
#define CLEW_PAGE_BUCKETS (1 << (CLEW_PAGE_BITS - CLEW_BUCKET_BITS))
#define CLEW_ROW_PADDING 8
#define CLEW_SEGMENTS_MOST 64
/* How long an expression may be, how many steps it may take, and how many numbers its stack may hold. */
#define CLEW_EXPRESSION_STEPS 1024
#ifndef CLEW_EXPRESSION_FUEL
#define CLEW_EXPRESSION_FUEL 10000 /* as clew.table.evaluate.MAXIMUM_STEPS */
#endif
#define CLEW_EXPRESSION_DEPTH 16
#ifndef CLEW_CELLS_MOST
#define CLEW_CELLS_MOST 64
#endif

enum clew_machine { CLEW_X86_64 = 1, CLEW_AARCH64 = 2 };

/* Where a part begins, in bytes from the start of the table, and how many records it has. */
struct clew_part {
    uint32_t offset;
    uint32_t count;
};

struct clew_packed_header { /* 128 bytes */
    uint64_t magic;
    uint16_t version;
    uint8_t machine;       /* enum clew_machine */
    uint8_t build_id_size; /* at most 32 */
    uint32_t checksum;     /* CRC-32 (ISO 3309, as zlib's) of everything behind this field */
    uint64_t size;         /* of the whole table, in bytes */
    struct clew_part segments, pages, buckets, rows, escapes, rules, cells, steps;
    uint8_t build_id[32];
    /* What it is made of: in the low half the CRC-32 of the file's call frame sections, in the high half how many bytes they
     * have; 0 if that is not known. Files that only claim to be the same have another one. */
    uint64_t source;
};

struct clew_segment { /* 32 bytes: a stretch of code, sorted by start */
    uint64_t start;
    uint64_t size;  /* in bytes */
    uint32_t page;  /* the number of its first page */
    uint32_t pages; /* how many it has */
    uint64_t reserved;
};

/*
 * A page is a uint32_t: the number of its first row. Its first bucket is its own number times CLEW_PAGE_BUCKETS + 1; those
 * behind the end of its segment are as the last.
 */

/* A bucket is a uint16_t. A row is a uint32_t: where it starts in its page in the high half, its rule in the low one. */
#define CLEW_ROW_START(row) ((row) >> 16)
#define CLEW_ROW_RULE(row) ((row) & 0xffffu)
/* In place of a rule's number: it is among the escapes, by the row's number. */
#define CLEW_RULE_ESCAPED 0xffffu

struct clew_escape { /* 8 bytes, sorted by row */
    uint32_t row;
    uint32_t rule;
};

/* How a rule says where the CFA is. */
enum clew_cfa {
    CLEW_CFA_NONE = 0,       /* no information; the rule says nothing else */
    CLEW_CFA_REGISTER = 1,   /* register + offset */
    CLEW_CFA_LOADED = 2,     /* the word at register + offset */
    CLEW_CFA_EXPRESSION = 3, /* the value of its first cell */
};

enum clew_rule_flags {
    CLEW_RULE_SIGNAL = 1,    /* the frame was interrupted: its caller's pc is looked up as it is */
    CLEW_RULE_OUTERMOST = 2, /* the return address is undefined: there is no caller */
    CLEW_RULE_SIGNED = 4,    /* the return address carries an authentication code */
    CLEW_RULE_CELLS = 8,     /* the rule has cells */
    /* In the four bits above, if not 0: a stub of a PLT whose CFA is 8 more where pc & 15 is at least this. */
    CLEW_RULE_STUB_SHIFT = 4,
};

/*
 * How to undo a frame: 32 bytes. Rule 0 is "no information".
 *
 * Bit i of `saved`: register i is in memory, at CFA - 8 * (base + slot[CLEW_SLOT(i)]). Bit i of `same`: it keeps its value.
 * A register of neither, and of no cell, is unknown in the caller; but the stack pointer is then the CFA. Only a rule with
 * cells may say that it keeps its value.
 *
 * The place of the stack pointer in `slot` holds the largest of the others: where the farthest of the saved words is.
 *
 * A rule with CLEW_RULE_CELLS has something that this cannot say, and says so of each register in a cell of its own:
 * `saved` is 0, and `slot` holds the number of its first cell (four bytes) and how many there are (one).
 */
struct clew_rule {
    int32_t cfa_offset;
    uint8_t cfa; /* enum clew_cfa in the two high bits, the register's number below */
    uint8_t flags;
    uint16_t base;
    uint32_t saved;
    uint32_t same;
    uint8_t slot[16];
};

/* How many registers a machine's frames have, and which of them are the stack pointer, the pc and the link register. */
#define CLEW_REGISTERS_OF(machine) ((machine) == CLEW_AARCH64 ? 33u : 17u)
enum { CLEW_X86_64_SP = 7, CLEW_X86_64_PC = 16, CLEW_AARCH64_LR = 30, CLEW_AARCH64_SP = 31, CLEW_AARCH64_PC = 32 };

#define CLEW_SP(machine) ((machine) == CLEW_AARCH64 ? CLEW_AARCH64_SP : CLEW_X86_64_SP)
#define CLEW_PC(machine) ((machine) == CLEW_AARCH64 ? CLEW_AARCH64_PC : CLEW_X86_64_PC)

/* The registers that a rule's `saved` may name: those that a function has to preserve, and the return address. */
#define CLEW_SAVED(machine) ((machine) == CLEW_AARCH64 ? 0x7ff80000u /* x19-x30 */ : 0x1f048u /* rbx rbp r12-r15 rip */)

#define CLEW_CFA_KIND(rule) ((rule)->cfa >> 6)
#define CLEW_CFA_FROM(rule) ((rule)->cfa & 63)
/* x86-64: 0 to 15 are themselves and rip, number 16, has the place of rax, which nobody saves with it. AArch64: x19 to x30. */
#define CLEW_SLOT(register) ((register) & 15)
#define CLEW_FIRST_CELL(rule)                                                                                        \
    ((uint32_t)(rule)->slot[0] | (uint32_t)(rule)->slot[1] << 8 | (uint32_t)(rule)->slot[2] << 16 |                  \
     (uint32_t)(rule)->slot[3] << 24)

enum clew_cell_kind {
    CLEW_CELL_AT_CFA = 1,        /* the word at CFA + value */
    CLEW_CELL_CFA_PLUS = 2,      /* CFA + value */
    CLEW_CELL_IN_REGISTER = 3,   /* the value of register `other` */
    CLEW_CELL_AT_REGISTER = 4,   /* the word at register `other` + value */
    CLEW_CELL_AT_EXPRESSION = 5, /* the word at what `other` steps from number `value` on compute; they begin with the CFA */
    CLEW_CELL_IS_EXPRESSION = 6, /* what they compute */
    CLEW_CELL_BAD = 7,           /* nothing that can be computed: the register is unknown */
};
#define CLEW_CELL_OF_CFA 255 /* in place of a register: the CFA's own expression, which begins with an empty stack */

struct clew_cell { /* 8 bytes */
    uint8_t reg;
    uint8_t kind;
    uint16_t other;
    int32_t value;
};

/* What an expression's step does: the operators of DWARF 5, 2.5.1, on numbers of 64 bits (see clew.table.evaluate). */
enum clew_step_kind {
    CLEW_STEP_PUSH = 1,     /* value, sign-extended */
    CLEW_STEP_HIGH = 2,     /* the top's high half becomes value */
    CLEW_STEP_REGISTER = 3, /* the register `operand` + value */
    CLEW_STEP_LOAD = 4,     /* the top becomes the `operand` bytes at it */
    CLEW_STEP_PICK = 5,     /* the number `operand` below the top */
    CLEW_STEP_SKIP = 6,     /* goes on at step value of the expression */
    CLEW_STEP_BRANCH = 7,   /* the same if the top, which it takes, is not 0 */
    CLEW_STEP_DROP, CLEW_STEP_SWAP, CLEW_STEP_ROT,
    CLEW_STEP_ABS, CLEW_STEP_NEG, CLEW_STEP_NOT,
    CLEW_STEP_PLUS, CLEW_STEP_MINUS, CLEW_STEP_MUL, CLEW_STEP_DIV, CLEW_STEP_MOD,
    CLEW_STEP_AND, CLEW_STEP_OR, CLEW_STEP_XOR,
    CLEW_STEP_SHL, CLEW_STEP_SHR, CLEW_STEP_SHRA,
    CLEW_STEP_EQ, CLEW_STEP_NE, CLEW_STEP_GE, CLEW_STEP_GT, CLEW_STEP_LE, CLEW_STEP_LT,
    CLEW_STEP_KINDS,
};

struct clew_step { /* 8 bytes */
    uint8_t kind; /* enum clew_step_kind */
    uint8_t operand;
    uint16_t reserved;
    int32_t value;
};

/* A checked table: its parts as pointers. */
struct clew_table {
    const struct clew_segment *segments;
    const uint32_t *pages;
    const uint16_t *buckets;
    const uint32_t *rows;
    const struct clew_escape *escapes;
    const struct clew_rule *rules;
    const struct clew_cell *cells;
    const struct clew_step *steps;
    uint32_t segment_count;
    uint32_t escape_count;
    const struct clew_packed_header *header;
};

#endif
