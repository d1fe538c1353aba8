/*
 * Registers and stacks that are not what they should be: no walk crashes, and each ends with a reason. The stacks of
 * coroutines end where nothing is mapped.
 */
#include "check.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>

static uint64_t state = 88172645463325252ull;

static uint64_t next(void) {
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

static int steps(const clew_context_t *context) {
    clew_cursor_t cursor;
    int count = 0;
    if (clew_local_init(&cursor, context))
        return 0;
    while (clew_step(&cursor) == 1)
        CHECK(++count < 1 << 20);
    CHECK(clew_end_reason(&cursor) != CLEW_END_NONE && *clew_end_text(clew_end_reason(&cursor)));
    return count;
}

/* Real registers, with some of them wrong. */
static void forged(int turns) {
    clew_context_t real, forged;
    static uint64_t junk[1024];
    clew_getcontext(&real);
    uint64_t code = real.r[__builtin_popcountll(real.known) ? (sizeof real.r / 8 > 32 && real.known >> 32 & 1 ? 32 : 16) : 16];
    for (int turn = 0; turn < turns; turn++) {
        forged = real;
        for (int change = 0; change < 1 + turn % 4; change++) {
            uint64_t *target = &forged.r[next() % CLEW_CONTEXT_REGISTERS];
            switch (next() % 6) {
            case 0: *target = next(); break;
            case 1: *target = (uint64_t)(uintptr_t)&junk[next() % 1024]; break;
            case 2: *target += (next() % 64 - 32) * 8; break;
            case 3: *target = code + next() % 65536 - 32768; break;
            case 4: *target = next() % 2 ? 0 : ~0ull - next() % 64; break;
            default: *target = (uint64_t)(uintptr_t)&real + next() % 4096;
            }
        }
        for (int i = 0; i < 16; i++)
            junk[next() % 1024] = next() % 2 ? code + next() % 4096 : (uint64_t)(uintptr_t)&junk[next() % 1024];
        if (next() % 8 == 0)
            forged.known = next();
        steps(&forged);
    }
}

/* A stack with code addresses on it, walked from every place: it ends at the end of what is mapped. */
static void ended(void) {
    size_t size = 8 * 4096;
    char *room = mmap(NULL, size + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(room != MAP_FAILED && !munmap(room + size, 4096));
    clew_context_t context;
    clew_getcontext(&context);
    uint64_t *words = (uint64_t *)(void *)room, code = 0;
    for (int i = 0; i < CLEW_CONTEXT_REGISTERS; i++)
        if (context.known >> i & 1)
            code = context.r[i]; /* the last is the pc */
    for (size_t i = 0; i < size / 8; i++)
        words[i] = i % 3 ? code : (uint64_t)(uintptr_t)&words[(i + 9) % (size / 8)];
    for (size_t i = 0; i < size / 8; i += 5)
        for (int from = 0; from < CLEW_CONTEXT_REGISTERS; from++) {
            clew_context_t moved = context;
            moved.r[from] = (uint64_t)(uintptr_t)&words[i];
            steps(&moved);
        }
    munmap(room, size);
}

#ifdef __x86_64__
enum { SP = 7, PC = 16, SP_AT = 40 + 15 * 8, PC_AT = 40 + 16 * 8 };
#else
enum { SP = 31, PC = 32, SP_AT = 128 + 184 + 31 * 8, PC_AT = SP_AT + 8 };
#endif
static uint64_t trampoline, interrupted[2][512];

/* The signal's own frame: the one whose caller was interrupted. */
static void keep_frame(int number) {
    clew_context_t context;
    clew_cursor_t cursor, before;
    (void)number;
    clew_getcontext(&context);
    CHECK(!clew_local_init(&cursor, &context));
    do
        before = cursor;
    while (clew_step(&cursor) == 1 && !clew_is_interrupted(&cursor));
    CHECK(clew_is_interrupted(&cursor));
    trampoline = clew_get_pc(&before);
    memcpy(interrupted[0], (void *)(uintptr_t)clew_get_sp(&before), 1024);
}

/* Two signals each of which interrupted the other. */
static void in_a_circle(void) {
    signal(SIGUSR1, keep_frame);
    CHECK(!raise(SIGUSR1) && trampoline);
    memcpy(interrupted[1], interrupted[0], sizeof interrupted[0]);
    for (int i = 0; i < 2; i++) {
        interrupted[i][SP_AT / 8] = (uint64_t)(uintptr_t)interrupted[!i];
        interrupted[i][PC_AT / 8] = trampoline;
    }
    clew_context_t context;
    clew_getcontext(&context);
    context.r[SP] = (uint64_t)(uintptr_t)interrupted[0];
    context.r[PC] = trampoline;
    CHECK(steps(&context) > 2);
}

#ifdef __x86_64__
/* The frame of this is found by rbp, which then is another one. */
__attribute__((noinline, optimize("no-omit-frame-pointer"))) static int with_frame_pointer(uint64_t rbp) {
    void *room[64], **pcs = room;
    int count;
    __asm__ volatile("push %%rbp; mov %%rsp, %%r12; sub $128, %%rsp; and $-16, %%rsp; mov %2, %%rbp; mov %1, %%rdi;"
                     "mov $64, %%esi; call clew_backtrace; mov %%r12, %%rsp; pop %%rbp"
                     : "=a"(count)
                     : "r"(pcs), "r"(rbp)
                     : "rdi", "rsi", "rdx", "rcx", "r8", "r9", "r10", "r11", "r12", "memory", "cc");
    return count;
}

/* What lies below a stack without a guard may be read as long as it is there. */
static void *lose_the_neighbour(void *neighbour) {
    uint64_t inside = (uint64_t)(uintptr_t)neighbour + 0x8000;
    CHECK(with_frame_pointer(inside) == 1 && clew_backtrace_end() == CLEW_END_NO_PROGRESS);
    CHECK(!munmap(neighbour, 0x10000));
    CHECK(with_frame_pointer(inside) == 1 && clew_backtrace_end() == CLEW_END_UNREADABLE);
    return NULL;
}

static void neighbours(void) {
    char *room = mmap(NULL, 0x50000, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(room != MAP_FAILED);
    memset(room, 1, 0x10000);
    pthread_attr_t attributes;
    pthread_t thread;
    CHECK(!pthread_attr_init(&attributes) && !pthread_attr_setstack(&attributes, room + 0x10000, 0x40000));
    CHECK(!pthread_create(&thread, &attributes, lose_the_neighbour, room) && !pthread_join(thread, NULL));
}
#else
static void neighbours(void) {}
#endif

static ucontext_t home, routine;
static int inside;
static void **top;

__attribute__((noinline)) static void smash(void **frame) {
    /* The words above: a caller that is none. */
    for (int i = 0; i < 64 && frame + i < top; i++)
        frame[i] = (void *)(uintptr_t)next();
}

static void body(int corrupt) {
    void *pcs[MOST], **above = __builtin_frame_address(0);
    for (int i = 0; i < 3; i++) {
        int count = clew_backtrace(pcs, MOST);
        CHECK(count >= 1 && count < MOST);
    }
    if (corrupt) {
        smash(above + 1);
        CHECK(clew_backtrace(pcs, MOST) >= 1);
    }
    inside++;
    setcontext(&home);
}

/* Stacks that are mapped, used and unmapped, each a little larger or smaller than the one before, at the same place. */
static void coroutines(int turns) {
    for (volatile int turn = 0; turn < turns; turn++) {
        size_t size = (size_t)(4 + turn * 5 % 13) * 4096;
        char *room = mmap(NULL, size + 2 * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(room != MAP_FAILED && !mprotect(room + 4096, size, PROT_READ | PROT_WRITE));
        int before = inside;
        top = (void **)(void *)(room + 4096 + size);
        CHECK(!getcontext(&routine));
        routine.uc_stack.ss_sp = room + 4096;
        routine.uc_stack.ss_size = size;
        makecontext(&routine, (void (*)(void))body, 1, turn % 2);
        CHECK(!swapcontext(&home, &routine));
        CHECK(inside == before + 1);
        munmap(room, size + 2 * 4096);
    }
}

int main(int count, char **arguments) {
    int turns = count > 1 ? atoi(arguments[1]) : 2000;
    prepare();
    forged(turns);
    ended();
    in_a_circle();
    if (count < 3) { /* a sanitizer is lost on stacks that it does not know */
        coroutines(40);
        neighbours();
    }
    agree();
    puts("ok");
    return 0;
}
