# `make demo` and `make test` set up everything that they need; `make` alone says what else there is.

SHELL = /bin/sh
PY = .venv/bin/python
NATIVE = $(wildcard src/clew/native/*.py src/clew/native/*.pxd src/clew/native/*.h src/clew/native/unwind/* src/clew/native/unwind/*/*) setup.py

# Programs of other people that tests and benchmarks compare clew with, by their names in Debian.
PEERS_APT = binutils llvm gcc-aarch64-linux-gnu g++-aarch64-linux-gnu gcc-i686-linux-gnu gcc-s390x-linux-gnu gcc-powerpc64le-linux-gnu \
	gcc-riscv64-linux-gnu gcc-arm-linux-gnueabihf libc6-dev-arm64-cross libc6-dev-i386-cross libc6-dev-s390x-cross libc6-dev-ppc64el-cross \
	libc6-dev-riscv64-cross libc6-dev-armhf-cross qemu-user clang lld elfutils libdw-dev gdb linux-perf musl-tools sqlite3 \
	dwz debuginfod libc6-dbg libunwind-dev rt-tests libgoogle-perftools4 libjemalloc2
# How long each fuzz test of `make fuzz` and `make test-all` may run, in seconds.
FUZZ_SECONDS = 60
# Where `make install-lib` installs to.
PREFIX = /usr/local

.DEFAULT_GOAL = help
.PHONY: help demo test test-all lint types parity fuzz bench bench-paper bench-inprocess build install-lib clean distclean

# A stamp says what was done in this very folder: a copy of the folder, or one without its .venv, begins anew. Without
# compiled modules the core is tried again, since a compiler may have come meanwhile.
$(shell [ "$$(cat .make/place 2>/dev/null)" = "$(CURDIR)" ] && [ -x $(PY) ] || rm -rf .make)
$(shell ls src/clew/native/*.abi3.so >/dev/null 2>&1 || rm -f .make/core)

help:
	@echo 'make demo      what clew does, on this machine'"'"'s own libc and a running process'
	@echo 'make test      the test suite'
	@echo 'make test-all  also slow tests, longer fuzzing and every comparison with other programs'
	@echo 'make lint      ruff, the order of imports, and no raw pointers in the compiled core'
	@echo 'make types     mypy'
	@echo 'make parity    only the comparisons with other programs'
	@echo 'make fuzz      only the fuzzing; FUZZ_SECONDS=60 each'
	@echo 'make bench     measurements beside those of other programs'
	@echo 'make bench-paper      only those of the paper on compiled unwind tables, recorded anew'
	@echo 'make bench-inprocess  only walks of a thread'"'"'s own stack, and look-ups'
	@echo 'make install-lib      the in-process library, below PREFIX (/usr/local)'
	@echo 'make build     source distribution and wheel, in dist/'
	@echo 'make clean     removes what was built; make distclean also .venv'

.make/venv: pyproject.toml scripts/setup.sh
	@mkdir -p .make
	@scripts/setup.sh venv
	@echo '$(CURDIR)' >.make/place
	@touch $@

.make/core: .make/venv $(NATIVE)
	@scripts/setup.sh core
	@touch $@

.make/extra-%: .make/venv
	@scripts/setup.sh extra $*
	@touch $@

# Without these the comparisons are skipped, and say so.
.make/peers: .make/extra-peers
	@scripts/setup.sh apt $(PEERS_APT) && touch $@ || echo 'Going on without them.'

demo: .make/core
	@demo/demo.sh

test: .make/core
	$(PY) -m pytest -m 'not slow'

test-all: .make/core .make/peers
	CLEW_FUZZ_SECONDS=$(FUZZ_SECONDS) $(PY) -m pytest -rs

parity: .make/core .make/peers
	$(PY) -m pytest -rs tests/peers

fuzz: .make/core
	CLEW_FUZZ_SECONDS=$(FUZZ_SECONDS) $(PY) -m pytest tests/fuzz

lint: .make/core .make/extra-lint
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	.venv/bin/lint-imports
	scripts/no-raw-pointers.sh

types: .make/core .make/extra-lint
	$(PY) -m mypy

bench: .make/core .make/peers
	$(PY) bench/decode.py
	$(PY) bench/commands.py
	$(PY) bench/walk.py
	$(PY) bench/symbols.py

bench-paper: .make/core .make/peers
	$(PY) bench/paper.py

bench-inprocess: .make/core .make/peers
	$(PY) bench/inprocess.py
	$(PY) bench/inprocess_lookup.py

# Needs a C compiler only.
install-lib:
	python3 src/clew/native/unwind/compile.py --install "$(PREFIX)" --destdir "$(abspath $(or $(DESTDIR),/))"

build: .make/core
	$(PY) -m pip install -q build
	$(PY) -m build

clean:
	rm -rf build dist .make .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	rm -rf src/clew.egg-info bench/peers/target
	rm -f src/clew/native/*.so src/clew/native/*.c
	find src tests bench -name __pycache__ -type d -exec rm -rf {} +

distclean: clean
	rm -rf .venv
