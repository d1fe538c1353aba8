/* backtrace and unw_backtrace are clew_backtrace: they jump to it, so that its caller is theirs. */
#if defined __x86_64__
#define FUNCTION @function
#define JUMP jmp
#define LANDING endbr64
#define OLDEST GLIBC_2.2.5
#else
#define FUNCTION %function
#define JUMP b
#define LANDING hint #34
#define OLDEST GLIBC_2.17
#endif
        .text
        .p2align 4
        .globl backtrace
        .type backtrace, FUNCTION
backtrace:
        .cfi_startproc
        LANDING
        JUMP clew_backtrace_here
        .cfi_endproc
        .size backtrace, . - backtrace

        .p2align 4
        .globl unw_backtrace
        .type unw_backtrace, FUNCTION
unw_backtrace:
        .cfi_startproc
        LANDING
        JUMP clew_backtrace_here
        .cfi_endproc
        .size unw_backtrace, . - unw_backtrace

/*
 * dlopen looks at its return address: a name without a slash is looked for where the caller's own file says. So such a call
 * goes on to the C library as it came; clew_preload_dlopen says where to.
 */
        .p2align 4
        .globl clew_dlopen
        .type clew_dlopen, FUNCTION
        .symver clew_dlopen, dlopen@@GLIBC_2.34
        .globl clew_dlopen_old
        .type clew_dlopen_old, FUNCTION
        .symver clew_dlopen_old, dlopen@OLDEST /* programs that were linked when it was in libdl.so */
clew_dlopen_old:
clew_dlopen:
        .cfi_startproc
        LANDING
#if defined __x86_64__
        pushq %rdi
        .cfi_adjust_cfa_offset 8
        pushq %rsi
        .cfi_adjust_cfa_offset 8
        subq $8, %rsp
        .cfi_adjust_cfa_offset 8
        call clew_preload_dlopen
        movq %rax, %r11
        addq $8, %rsp
        .cfi_adjust_cfa_offset -8
        popq %rsi
        .cfi_adjust_cfa_offset -8
        popq %rdi
        .cfi_adjust_cfa_offset -8
        jmp *%r11
#else
        stp x29, x30, [sp, #-32]!
        .cfi_def_cfa_offset 32
        .cfi_offset 29, -32
        .cfi_offset 30, -24
        stp x0, x1, [sp, #16]
        bl clew_preload_dlopen
        mov x16, x0
        ldp x0, x1, [sp, #16]
        ldp x29, x30, [sp], #32
        .cfi_restore 29
        .cfi_restore 30
        .cfi_def_cfa_offset 0
        br x16
#endif
        .cfi_endproc
        .size clew_dlopen, . - clew_dlopen
        .section .note.GNU-stack, "", %progbits
