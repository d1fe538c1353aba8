// Stacks in the middle of C++: destructors while an exception is thrown, handlers, what ends a program, virtual calls.
#include "truth.h"
#include <algorithm>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

static const char *mode = "";
static volatile int v = 1;

static bool is(const char *name) { return !std::strcmp(mode, name); }

struct Guard {
    int n;
    explicit Guard(int n) : n(n) {}
    FUNCTION ~Guard() {
        if (is("destructor") && n == 2)
            truth();
        v += n;
    }
};

struct Base {
    virtual ~Base() = default;
    virtual int go(int n) = 0;
};

struct Derived : Base {
    std::vector<int> numbers;
    FUNCTION int go(int n) override {
        Guard guard(n);
        numbers.assign(20, n);
        if (is("sort"))
            std::sort(numbers.begin(), numbers.end(), [](int a, int b) {
                if (v)
                    truth();
                return a < b;
            });
        if (n > 0)
            return go(n - 1) + guard.n + numbers[1];
        if (is("plain"))
            truth();
        throw std::runtime_error("thrown");
    }
};

FUNCTION static int closed(int n) noexcept {
    Guard guard(n);
    std::unique_ptr<Base> it(new Derived);
    return it->go(n) + guard.n;
}

FUNCTION static int catching(int n) {
    Guard guard(50);
    try {
        std::unique_ptr<Base> it(new Derived);
        std::function<int(int)> call = [&](int m) { return it->go(m); };
        return call(n) + guard.n;
    } catch (const std::logic_error &) {
        return 1;
    } catch (const std::exception &error) {
        if (is("catch"))
            truth();
        if (is("again"))
            throw;
        return error.what()[0];
    }
}

static void ended() { truth(); }

int main(int argc, char **argv) {
    mode = argc > 1 ? argv[1] : "";
    std::set_terminate(ended);
    if (is("noexcept"))
        return closed(3);
    if (is("thread")) {
        mode = "plain";
        std::thread([] { catching(4); }).join();
    }
    return catching(4);
}
