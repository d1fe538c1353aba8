/*
 * The entry of clew_backtrace, and clew_getcontext: what has to see its caller's registers as they are.
 *
 * clew_backtrace first tries with pc, stack pointer and frame pointer; if that does not suffice, functions have preserved the
 * caller's other registers meanwhile, and the walk begins anew with all of them.
 */
#if defined __x86_64__
        .text
        .p2align 4
        .globl clew_backtrace
        .type clew_backtrace, @function
        .hidden clew_backtrace_here /* the same for this library's own parts: nobody else's */
        .globl clew_backtrace_here
clew_backtrace_here:
clew_backtrace:
        .cfi_startproc
        endbr64
        movq (%rsp), %rdx
        leaq 8(%rsp), %rcx
        movq %rbp, %r8
        pushq %rdi
        .cfi_adjust_cfa_offset 8
        pushq %rsi
        .cfi_adjust_cfa_offset 8
        subq $8, %rsp
        .cfi_adjust_cfa_offset 8
        call clew_trace
        addq $8, %rsp
        .cfi_adjust_cfa_offset -8
        popq %rsi
        .cfi_adjust_cfa_offset -8
        popq %rdi
        .cfi_adjust_cfa_offset -8
        testl %eax, %eax
        js 1f
        ret
1:      subq $280, %rsp /* a clew_context_t, and 8 so that the stack is aligned */
        .cfi_adjust_cfa_offset 280
        movq $0x1f0c8, (%rsp) /* rbx rbp rsp r12-r15 rip */
        movq %rbx, 32(%rsp)
        movq %rbp, 56(%rsp)
        leaq 288(%rsp), %rax
        movq %rax, 64(%rsp)
        movq %r12, 104(%rsp)
        movq %r13, 112(%rsp)
        movq %r14, 120(%rsp)
        movq %r15, 128(%rsp)
        movq 280(%rsp), %rax
        movq %rax, 136(%rsp)
        movq %rsp, %rdx
        call clew_backtrace_full
        addq $280, %rsp
        .cfi_adjust_cfa_offset -280
        ret
        .cfi_endproc
        .size clew_backtrace, . - clew_backtrace

        .p2align 4
        .globl clew_getcontext
        .type clew_getcontext, @function
clew_getcontext:
        .cfi_startproc
        endbr64
        movq $0x1f0c8, (%rdi)
        movq %rbx, 32(%rdi)
        movq %rbp, 56(%rdi)
        leaq 8(%rsp), %rax
        movq %rax, 64(%rdi)
        movq %r12, 104(%rdi)
        movq %r13, 112(%rdi)
        movq %r14, 120(%rdi)
        movq %r15, 128(%rdi)
        movq (%rsp), %rax
        movq %rax, 136(%rdi)
        xorl %eax, %eax
        ret
        .cfi_endproc
        .size clew_getcontext, . - clew_getcontext
#elif defined __aarch64__
        .text
        .p2align 4
        .globl clew_backtrace
        .type clew_backtrace, %function
        .hidden clew_backtrace_here
        .globl clew_backtrace_here
clew_backtrace_here:
clew_backtrace:
        .cfi_startproc
        hint #34 /* bti c */
        stp x29, x30, [sp, #-32]!
        .cfi_def_cfa_offset 32
        .cfi_offset 29, -32
        .cfi_offset 30, -24
        stp x0, x1, [sp, #16]
        mov x2, x30
        add x3, sp, #32
        mov x4, x29
        bl clew_trace
        tbnz w0, #31, 1f
        ldp x29, x30, [sp], #32
        .cfi_remember_state
        .cfi_restore 29
        .cfi_restore 30
        .cfi_def_cfa_offset 0
        ret
1:      .cfi_restore_state
        ldp x0, x1, [sp, #16]
        sub sp, sp, #272
        .cfi_adjust_cfa_offset 272
        mov x2, sp
        mov x9, #0xbff80000 /* x19-x29 sp */
        movk x9, #1, lsl #32 /* pc */
        str x9, [x2]
        stp x19, x20, [x2, #160]
        stp x21, x22, [x2, #176]
        stp x23, x24, [x2, #192]
        stp x25, x26, [x2, #208]
        stp x27, x28, [x2, #224]
        str x29, [x2, #240]
        add x9, sp, #304
        str x9, [x2, #256]
        ldr x9, [sp, #280]
        str x9, [x2, #264]
        bl clew_backtrace_full
        add sp, sp, #272
        .cfi_adjust_cfa_offset -272
        ldp x29, x30, [sp], #32
        .cfi_restore 29
        .cfi_restore 30
        .cfi_def_cfa_offset 0
        ret
        .cfi_endproc
        .size clew_backtrace, . - clew_backtrace

        .p2align 4
        .globl clew_getcontext
        .type clew_getcontext, %function
clew_getcontext:
        .cfi_startproc
        hint #34
        mov x9, #0xbff80000
        movk x9, #1, lsl #32
        str x9, [x0]
        stp x19, x20, [x0, #160]
        stp x21, x22, [x0, #176]
        stp x23, x24, [x0, #192]
        stp x25, x26, [x0, #208]
        stp x27, x28, [x0, #224]
        str x29, [x0, #240]
        mov x9, sp
        str x9, [x0, #256]
        str x30, [x0, #264]
        mov w0, #0
        ret
        .cfi_endproc
        .size clew_getcontext, . - clew_getcontext
#endif
        .section .note.GNU-stack, "", %progbits
