// Go whose names are hard to tell: closures, methods, generics, inlined calls, defer.
package main

import "os"

type number interface{ ~int | ~int64 }

//go:noinline
func sum[T number](values []T) T {
	var all T
	for _, value := range values {
		all += double(value)
	}
	return all
}

func double[T number](value T) T { return value * 2 }

type counter struct{ count int }

//go:noinline
func (c *counter) add(value int) int {
	c.count += inlined(value)
	return c.count
}

func inlined(value int) int { return deeper(value) + 1 }

func deeper(value int) int {
	if value > 3 {
		return value * 5
	}
	return value
}

//go:noinline
func closes(value int) (result int) {
	defer func() { result += value }()
	add := func(more int) int { return more + inlined(value) }
	return add(1) + add(2)
}

func main() {
	c := &counter{}
	os.Exit((sum([]int{1, 2}) + c.add(len(os.Args)) + closes(3) + int(sum([]int64{4}))) & 1)
}
