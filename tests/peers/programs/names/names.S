/* Assembler with functions, a local label, a macro, and code that no symbol has a size for. */

	.text
	.globl	assembled
	.type	assembled, @function
assembled:
	nop
	nop
	call	inner
	ret
	.size	assembled, . - assembled

.macro	pair	name
\name:
	nop
	nop
	ret
.endm

	.type	inner, @function
inner:
	nop
	ret
	.size	inner, . - inner

	pair	first_of_macro
	pair	second_of_macro

	.section .text.other, "ax", @progbits
	.globl	elsewhere
	.type	elsewhere, @function
elsewhere:
	nop
	ret
	.size	elsewhere, . - elsewhere
	.section .note.GNU-stack, "", @progbits
