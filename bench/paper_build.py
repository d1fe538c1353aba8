"""Builds the C of programs/: replay and engines, each engine a shared object that takes part where it can be built."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from contenders import Unavailable

HERE = Path(__file__).parent
PROGRAMS = HERE / "programs"
PEERS = HERE / "peers"
NATIVE = HERE.parent / "src" / "clew" / "native"

_WARNINGS = ("-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter", "-Wno-missing-field-initializers")


@dataclass(frozen=True)
class Plugin:
    """An engine's shared object.

    Attributes:
        name: the engine, where it cannot be built.
        sources: of programs/.
        options: further options of gcc.
        apt: Debian's package, where it may be missing.
        crate: the crate of peers/ that is linked, as a static library.
        needs: a file without which it is not there yet.
    """

    name: str
    sources: Sequence[str]
    options: Sequence[str] = ()
    apt: str = ""
    crate: str = ""
    needs: Path | None = None


@dataclass
class Built:
    """What was built, and what was not: reasons by name."""

    paths: list[Path] = field(default_factory=list)
    reasons: dict[str, str] = field(default_factory=dict)


def compiled(out: Path, sources: Sequence[str], *options: str) -> Path:
    """A program or shared object of files of programs/.

    Raises:
        Unavailable: there is no gcc, or it does not compile here.
    """
    if not shutil.which("gcc"):
        raise Unavailable("there is no gcc: type apt-get install gcc")
    files = [str(PROGRAMS / source) for source in sources]
    command = ["gcc", "-std=gnu11", "-O2", "-g", *_WARNINGS, "-I", str(NATIVE), "-o", str(out), *files, *options]
    done = subprocess.run(command, capture_output=True, check=False, text=True)
    if done.returncode:
        raise Unavailable(f"it does not compile here: {first_error(done.stderr)}")
    return out


def first_error(text: str) -> str:
    """The line of a compiler's or linker's output that says most."""
    lines = text.strip().splitlines() or ["no reason is given"]
    return next((line for line in lines if "error" in line or "cannot find" in line), lines[0])[:200]


def static_library(crate: str) -> Path:
    """The static library of a crate of peers/.

    Raises:
        Unavailable: there is no cargo, or it cannot build it.
    """
    if not shutil.which("cargo"):
        raise Unavailable("there is no cargo, see https://rustup.rs")
    command = [
        "cargo",
        "build",
        "--release",
        "--quiet",
        "--package",
        crate,
        "--manifest-path",
        str(PEERS / "Cargo.toml"),
    ]
    done = subprocess.run(command, capture_output=True, check=False, text=True)
    if done.returncode:
        raise Unavailable(f"cargo cannot build it: {first_error(done.stderr)}")
    return PEERS / "target" / "release" / f"lib{crate.replace('-', '_')}.a"


def build(plugins: Sequence[Plugin], folder: Path) -> Built:
    """Builds what can be built."""
    built = Built()
    for plugin in plugins:
        try:
            if plugin.needs is not None and not plugin.needs.exists():
                raise Unavailable("not built")
            options = [*plugin.options]
            if plugin.crate:
                options.append(str(static_library(plugin.crate)))
            out = folder / f"{Path(plugin.sources[0]).stem}.so"
            built.paths.append(compiled(out, plugin.sources, "-shared", "-fPIC", *options))
        except Unavailable as reason:
            hint = f" (apt-get install {plugin.apt})" if plugin.apt else ""
            built.reasons[plugin.name] = f"{reason}{hint}"
    return built
