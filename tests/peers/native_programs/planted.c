/* A chain of functions that each put known values into every callee-saved register, and junk into the others. */
#include "truth.h"

#define S(x) #x
#define STR(x) S(x)
/* The values are 0x_N_R: the number of the function, and the DWARF number of the register. */
#define PLANT(n, next, extra)                                                                                         \
    __asm__(".text\n.type plant" #n ", @function\nplant" #n ":\n.cfi_startproc\n"                                     \
            "push %rbp\n.cfi_def_cfa_offset 16\n.cfi_offset 6, -16\n"                                                 \
            "push %rbx\n.cfi_def_cfa_offset 24\n.cfi_offset 3, -24\n"                                                 \
            "push %r12\n.cfi_def_cfa_offset 32\n.cfi_offset 12, -32\n"                                                \
            "push %r13\n.cfi_def_cfa_offset 40\n.cfi_offset 13, -40\n"                                                \
            "push %r14\n.cfi_def_cfa_offset 48\n.cfi_offset 14, -48\n"                                                \
            "push %r15\n.cfi_def_cfa_offset 56\n.cfi_offset 15, -56\n" extra                                          \
            "movabs $0x7e" #n "0000000003, %rbx\nmovabs $0x7e" #n "0000000006, %rbp\n"                                \
            "movabs $0x7e" #n "0000000012, %r12\nmovabs $0x7e" #n "0000000013, %r13\n"                                \
            "movabs $0x7e" #n "0000000014, %r14\nmovabs $0x7e" #n "0000000015, %r15\n"                                \
            "movabs $0x6a" #n "0000000000, %rax\nmov %rax, %rcx\nmov %rax, %rdx\nmov %rax, %rsi\nmov %rax, %rdi\n"    \
            "mov %rax, %r8\nmov %rax, %r9\nmov %rax, %r10\nmov %rax, %r11\n"                                          \
            "call " #next "\nud2\n.cfi_endproc\n.size plant" #n ", .-plant" #n "\n");

/* A frame that only a register which it planted itself leads out of: the CFA is in r14, and r13 has the caller's rbx. */
__asm__(".text\n.type moved, @function\nmoved:\n.cfi_startproc\n"
        "lea 8(%rsp), %rax\npush %r14\n.cfi_def_cfa_offset 16\n.cfi_offset 14, -16\n"
        "push %r13\n.cfi_def_cfa_offset 24\n.cfi_offset 13, -24\n"
        "mov %rbx, %r13\n.cfi_register 3, 13\nmov %rax, %r14\n.cfi_def_cfa 14, 0\n"
        "and $-64, %rsp\nsub $256, %rsp\nmov $7, %ebx\n"
        "call plant3\nud2\n.cfi_endproc\n.size moved, .-moved\n");

PLANT(1, plant2, "sub $8, %rsp\n.cfi_adjust_cfa_offset 8\n")
PLANT(2, moved, "sub $8, %rsp\n.cfi_adjust_cfa_offset 8\n")
PLANT(3, plant4, "sub $8, %rsp\n.cfi_adjust_cfa_offset 8\n")
PLANT(4, truth, "sub $8, %rsp\n.cfi_adjust_cfa_offset 8\n")

void plant1(void);

int main(void) {
    plant1();
    return 0;
}
