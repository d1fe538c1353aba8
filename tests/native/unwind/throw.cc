// Exceptions, cancelled and ended threads, and callbacks of _Unwind_Backtrace: the same with the preload shim and without.
#include <execinfo.h>
#include <pthread.h>
#include <setjmp.h>
#include <unistd.h>
#include <unwind.h>

#include <cstdio>
#include <cstring>
#include <stdexcept>

struct Said {
    const char *name;
    ~Said() { std::printf("%s is destroyed\n", name); }
};

static void *pcs[128], *by_unwind[128];
static int count, bare;

static _Unwind_Reason_Code frame(_Unwind_Context *context, void *) {
    int before = -1;
    auto pc = _Unwind_GetIPInfo(context, &before);
    by_unwind[count] = reinterpret_cast<void *>(pc);
    if (!pc) { // the outermost frame's caller
        count++;
        return _URC_NO_REASON;
    }
    auto start = _Unwind_GetRegionStart(context);
    if (pc != _Unwind_GetIP(context) || before || start > pc)
        std::printf("frame %d is odd\n", count);
    if (reinterpret_cast<void *>(start) != _Unwind_FindEnclosingFunction(reinterpret_cast<void *>(pc)))
        std::printf("frame %d has two functions\n", count);
    bare += !_Unwind_GetLanguageSpecificData(context);
    if (_Unwind_GetDataRelBase(context) || _Unwind_GetTextRelBase(context))
        std::printf("frame %d has a base\n", count);
    if (count && _Unwind_GetCFA(context) <= reinterpret_cast<uintptr_t>(&before))
        std::printf("frame %d lies below\n", count);
    return ++count < 128 ? _URC_NO_REASON : _URC_END_OF_STACK;
}

__attribute__((noinline)) static void fall(int depth) {
    Said said{depth ? "a caller" : "the thrower"};
    if (depth)
        return fall(depth - 1);
    int frames = backtrace(pcs, 128);
    count = bare = 0;
    int code = _Unwind_Backtrace(frame, nullptr);
    std::printf("%d frames, %d by the other, %d bare, code %d, %s\n", frames, count, bare, code,
                std::memcmp(pcs + 1, by_unwind + 1, sizeof(void *) * (frames - 1)) ? "different" : "the same");
    throw std::runtime_error("fallen");
}

static void *wait(void *) {
    Said said{"a waiting thread's"};
    for (;;)
        pause();
}

static void *end(void *) {
    Said said{"an ended thread's"};
    pthread_exit(nullptr);
}

static jmp_buf place;

__attribute__((noinline)) static void jump(int depth) {
    if (depth)
        jump(depth - 1);
    backtrace(pcs, 128);
    longjmp(place, 1);
}

int main() {
    for (int i = 0; i < 3; i++) {
        try {
            fall(i);
        } catch (const std::exception &error) {
            std::printf("%s\n", error.what());
        }
    }
    void *result = nullptr;
    pthread_t thread;
    pthread_create(&thread, nullptr, wait, nullptr);
    usleep(20000);
    pthread_cancel(thread);
    pthread_join(thread, &result);
    std::printf("%s\n", result == PTHREAD_CANCELED ? "cancelled" : "not cancelled");
    pthread_create(&thread, nullptr, end, nullptr);
    pthread_join(thread, &result);
    if (!setjmp(place))
        jump(4);
    try {
        std::rethrow_exception(std::make_exception_ptr(1));
    } catch (int value) {
        std::printf("%d\n", value);
    }
    return 0;
}
