/* Functions of a header: inlined into every unit that includes it, at several depths. */

#ifndef NAMES_H
#define NAMES_H

#define ALWAYS static inline __attribute__((always_inline))
#define NEVER __attribute__((noinline))

extern volatile int sink;

ALWAYS int in_header(int value)
{
	int sum = 0;
	for (int turn = 0; turn < value; turn++) {
		sum += turn ^ sink;
	}
	return sum;
}

ALWAYS int two_deep(int value)
{
	if (value > 7)
		return in_header(value) + 1;
	return in_header(value * 3) - 1;
}

#endif
