/* clew_init and clew_update. */
#include <pthread.h>

#include "clew-unwind.h"
#include "modules.h"
#include "reach.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int answer;

static void init(void) {
    answer = clew_readable_works();
    if (!answer)
        clew_modules_update();
}

int clew_init(void) {
    pthread_once(&once, init);
    return answer;
}

void clew_update(void) {
    if (!clew_init())
        clew_modules_update();
}
