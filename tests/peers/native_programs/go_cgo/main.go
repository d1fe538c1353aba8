// Goroutine, C, and a goroutine again: the stacks between which cgo goes.
package main

/*
#include <unistd.h>
extern void back(int);
static int volatile sink;
__attribute__((noinline)) static void c_wait(void) { for (;;) pause(); }
__attribute__((noinline)) static int c_inner(int n) {
    volatile char b[100];
    b[n] = n;
    if (n > 90) back(n); else c_wait();
    return b[n];
}
__attribute__((noinline)) static int c_outer(int n) { int r = c_inner(n) + sink; return r + n; }
*/
import "C"

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
)

//go:noinline
func callers() {
	var pcs [256]uintptr
	n := runtime.Callers(2, pcs[:])
	text := fmt.Sprintf("callers %d", syscall.Gettid())
	frames := runtime.CallersFrames(pcs[:n])
	for more := n > 0; more; {
		var frame runtime.Frame
		frame, more = frames.Next()
		// Frames of their own: not those that were inlined, nor how the runtime sees its own work.
		if frame.Func != nil && !strings.HasPrefix(frame.Function, "runtime.") {
			text += fmt.Sprintf(" %x", frame.PC+1)
		}
	}
	fmt.Println(text)
	fmt.Println("ready")
}

//export back
func back(n C.int) {
	callers()
	C.c_outer(1)
}

//go:noinline
func deep(n int) int {
	var space [20]int
	space[n] = n
	if n > 0 {
		return deep(n-1) + space[1]
	}
	if len(os.Args) > 1 {
		return int(C.c_outer(95))
	}
	callers()
	return int(C.c_outer(5))
}

func main() {
	runtime.LockOSThread()
	deep(4)
}
