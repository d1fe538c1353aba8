/* Waits without a way to be interrupted, as who calls vfork does until the child is done: until a line is read. */
#include <stdio.h>
#include <unistd.h>

int main(void) {
    puts("ready");
    fflush(stdout);
    if (vfork() == 0) {
        char line[8];
        while (read(0, line, sizeof line) <= 0) ;
        _exit(0);
    }
    puts("done");
    fflush(stdout);
    for (;;)
        pause();
}
