/* C whose names are hard to tell: inlined calls in loops and in headers, cold and split parts, recursion, tail calls. */

#include "names.h"

volatile int sink;

static int once(int value)
{
	sink = value;
	return value + sink;
}

ALWAYS int three_deep(int value)
{
	return two_deep(value) + two_deep(value + sink);
}

NEVER int loops(int value)
{
	int sum = 0;
	for (int outer = 0; outer < value; outer++)
		for (int inner = 0; inner < outer; inner++)
			sum += three_deep(inner) * once(outer);
	return sum;
}

__attribute__((cold)) NEVER void complain(int value)
{
	sink = -value;
}

/* What is inlined here stands on the hot and on the cold side: its code is in several pieces. */
ALWAYS int checked(int value)
{
	if (__builtin_expect(value < 0, 0)) {
		complain(value);
		sink = value * 3;
		sink = value / 5;
		complain(sink);
		__builtin_trap();
	}
	return value * sink;
}

NEVER int split(int value)
{
	int sum = checked(value);
	for (int turn = 0; turn < 4; turn++)
		sum += checked(sum + turn);
	if (__builtin_expect(sum == 77, 0)) {
		complain(sum);
		complain(sum + 1);
		__builtin_trap();
	}
	return sum;
}

static int recursive(int value)
{
	if (value < 2)
		return sink;
	return recursive(value - 1) + recursive(value - 2) * sink;
}

NEVER static int specialised(int value, int factor, int *other)
{
	*other += factor;
	return value * factor + sink + *other;
}

NEVER int constants(int value)
{
	int other = 3;
	return specialised(value, 12, &other) + specialised(value + 1, 12, &other);
}

NEVER int switches(int value)
{
	switch (value) {
	case 0: return in_header(1);
	case 1: return once(2);
	case 2: return two_deep(3);
	case 3: return split(4);
	case 4: return sink;
	case 5: return checked(6);
	default: return recursive(value);
	}
}

NEVER int same_as_twin(int value)
{
	return value * 17 + sink;
}

NEVER int twin(int value)
{
	return value * 17 + sink;
}

# 1000 "a made up/../file.y"
NEVER int from_another_language(int value)
{
	sink = value;
# 7 "a second.y"
	sink = in_header(value);
	return sink + 1;
}
# 110 "names.c"

int tail(int value)
{
	sink++;
	return loops(value);
}

int main(int argc, char **argv)
{
	(void)argv;
	return loops(argc) + split(argc) + recursive(argc + 9) + constants(argc) + switches(argc) + same_as_twin(argc)
		+ twin(argc) + from_another_language(argc) + tail(argc);
}
