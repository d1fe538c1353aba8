/* replay_libgcc_call(function, callback, argument, registers): calls function(callback, argument) from a frame whose caller's
   registers are said to be those that `registers` points to, in the order of their DWARF numbers.

   Each rule is an expression of DWARF 5, section 2.5: the value of rbx, which holds `registers` meanwhile, plus eight bytes for
   each register before. It is a signal frame, since the sample was interrupted: its pc is no return address. */
#define DW_OP_breg3 0x73
#define DW_OP_deref 0x06
#define DW_CFA_def_cfa_expression 0x0f
#define DW_CFA_expression 0x10

/* Offsets are SLEB128: one byte up to 63, two from there on. */
#define SMALL(number) .cfi_escape DW_CFA_expression, number, 2, DW_OP_breg3, 8 * number
#define LARGE(number) .cfi_escape DW_CFA_expression, number, 3, DW_OP_breg3, 0x80 | (8 * number & 0x7f), 8 * number >> 7

    .text
    .globl replay_libgcc_call
    .type replay_libgcc_call, @function
replay_libgcc_call:
    .cfi_startproc
    push %rbx
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset %rbx, 0
    .cfi_endproc

    .cfi_startproc
    .cfi_signal_frame
    .cfi_escape DW_CFA_def_cfa_expression, 3, DW_OP_breg3, 8 * 7, DW_OP_deref
    SMALL(0)
    SMALL(1)
    SMALL(2)
    SMALL(3)
    SMALL(4)
    SMALL(5)
    SMALL(6)
    LARGE(8)
    LARGE(9)
    LARGE(10)
    LARGE(11)
    LARGE(12)
    LARGE(13)
    LARGE(14)
    LARGE(15)
    LARGE(16)
    mov %rcx, %rbx
    mov %rdi, %rax
    mov %rsi, %rdi
    mov %rdx, %rsi
    call *%rax
    .cfi_endproc

    .cfi_startproc
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset %rbx, 0
    pop %rbx
    .cfi_adjust_cfa_offset -8
    .cfi_restore %rbx
    ret
    .cfi_endproc
    .size replay_libgcc_call, . - replay_libgcc_call

    .section .note.GNU-stack, "", @progbits
