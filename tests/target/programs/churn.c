/* Threads that begin and end all the time. With an argument, the first thread ends and leaves another alone. */
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static void *stay(void *argument) { for (;;) pause(); return argument; }
static void *end(void *argument) { return argument; }

static void *make(void *argument) {
    for (;;) {
        pthread_t thread;
        if (pthread_create(&thread, 0, end, 0) == 0)
            pthread_join(thread, 0);
    }
    return argument;
}

int main(int argc, char **argv) {
    pthread_t thread;
    if (argc > 1) {
        pthread_create(&thread, 0, stay, 0);
        puts(argv[1]);
        fflush(stdout);
        pthread_exit(0);
    }
    for (int i = 0; i < 3; i++)
        pthread_create(&thread, 0, make, 0);
    puts("ready");
    fflush(stdout);
    for (;;)
        pause();
}
