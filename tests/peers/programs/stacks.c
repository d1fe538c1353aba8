/* Stacks whose frames are known. The first argument says how it ends:
 *
 *   abort      the function that prints aborts
 *   leaf       it returns, and a leaf function below its caller reads address 0
 *   siginfo    a leaf reads address 0; the handler (SA_SIGINFO) prints and aborts
 *   plain      the same with a handler of one argument
 *   altstack   the same on a stack of its own
 *   raise      the program raises a signal; its handler prints and aborts
 *   thread     as abort, in a thread
 *
 * It prints what libgcc's _Unwind_Backtrace finds, a line per frame: the pc, whether that was interrupted rather than
 * called from, and where the function begins. */
#define _GNU_SOURCE
#include <alloca.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unwind.h>

#ifndef DIE
#define DIE abort()
#endif
#define FUNCTION __attribute__((noinline, noclone))

static const char *way;
static volatile long sink, one = 1;
static long *volatile nowhere;

static int is(const char *name) { return strcmp(way, name) == 0; }

static _Unwind_Reason_Code line(struct _Unwind_Context *context, void *unused) {
  int before = 0;
  unsigned long pc = _Unwind_GetIPInfo(context, &before);
  (void)unused;
  printf("frame %#lx %d %#lx\n", pc, before, (unsigned long)_Unwind_GetRegionStart(context));
  return _URC_NO_REASON;
}

FUNCTION void print(int die) {
  puts("stack");
  _Unwind_Backtrace(line, NULL);
  fflush(stdout);
  if (die)
    DIE;
  sink++;
}

static void with_context(int number, siginfo_t *info, void *context) {
  (void)info, (void)context;
  print(1);
  sink += number;
}

static void without_context(int number) {
  print(1);
  sink += number;
}

FUNCTION long leaf(long a) { return *nowhere + a; }

FUNCTION long bridge(long a) {
  if (is("abort") || is("thread"))
    print(1);
  if (is("leaf"))
    print(0);
  if (is("raise"))
    raise(SIGUSR1);
  return leaf(a) * 3 + one;
}

FUNCTION int compare(const void *a, const void *b) {
  long c = bridge(*(const int *)a - *(const int *)b);
  sink += c;
  return c > 0;
}

FUNCTION long sort(long a) {
  int numbers[3] = {3, (int)a, 1};
  qsort(numbers, 3, sizeof *numbers, compare);
  return numbers[0] + one;
}

FUNCTION long lay(int n, long a, long b, long c, long d, long e, long f, long g, long h, long i) {
  char *room = alloca(n * 24 + 8);
  memset(room, n, n * 24);
  long r = sort(room[n] + a + b + c + d) + one;
  sink += room[r & 7];
  return r + e + f + g + h + i;
}

FUNCTION long recurse(int n, long x) {
  volatile long kept[4] = {x, n, x, n};
  if (n == 0)
    return lay(5 + (int)x % 2, x, 2, 3, 4, 5, 6, 7, 8, 9) + kept[1];
  long r = recurse(n - 1, x * 2 + one);
  return r ^ kept[r & 3];
}

FUNCTION double floats(double a, long b) {
  double c = a * one;
  long r = recurse(3, b);
  return r + c * a;
}

FUNCTION void *begin(void *argument) {
  sink += (long)floats(1.5 * one, (long)argument);
  return NULL;
}

int main(int count, char **arguments) {
  static char stack[1 << 16];
  way = count > 1 ? arguments[1] : "abort";
  struct sigaction action;
  memset(&action, 0, sizeof action);
  if (is("plain"))
    action.sa_handler = without_context;
  else {
    action.sa_sigaction = with_context;
    action.sa_flags = SA_SIGINFO;
  }
  if (is("altstack")) {
    stack_t other = {.ss_sp = stack, .ss_size = sizeof stack};
    sigaltstack(&other, NULL);
    action.sa_flags |= SA_ONSTACK;
  }
  if (!is("leaf"))
    sigaction(SIGSEGV, &action, NULL);
  sigaction(SIGUSR1, &action, NULL);
  if (is("thread")) {
    pthread_t thread;
    pthread_create(&thread, NULL, begin, (void *)2);
    pthread_join(thread, NULL);
  } else
    begin((void *)2);
  return sink & 1;
}
