// Stacks of C++ whose frames are known; see stacks.c. The first argument says where it prints and aborts:
//
//   callback   in a function object that an algorithm of the library calls
//   cleanup    in a destructor, while an exception goes by
//   caught     in a handler, within functions that the exception has not left
//   terminate  where an exception ends that nobody catches
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <stdexcept>
#include <unwind.h>

#define FUNCTION __attribute__((noinline, noclone))

static const char *way;
static volatile long sink, one = 1;

static bool is(const char *name) { return strcmp(way, name) == 0; }

static _Unwind_Reason_Code line(struct _Unwind_Context *context, void *) {
  int before = 0;
  unsigned long pc = _Unwind_GetIPInfo(context, &before);
  printf("frame %#lx %d %#lx\n", pc, before, (unsigned long)_Unwind_GetRegionStart(context));
  return _URC_NO_REASON;
}

extern "C" FUNCTION void print() {
  puts("stack");
  _Unwind_Backtrace(line, nullptr);
  fflush(stdout);
  abort();
}

static void ended() {
  print();
  sink++;
}

struct Guard {
  long value;
  FUNCTION explicit Guard(long a) : value(a) {}
  FUNCTION ~Guard() {
    if (is("cleanup"))
      print();
    sink += value;
  }
};

struct Base {
  virtual ~Base() {}
  virtual long run(long a) = 0;
};

struct Derived : Base {
  FUNCTION long run(long a) override {
    long values[] = {3, a, 1};
    std::sort(values, values + 3, [](long x, long y) {
      if (is("callback"))
        print();
      return x < y;
    });
    if (a > 0 && one)
      throw std::runtime_error("on purpose");
    return values[0];
  }
};

FUNCTION long guarded(Base &base, long a) {
  Guard guard(a);
  return base.run(a * one) + guard.value;
}

FUNCTION long caught(Base &base, long a) {
  try {
    return guarded(base, a + 1) + one;
  } catch (const std::exception &error) {
    if (is("caught"))
      print();
    if (is("terminate"))
      throw;
    return error.what()[0];
  }
}

FUNCTION long called(const std::function<long(long)> &function, long a) { return function(a) + one; }

int main(int count, char **arguments) {
  way = count > 1 ? arguments[1] : "callback";
  std::set_terminate(ended);
  Derived derived;
  return called([&](long a) { return caught(derived, a) + one; }, count) & 1;
}
