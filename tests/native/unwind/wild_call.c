/* A call through a null pointer, as a handler sees it: the frame that called is found, by both walks, and the stack is whole. */
#include "check.h"

#include <setjmp.h>
#include <signal.h>
#include <ucontext.h>

typedef int function(void);
static function *volatile nowhere;
static sigjmp_buf again;
static int walks;

__attribute__((noinline)) static int caller(void) {
    return nowhere() + 1; /* no tail call */
}

static int in_caller(void *pc) {
    return (char *)pc > (char *)(void *)caller && (char *)pc < (char *)(void *)caller + 64;
}

static void handler(int number, siginfo_t *information, void *context) {
    void *pcs[MOST];
    int count = clew_backtrace(pcs, MOST), at = 0;
    (void)number;
    (void)information;
    while (at < count && pcs[at] != (void *)nowhere)
        at++;
    CHECK(at + 2 < count && in_caller(pcs[at + 1]));
    CHECK(clew_backtrace_end() == CLEW_END_ENTRY);
    clew_cursor_t cursor;
    CHECK(clew_local_init_signal(&cursor, context) == 0);
    CHECK(clew_step(&cursor) == 1 && in_caller((void *)(uintptr_t)clew_get_pc(&cursor)));
    walks++;
    siglongjmp(again, 1);
}

int main(void) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    prepare();
    CHECK(!sigaction(SIGSEGV, &action, NULL) && !sigaction(SIGBUS, &action, NULL));
    if (!sigsetjmp(again, 1))
        caller();
    nowhere = (function *)(uintptr_t)0x10; /* nor is anything there */
    if (!sigsetjmp(again, 1))
        caller();
    CHECK(walks == 2);
    /* No room: nothing was found out. */
    CHECK(clew_backtrace((void *[1]){0}, 0) == 0 && clew_backtrace_end() == CLEW_END_NONE);
    puts("ok");
}
