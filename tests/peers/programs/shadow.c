/* A shadow call stack (clang, -fsanitize=shadow-call-stack), which libgcc cannot unwind: it crashes in _Unwind_Backtrace, as
 * it does not know x18. The leaf reads address 0. The C library is not called on the way, as it may change x18. */
#include <sys/mman.h>

#define FUNCTION __attribute__((noinline))

static volatile long one = 1;
static long *volatile nowhere;

FUNCTION long leaf(long a) { return *nowhere + a; }

FUNCTION long third(long a) { return leaf(a * one) + one; }

FUNCTION long second(long a) {
  volatile char room[200];
  room[a & 63] = 1;
  return third(a + one) * 2 + room[a];
}

FUNCTION long first(long n) {
  if (n == 0)
    return second(8) + one;
  volatile long kept[4] = {n, n};
  long r = first(n - 1);
  return r ^ kept[r & 3];
}

FUNCTION long begin(long n) { return first(n) + n * one; }

__attribute__((no_sanitize("shadow-call-stack"))) int main(int count, char **arguments) {
  char *shadow = mmap(0, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  __asm__ volatile("mov x18, %0" ::"r"(shadow) : "x18");
  return (int)begin(4) & count;
}
