/*
 * Libraries that come and go, at the same place and under the same name, while threads walk: what is remembered of one must
 * not be taken for another. Called with the libraries, the number of threads and of turns.
 */
#include "check.h"

#include <pthread.h>
#include <stdatomic.h>

static atomic_int stop, walks;

static int walk(void *argument) {
    (void)argument;
    return agree();
}

static int nest(void *argument) {
    int (*plugin)(int (*)(void *), void *);
    *(void **)&plugin = argument;
    return plugin(walk, NULL);
}

static void *work(void *unused) {
    void *ours[MOST];
    (void)unused;
    while (!stop) {
        int count = clew_backtrace(ours, MOST);
        CHECK(count >= 3 && clew_backtrace_end() == CLEW_END_ENTRY);
        walks++;
    }
    return NULL;
}

int main(int count, char **arguments) {
    char link[4096];
    CHECK(count >= 5);
    int threads = atoi(arguments[1]), turns = atoi(arguments[2]), kinds = count - 3;
    prepare();
    pthread_t workers[64];
    for (int i = 0; i < threads && i < 64; i++)
        CHECK(!pthread_create(&workers[i], NULL, work, NULL));
    snprintf(link, sizeof link, "%s.link", arguments[3]);
    void *place = NULL;
    int same = 0;
    for (int turn = 0; turn < turns; turn++) {
        unlink(link);
        CHECK(!symlink(arguments[3 + turn % kinds], link));
        void *library = dlopen(link, RTLD_NOW);
        if (!library)
            fprintf(stderr, "%s\n", dlerror());
        CHECK(library);
        int (*plugin)(int (*)(void *), void *);
        *(void **)&plugin = dlsym(library, "plugin");
        CHECK(plugin);
        same += (void *)plugin == place;
        *(void **)&place = *(void **)&plugin;
        if (turn % 3 == 1)
            clew_update();
        for (int again = 0; again < 3; again++) {
            plugin(walk, NULL);
            plugin(nest, *(void **)&plugin);
        }
        CHECK(!dlclose(library));
    }
    unlink(link);
    while (threads && !walks)
        usleep(1000);
    stop = 1;
    for (int i = 0; i < threads && i < 64; i++)
        pthread_join(workers[i], NULL);
    CHECK(!threads || walks > 0);
    CHECK(turns < 4 || same > 0); /* or nothing was tested */
    puts("ok");
    return 0;
}
