// C++ whose names are hard to tell: templates, lambdas, local and nested classes, constructors, virtual and covariant
// functions, thunks, namespaces without a name, exceptions.

#include "names.h"

volatile int sink;

namespace outer {

namespace {

int hidden(int value)
{
	return value * 3 + sink;
}

NEVER int hidden_apart(int value)
{
	return hidden(value) + 1;
}

}

inline namespace version {

template <typename T, int N> struct Holder {
	T values[N];

	Holder(T first)
	{
		for (int place = 0; place < N; place++)
			values[place] = first + place + sink;
	}

	~Holder() { sink = values[0]; }

	template <typename F> T each(F function) const
	{
		T sum = 0;
		for (T value : values)
			sum += function(value);
		return sum;
	}

	struct Nested {
		T value;
		NEVER T twice() const { return value * 2 + sink; }
	};
};

}

struct First {
	int a;
	NEVER First(int value) : a(value + sink) {}
	virtual ~First() { sink = a; }
	virtual int says(int value) { return a + value; }
	virtual First *self() { return this; }
};

struct Second {
	int b = 2;
	virtual int also(int value) { return b - value; }
	virtual Second *me() { return this; }
	virtual ~Second() {}
};

struct Both : virtual First, Second {
	NEVER Both(int value) : First(value), c(value) {}
	~Both() override { sink = c; }
	int says(int value) override { return First::says(value) + c; }
	int also(int value) override { return Second::also(value) * c; }
	Both *self() override { return this; }
	Both *me() override { return this; }
	int operator()(int value) const { return value + c; }
	operator int() const { return c; }
	int c;
};

NEVER int lambdas(int value)
{
	Holder<int, 4> holder(value);
	auto outer_lambda = [&](int each) {
		auto inner_lambda = [=](auto more) NEVER { return more + each + value + sink; };
		return inner_lambda(each) + inner_lambda(each * 2L);
	};
	return holder.each(outer_lambda) + holder.each([](int each) { return hidden(each); });
}

NEVER int local_classes(int value)
{
	struct Local {
		int value;
		NEVER int method() const
		{
			struct Deeper {
				static NEVER int function(int value) { return value + sink; }
			};
			return Deeper::function(value) + two_deep(value);
		}
	};
	Holder<long, 2>::Nested nested{value};
	return Local{value}.method() + nested.twice();
}

template <typename... Ts> NEVER int variadic(Ts... values)
{
	return (0 + ... + static_cast<int>(values * sink));
}

NEVER int throws(int value)
{
	if (__builtin_expect(value > 1000, 0))
		throw value;
	return value + sink;
}

NEVER int catches(int value)
{
	Holder<int, 3> holder(value);
	try {
		return throws(value) + holder.values[1];
	} catch (int caught) {
		return caught + in_header(caught);
	} catch (...) {
		Holder<short, 2> other(7);
		throw;
	}
}

}

struct Static {
	int value;
	Static() : value(sink) { sink = 4; }
	~Static() { sink = 5; }
};

static Static before_main;

int main(int argc, char **)
{
	outer::Both both(argc);
	outer::First &first = both;
	outer::Second &second = both;
	return outer::lambdas(argc) + outer::local_classes(argc) + outer::variadic(1, 2L, 'c') + outer::catches(argc)
		+ first.says(1) + second.also(2) + both(3) + both + outer::hidden_apart(argc) + first.self()->a
		+ (second.me() != nullptr);
}
