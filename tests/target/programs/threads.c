/* Threads that stand still in known places: three asleep in the kernel, and one in a loop with known registers.
   Prints: the loop's address, the address of a variable, the ids of the threads: the loop's first. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

char message[] = "the thread of Ariadne";
static volatile int arrived, caught;
static volatile long ids[4];

#ifdef __x86_64__
__asm__(".text\n.type loop,@function\nloop:\n"
        "movabs $0x1111222233334444, %rbx\nmovabs $0x5555666677778888, %r12\nmov $0x42, %r15\n"
        "lock incl (%rdi)\n.globl here\nhere:\njmp here\n.size loop, .-loop\n");
void loop(volatile int *);
extern char here[];
#else
static char here[1];
static void loop(volatile int *arrived) { __atomic_add_fetch(arrived, 1, __ATOMIC_SEQ_CST); for (;;) ; }
#endif

static void *run(void *argument) {
    long number = (long)argument;
    ids[number] = syscall(SYS_gettid);
    if (number == 0)
        loop(&arrived);
    __atomic_add_fetch(&arrived, 1, __ATOMIC_SEQ_CST);
    for (;;)
        pause();
    return 0;
}

static void count(int signal) { (void)signal; caught++; }

int main(int argc, char **argv) {
    pthread_t thread;
    long first = argc > 1 ? 0 : 1; /* without an argument, nobody runs in a loop */
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN);
    pthread_sigmask(SIG_BLOCK, &set, 0); /* threads inherit it: the main thread alone gets the signals */
    for (long number = first; number < 4; number++)
        pthread_create(&thread, 0, run, (void *)number);
    while (arrived < 4 - first)
        usleep(1000);
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = count;
    sigaction(SIGRTMIN, &action, 0);
    pthread_sigmask(SIG_UNBLOCK, &set, 0);
    printf("%p %p %ld %ld %ld %ld\n", (void *)here, (void *)message, ids[0], ids[1], ids[2], ids[3]);
    fflush(stdout);
    char line[8];
    while (!fgets(line, sizeof line, stdin)) /* interrupted by signals */
        clearerr(stdin);
    printf("%d\n", caught);
    fflush(stdout);
    for (;;)
        pause();
}
