/* Walks in signal handlers: on the same stack, on another one, on a piece of it, from an interrupted leaf, out of a handler by longjmp. */
#include "check.h"

#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>

static volatile sig_atomic_t taken, wanted_agreement = 1;
static sigjmp_buf back;
static volatile int leave, sink;

static void handler(int number, siginfo_t *info, void *ucontext) {
    void *pcs[MOST];
    (void)number;
    (void)info;
    int count = wanted_agreement ? agree() : clew_backtrace(pcs, MOST);
#ifdef __aarch64__ /* where a procedure linkage table has no call frame information */
    CHECK(count > 3 || clew_backtrace_end() == CLEW_END_NO_RULE);
#else
    CHECK(count > 3 && clew_backtrace_end() == CLEW_END_ENTRY);
#endif

    /* From the interrupted registers: what backtrace has behind the handler and the signal's own frame. */
    clew_cursor_t cursor;
    CHECK(clew_local_init_signal(&cursor, ucontext) == 0 && clew_is_interrupted(&cursor));
    count = clew_backtrace(pcs, MOST);
    int at = 0;
    while (at < count && (uint64_t)pcs[at] != clew_get_pc(&cursor))
        at++;
    CHECK(at < count);
    do
        CHECK(at < count && (uint64_t)pcs[at++] == clew_get_pc(&cursor));
    while (clew_step(&cursor) == 1);
    CHECK(at == count);
    taken++;
    if (leave)
        siglongjmp(back, 1);
}

static void install(int flags) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_RESTART | flags};
    CHECK(!sigaction(SIGUSR1, &action, NULL) && !sigaction(SIGPROF, &action, NULL) && !sigaction(SIGALRM, &action, NULL));
}

/* No frame of its own: interrupted, its caller is found by what the stack pointer points to. */
__attribute__((noinline)) static uint64_t spin(uint64_t rounds) {
    uint64_t state = rounds;
    for (uint64_t i = 0; i < rounds; i++)
        state = state * 6364136223846793005ull + 1442695040888963407ull;
    return state;
}

__attribute__((noinline)) static int deep(int depth) {
    int result = depth ? deep(depth - 1) + 1 : raise(SIGUSR1);
    sink++;
    return result;
}

__attribute__((noinline)) static int walks(int depth) {
    void *pcs[MOST];
    int result = depth ? walks(depth - 1) + 1 : 0;
    for (int turn = 0; turn < 20 && !depth; turn++) {
        result += clew_backtrace(pcs, MOST);
        CHECK(clew_backtrace_end() == CLEW_END_ENTRY);
    }
    sink++;
    return result;
}

/* A handler's stack in the midst of the one that it interrupts, above the walks that it strikes in. */
__attribute__((noinline)) static void on_own_stack(int samples) {
    char room[1 << 16];
    stack_t other = {.ss_sp = room, .ss_size = sizeof room}, before;
    CHECK(!sigaltstack(&other, &before));
    install(SA_ONSTACK);
    struct itimerval timer = {{0, 200}, {0, 200}}; /* the clock's ticks are finer than those of a thread's own time */
    CHECK(!setitimer(ITIMER_REAL, &timer, NULL));
    for (taken = 0; taken < samples;)
        CHECK(walks(taken * 7 % 60) > 60);
    timer = (struct itimerval){{0, 0}, {0, 0}};
    CHECK(!setitimer(ITIMER_REAL, &timer, NULL) && !sigaltstack(&before, NULL));
    install(0);
}

/* In the vdso, which is in no file. */
__attribute__((noinline)) static uint64_t look_at_the_clock(void) {
    struct timespec now = {0, 0};
    for (int i = 0; i < 300; i++)
        clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_nsec;
}

int main(int count, char **arguments) {
    int samples = count > 1 ? atoi(arguments[1]) : 50;
    prepare();

    install(0);
    for (int i = 0; i < 20; i++)
        deep(i * 7);
    CHECK(taken == 20);

    static char room[1 << 16];
    stack_t other = {.ss_sp = room, .ss_size = sizeof room};
    CHECK(!sigaltstack(&other, NULL));
    install(SA_ONSTACK);
    for (int i = 0; i < 20; i++)
        deep(i * 7);
    CHECK(taken == 40);

    leave = 1;
    for (int i = 0; i < 5; i++)
        if (!sigsetjmp(back, 1))
            deep(i);
    leave = 0;
    CHECK(taken == 45);
    deep(3);

    /* Wherever the timer strikes, also in the middle of a walk. */
    struct itimerval timer = {{0, 500}, {0, 500}};
    install(0);
    taken = 0;
    CHECK(!setitimer(ITIMER_PROF, &timer, NULL));
    uint64_t state = 0;
    while (taken < samples)
        state += spin(20000) + look_at_the_clock();
    wanted_agreement = 0;
    taken = 0;
    while (taken < samples) {
        void *pcs[MOST];
        int frames = clew_backtrace(pcs, MOST);
        CHECK(frames > 1 && frames < 12 && clew_backtrace_end() == CLEW_END_ENTRY);
    }
    on_own_stack(2000);
    timer = (struct itimerval){{0, 0}, {0, 0}};
    setitimer(ITIMER_PROF, &timer, NULL);
    printf("ok\n");
    return (int)(state & 0);
}
