#!/bin/sh
# Sets up what the Makefile needs: `setup.sh venv`, `setup.sh core`, `setup.sh extra NAME`, `setup.sh apt PACKAGE…`.
#
# What is missing and comes from apt is installed where that needs no password; otherwise this says what to type.
set -eu
cd "$(dirname "$0")/.."

export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1 DEBIAN_FRONTEND=noninteractive

venv_python=.venv/bin/python
apt_options='-qq -y --no-install-recommends -o DPkg::Lock::Timeout=120'

say() {
    printf '%s\n' "$*" >&2
}

# Whether apt packages can be installed without asking anybody; sets $become to what it takes.
may_install() {
    command -v apt-get >/dev/null 2>&1 || return 1
    if [ "$(id -u)" = 0 ]; then
        become=
    elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
        become='sudo -n'
    else
        return 1
    fi
}

# Installs apt packages; fails after saying what to type when it may not, or when it does not work.
install_packages() {
    if may_install; then
        say "Installing with apt: $*"
        # The lists of a fresh machine may be empty or old: they are fetched when the first try fails.
        $become apt-get install $apt_options "$@" </dev/null >/dev/null 2>&1 && return 0
        $become apt-get update -qq </dev/null >&2 || true
        $become apt-get install $apt_options "$@" </dev/null >&2 && return 0
        say "apt could not install: $*"
        return 1
    fi
    if command -v apt-get >/dev/null 2>&1; then
        say "To install what is missing, type: sudo apt-get install $*"
    else
        say "To install what is missing, look for what Debian calls: $*"
    fi
    return 1
}

# Prints the first Python of version 3.11 or later; a pyenv shim without a version behind it does not count.
find_python() {
    for candidate in ${PYTHON:-} python3 /usr/bin/python3 python3.14 python3.13 python3.12 python3.11; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
            "$candidate" -c 'import sys; print(sys.executable)'
            return 0
        fi
    done
    return 1
}

# Whether C can be compiled against the headers of the Python that is given.
can_compile() {
    command -v cc >/dev/null 2>&1 || command -v gcc >/dev/null 2>&1 || return 1
    headers=$("$1" -c 'import sysconfig; print(sysconfig.get_path("include"))')
    printf '#include <stdint.h>\n#include <Python.h>\n' | ${CC:-$(command -v cc || command -v gcc)} \
        -fsyntax-only -I"$headers" -x c - >/dev/null 2>&1
}

# Where the venv came from is written into its scripts: one that was copied or moved here is of no use.
venv_is_ours() {
    "$venv_python" -m pip --version >/dev/null 2>&1 && head -n 1 .venv/bin/pip | grep -qF "$PWD/.venv/"
}

make_venv() {
    if ! venv_is_ours; then
        if ! python=$(find_python); then
            say "clew needs Python 3.11 or later."
            install_packages python3 python3-venv
            python=$(find_python) || {
                say "This system's python3 is too old: name a newer one by PYTHON=/path/to/python3."
                exit 1
            }
        fi
        # Debian keeps ensurepip, without which a venv has no pip, in a package of its own.
        if ! "$python" -c 'import ensurepip, venv' >/dev/null 2>&1; then
            say "$python cannot make virtual environments."
            case $python in
            /usr/bin/python3) install_packages python3-venv ;;
            /usr/bin/*) install_packages "$(basename "$python")-venv" python3-venv ;;
            *) say "Name another one by PYTHON=/path/to/python3." && exit 1 ;;
            esac
        fi
        say "Making .venv with $python"
        rm -rf .venv
        "$python" -m venv .venv
    fi
    if ! can_compile "$venv_python"; then
        say "Without a C compiler and Python's headers the core runs uncompiled: same answers, some hundred times slower."
        install_packages gcc libc6-dev python3-dev || say "Going on without them."
    fi
    say "Installing what clew needs into .venv"
    "$venv_python" -m pip install -q 'setuptools>=77'
    install_requirements dependencies test
    # No build isolation: what it would fetch is in .venv now. The core is built on its own, so that only what changed
    # is compiled again, without a network.
    CLEW_NO_CORE=1 "$venv_python" -m pip install -q --no-build-isolation --no-deps -e .
}

# Installs the requirements of pyproject.toml by the names of the extras ("dependencies": what clew always needs).
install_requirements() {
    mkdir -p .make
    "$venv_python" - "$@" >.make/requirements.txt <<'END'
import sys, tomllib

project = tomllib.load(open("pyproject.toml", "rb"))["project"]
for name in sys.argv[1:]:
    wanted = project["dependencies"] if name == "dependencies" else project["optional-dependencies"][name]
    print(*wanted, sep="\n")
END
    "$venv_python" -m pip install -q -r .make/requirements.txt
}

report_core() {
    if "$venv_python" -c 'import sys, clew.native; sys.exit(not clew.native.compiled())'; then
        say "The core is compiled."
    else
        say "The core runs uncompiled. If it should not: .make/core.log has what the compiler said."
    fi
}

build_core() {
    if can_compile "$venv_python"; then
        say "Compiling the core"
        # Cython's hints are for who works on the core: they are in the log.
        "$venv_python" setup.py build_ext --inplace >.make/core.log 2>&1 || {
            cat .make/core.log >&2
            exit 1
        }
    else
        # Better slow than a compiled core that is not what its source says.
        rm -f src/clew/native/*.so
    fi
    report_core
}

case ${1:-} in
venv) make_venv ;;
core) build_core ;;
extra) shift && install_requirements "$@" ;;
apt) shift && install_packages "$@" ;;
*) say "usage: $0 venv | core | extra NAME… | apt PACKAGE…" && exit 2 ;;
esac
