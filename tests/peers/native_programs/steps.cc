// An exception from its throw to its end.
#include <cstdlib>
#include <stdexcept>
#include <string>
volatile int v = 1;
struct Guard {
    ~Guard() { v = v + 1; }
};
[[gnu::noinline]] int thrower(int n) {
    Guard guard;
    if (n > 2)
        throw n;
    return v;
}
[[gnu::noinline]] int between(int n) {
    Guard guard;
    return thrower(n + v) + 1;
}
int main() {
    try {
        return between(5);
    } catch (int n) {
        return n == v;
    }
}
