// What a Go program knows of its own stacks, printed for who looks from outside.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"time"
)

var sink int
var nowhere *int

// Prints where the calls of the caller's goroutine return to, as the runtime knows them.
//
//go:noinline
func callers() {
	var pcs [4096]uintptr
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
}

//go:noinline
func busy() {
	callers()
	fmt.Println("ready")
	for {
		sink++
	}
}

//go:noinline
func deep(n int, last func()) int {
	var space [200]int
	space[n%200] = n
	if n > 0 {
		return deep(n-1, last) + space[n/2]
	}
	last()
	return space[3]
}

type doer interface{ do(int) }
type thing struct{ n int }

//go:noinline
func (it *thing) do(n int) { it.n += deep(n, busy) }

// The load is a leaf's first instruction: the byte before it is another function's.
//
//go:noinline
func load(place *int) int { return *place }

// What the runtime does on the thread's stack: collections, growing stacks, goroutines that are preempted, signals.
func churn() {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGUSR1)
	for i := 0; i < 3; i++ {
		go func() {
			for {
				sink++
			}
		}()
	}
	for i := 0; ; i++ {
		done := make(chan int)
		go func() { done <- deep(i%300, func() { sink += len(strings.Repeat("text", i%1000)) }) }()
		<-done
		if i%50 == 0 {
			runtime.GC()
			var stats runtime.MemStats
			runtime.ReadMemStats(&stats)
			syscall.Kill(syscall.Getpid(), syscall.SIGUSR1)
		}
		if i == 100 {
			fmt.Println("ready")
		}
	}
}

func wait() {
	callers()
	fmt.Println("ready")
	syscall.Pause()
}

func main() {
	mode := ""
	if len(os.Args) > 1 {
		mode = os.Args[1]
	}
	if mode != "churn" {
		runtime.LockOSThread()
	}
	switch mode {
	case "busy":
		var it doer = &thing{}
		it.do(3)
	case "grown":
		deep(2000, busy)
	case "goroutine":
		go func() {
			runtime.LockOSThread()
			defer deep(1, func() {})
			deep(5, wait)
		}()
		time.Sleep(time.Hour)
	case "crash":
		deep(4, func() { sink = *nowhere })
	case "clock":
		fmt.Println("ready")
		deep(2, func() {
			for {
				sink += time.Now().Nanosecond()
			}
		})
	case "load":
		deep(4, func() { sink = load(nowhere) })
	case "churn":
		churn()
	case "panic":
		deep(4, func() { panic("it") })
	case "defer":
		func() {
			defer func() {
				recover()
				deep(2, wait)
			}()
			deep(2, func() { sink = *nowhere })
		}()
	default:
		deep(3, wait)
	}
}
