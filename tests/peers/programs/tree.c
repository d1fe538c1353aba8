/* A small call tree to be stepped through; `mark` is where the steps begin and `done` where they end. */
#include <alloca.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define FUNCTION __attribute__((noinline, noclone))

volatile int v;
static volatile sig_atomic_t caught;

static void handler(int number) { caught = number; }

FUNCTION int leaf(int a) { return a * 3 + v; }

FUNCTION int compare(const void *a, const void *b) {
  v++;
  return leaf(*(const int *)a) - leaf(*(const int *)b);
}

FUNCTION int sort(int n) {
  int x[3] = {4, 3, n};
  qsort(x, 3, sizeof *x, compare);
  return x[0] + v;
}

FUNCTION int lay(int n) {
  char *room = alloca(n * 16 + 8);
  memset(room, n, n * 16);
  int r = sort(n) + room[3];
  v += room[1];
  return r;
}

FUNCTION int recurse(int n) {
  volatile char kept[40];
  kept[0] = n;
  int r = n ? recurse(n - 1) : lay(2);
  return r + kept[0];
}

FUNCTION double floats(double a, int n) {
  double b = a * v + 1;
  return recurse(n) * b + a;
}

FUNCTION int signalled(void) {
  signal(SIGUSR1, handler);
  raise(SIGUSR1);
  return caught;
}

FUNCTION int mark(int n) {
  int r = (int)floats(1.5, n);
  if (n > 1)
    r += signalled();
  return r + leaf(r);
}

int main(int count, char **arguments) { return mark(count) & 1; }
