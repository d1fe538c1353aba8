/* A frame that is being left: its registers, and what a step may say of it. */
#ifndef CLEW_FRAME_H
#define CLEW_FRAME_H

#include "packed.h"

/* How many registers a frame has room for: x86-64 needs 17, AArch64 33. */
#ifndef CLEW_REGISTERS
#define CLEW_REGISTERS 33
#endif

#define CLEW_BIT(number) ((uint64_t)1 << (number))

/* The registers of a frame, by DWARF number; bit i of `known` says whether r[i] is known. The pc always is. */
struct clew_frame {
    uint64_t known;
    uint64_t r[CLEW_REGISTERS];
};

/* What a step says. Negative: why there is no caller. */
enum clew_status {
    CLEW_CALLED = 0,             /* the frame is now its caller's, whose pc is a return address */
    CLEW_INTERRUPTED = 1,        /* as well, but the caller was interrupted: its pc is looked up as it is */
    CLEW_OUTERMOST = -1,         /* there is no caller: the return address is undefined */
    CLEW_NO_ROW = -2,            /* the table says nothing of this address */
    CLEW_UNKNOWN_REGISTER = -3,  /* a register is needed that is not known */
    CLEW_UNREADABLE = -4,        /* memory is needed that cannot be read */
    CLEW_BAD_RULE = -5,          /* the rule cannot be computed */
    CLEW_NO_PROGRESS = -6,       /* the caller would be the frame itself, or lie below it */
    CLEW_NULL_RETURN = -7,       /* the return address is 0 */
};

/* Does something for each register of CLEW_SAVED, but not for the return address. */
#define CLEW_EACH_OF_X86_64(DO) DO(3) DO(6) DO(12) DO(13) DO(14) DO(15)
#if CLEW_REGISTERS > 29
#define CLEW_EACH_OF_AARCH64(DO) DO(19) DO(20) DO(21) DO(22) DO(23) DO(24) DO(25) DO(26) DO(27) DO(28) DO(29)
#else
#define CLEW_EACH_OF_AARCH64(DO)
#endif
#define CLEW_EACH_SAVED(machine, DO)                                                                                 \
    if ((machine) == CLEW_AARCH64) {                                                                                 \
        CLEW_EACH_OF_AARCH64(DO)                                                                                     \
    } else {                                                                                                         \
        CLEW_EACH_OF_X86_64(DO)                                                                                      \
    }

#endif
