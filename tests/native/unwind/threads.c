/* Threads that walk, come and go; a timer that strikes in all of them; and a child of fork that walks. */
#include "check.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/time.h>
#include <sys/wait.h>

static volatile int sink;
static atomic_int struck;

static void handler(int number) {
    void *pcs[MOST];
    (void)number;
    CHECK(clew_backtrace(pcs, MOST) > 2);
    CHECK(clew_backtrace_end() == CLEW_END_ENTRY);
    struck++;
}

__attribute__((noinline)) static int deep(int depth) {
    int result = depth ? deep(depth - 1) + 1 : agree();
    sink++;
    return result;
}

static void *work(void *argument) {
    for (int turn = 0; turn < 40; turn++)
        deep((turn * 7 + (int)(long)argument) % 60);
    return NULL;
}

static void *long_work(void *argument) {
    for (int turn = 0; turn < 200; turn++)
        work(argument);
    return NULL;
}

/* A child that the C library tells nobody of: its threads must not take over what the one that forked walks with. */
static void untold(void) {
    int status;
    deep(1);
    pid_t child = _Fork();
    if (!child) {
        pthread_t workers[3];
        for (long i = 0; i < 3; i++)
            CHECK(!pthread_create(&workers[i], NULL, long_work, (void *)i));
        long_work((void *)9);
        for (int i = 0; i < 3; i++)
            pthread_join(workers[i], NULL);
        _exit(7);
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

int main(int count, char **arguments) {
    int threads = count > 1 ? atoi(arguments[1]) : 8, turns = count > 2 ? atoi(arguments[2]) : 6;
    int forks = count < 4; /* a sanitizer's allocator may be locked in a child for good */
    prepare();
    if (forks) /* as long as no other thread has been */
        untold();
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    struct itimerval timer = {{0, 1000}, {0, 1000}};
    CHECK(!sigaction(SIGPROF, &action, NULL) && !setitimer(ITIMER_PROF, &timer, NULL));
    for (int turn = 0; turn < turns; turn++) {
        pthread_t workers[64];
        for (long i = 0; i < threads && i < 64; i++)
            CHECK(!pthread_create(&workers[i], NULL, work, (void *)i));
        pid_t child = turn % 2 && forks ? fork() : -1;
        if (!child) { /* the other threads are not there, whatever they were about */
            clew_update();
            work(NULL);
            pthread_t worker;
            CHECK(!pthread_create(&worker, NULL, work, NULL) && !pthread_join(worker, NULL));
            _exit(7);
        }
        for (int i = 0; i < threads && i < 64; i++)
            pthread_join(workers[i], NULL);
        int status;
        if (child > 0)
            CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7);
    }
    while (!struck)
        work(NULL);
    puts("ok");
    return 0;
}
