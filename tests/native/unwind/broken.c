/*
 * Libraries whose .eh_frame was damaged: they are loaded, tables are built of them or refused, and walks through them end,
 * with what they say or with a reason. broken.c LIBRARY...
 */
#include "check.h"

static int walk(void *argument) {
    void *pcs[MOST];
    (void)argument;
    clew_context_t context;
    clew_cursor_t cursor;
    int count = clew_backtrace(pcs, MOST), steps = 0;
    CHECK(count >= 1);
    clew_getcontext(&context);
    CHECK(!clew_local_init(&cursor, &context));
    while (clew_step(&cursor) == 1)
        CHECK(++steps < 1 << 20);
    return 0;
}

int main(int count, char **arguments) {
    prepare();
    for (int i = 1; i < count; i++) {
        void *library = dlopen(arguments[i], RTLD_NOW);
        if (!library) /* the dynamic linker has its own opinion of it */
            continue;
        int (*plugin)(int (*)(void *), void *);
        *(void **)&plugin = dlsym(library, "plugin");
        CHECK(plugin);
        plugin(walk, NULL); /* its .eh_frame is interpreted */
        clew_update();
        plugin(walk, NULL); /* or a table was built */
        dlclose(library);
    }
    agree();
    puts("ok");
    return 0;
}
