"""``clew doctor``: each thing that breaks stacks is found, and something is said about what to do."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from stopped_programs import build, goes_on, standing

from clew.arch import machine_named
from clew.cli.doctor_findings import findings
from clew.cli.doctor_modules import coverage, examine
from clew.cli.doctor_stacks import Observed
from clew.cli.stack_names import FrameNames
from clew.memory import BytesMemory
from clew.table import AtCfa, RegisterPlus, Rule, table_of
from clew.target import Modules, Target
from clew.walk import End, Frame, Interrupted, Stack, Trust

Answer = Callable[..., tuple[int, str, str]]

pytestmark = pytest.mark.skipif(os.uname().machine != "x86_64", reason="the programs are for x86-64")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("stands"))


def diagnosis(answer: Answer, target: object, *options: str) -> tuple[int, dict[str, Any]]:
    code, out, error = answer("doctor", str(target), "--json", *options)
    assert error == ""
    return code, json.loads(out)


def kinds(found: dict[str, Any]) -> list[str]:
    return [finding["kind"] for finding in found["findings"]]


def test_whole_stacks_are_no_finding(program: Path, answer: Answer) -> None:
    with standing(program, "threads") as pid:
        code, found = diagnosis(answer, pid)
        plain, out, _ = answer("doctor", str(pid))
        assert goes_on(pid)
    assert (code, plain) == (0, 0)
    assert found["stacks"] == {"entry": 3}
    assert found["findings"] == []
    assert found["target"]["process_id"] == pid
    [module] = [each for each in found["modules"] if each["module"] == str(program)]
    assert module["file"] == {"found": True, "path": str(program), "build_id_matches": True}
    assert module["table"]["sections"] == [".eh_frame"]
    assert module["symbols"][0]["section"] == ".symtab"
    # bare() and what the linker adds have no row.
    assert 0.5 < module["table"]["covered"] < 1
    assert "nothing to complain of" in out
    assert f"    file      {program}, build id {module['build_id']} (the same in the target)\n" in out


def test_fdes_are_as_many_as_readelf_counts(program: Path, answer: Answer) -> None:
    if shutil.which("readelf") is None:
        pytest.skip("readelf is not installed")
    text = subprocess.run(["readelf", "-wf", program], capture_output=True, text=True, check=True).stdout
    with standing(program, "threads") as pid:
        _, found = diagnosis(answer, pid)
    [module] = [each for each in found["modules"] if each["module"] == str(program)]
    assert module["table"]["fdes"] == text.count(" FDE cie=")


def test_a_function_without_a_row(program: Path, answer: Answer) -> None:
    with standing(program, "bare") as pid:
        code, found = diagnosis(answer, pid)
        plain, out, _ = answer("doctor", str(pid))
    assert (code, plain) == (1, 1)
    [finding] = found["findings"]
    assert (finding["kind"], finding["module"], finding["function"]) == ("no_row", str(program), "bare")
    assert (finding["stacks"], finding["threads"]) == (1, [pid])
    assert "-fasynchronous-unwind-tables" in finding["advice"]
    assert f"bare has no row in the unwind table of {program}  (1 stack: TID {pid})\n" in out


def test_a_program_without_a_table(tmp_path: Path, answer: Answer) -> None:
    if shutil.which("objcopy") is None:
        pytest.skip("objcopy is not installed")
    whole = build(tmp_path, "-fomit-frame-pointer")
    bare = tmp_path / "bare"
    subprocess.run(["objcopy", "-R", ".eh_frame", "-R", ".eh_frame_hdr", whole, bare], check=True)
    with standing(bare, "threads") as pid:
        code, found = diagnosis(answer, pid)
    assert code == 1
    [finding] = [each for each in found["findings"] if each["kind"] == "no_table"]
    assert finding["module"] == str(bare)
    assert "-fasynchronous-unwind-tables" in finding["advice"]
    [module] = [each for each in found["modules"] if each["module"] == str(bare)]
    assert "table" not in module


def test_code_of_a_jit_compiler(program: Path, answer: Answer) -> None:
    with standing(program, "jit") as pid:
        code, found = diagnosis(answer, pid)
    assert code == 1
    [finding] = found["findings"]
    assert (finding["kind"], finding["function"]) == ("jit", "py::hot")
    assert "PreserveFramePointer" in finding["advice"]


def test_a_binary_that_was_replaced(program: Path, tmp_path: Path, answer: Answer) -> None:
    copy = tmp_path / "copy"
    shutil.copy(program, copy)
    with standing(copy, "threads") as pid:
        copy.unlink()
        copy.write_text("another file")
        code, out, _ = answer("doctor", str(pid), "--json")
    found = json.loads(out)
    assert code == 1
    [finding] = [each for each in found["findings"] if each["kind"] == "replaced"]
    assert f"{copy} was removed or replaced" in finding["message"]
    assert "start the process again" in finding["advice"]


def test_no_symbols_and_every_path_that_was_tried(program: Path, tmp_path: Path, answer: Answer) -> None:
    if shutil.which("strip") is None:
        pytest.skip("strip is not installed")
    stripped, debug = tmp_path / "stands", tmp_path / "debug"
    subprocess.run(["strip", "-o", stripped, program], check=True)
    debug.mkdir()
    with standing(stripped, "threads") as pid:
        code, found = diagnosis(answer, pid, "--debug-dir", str(debug))
        _, out, _ = answer("doctor", str(pid), "--debug-dir", str(debug))
    assert code == 1
    [finding] = [each for each in found["findings"] if each.get("module") == str(stripped)]
    assert finding["kind"] == "no_symbols"
    [module] = [each for each in found["modules"] if each["module"] == str(stripped)]
    build_id = module["build_id"]
    assert f"debug package with build id {build_id}" in finding["advice"]
    paths = [each["path"] for each in finding["tried"]]
    expected = [f"{folder}/.build-id/{build_id[:2]}/{build_id[2:]}.debug" for folder in (debug, "/usr/lib/debug")]
    # It may have them itself, and its own .gnu_debuglink would lead on.
    assert paths == [str(stripped), *expected]
    assert finding["tried"][0]["reason"] == "has no symbols, and no .gnu_debuglink"
    for path in expected:
        assert f"      {path}: there is no such file\n" in out


def test_where_lines_come_from_and_why_not_from_elsewhere(program: Path, tmp_path: Path, answer: Answer) -> None:
    for tool in ("gcc", "objcopy", "strip"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    whole = build(tmp_path, "-g", "-Wl,--build-id")
    (tmp_path / "bin").mkdir()
    stripped, debug = tmp_path / "bin" / "stands", tmp_path / "debug" / "stands.debug"
    debug.parent.mkdir()
    subprocess.run(["strip", "-g", "-o", stripped, whole], check=True)
    subprocess.run(["objcopy", "--only-keep-debug", whole, debug], check=True)
    subprocess.run(["objcopy", f"--add-gnu-debuglink={debug}", stripped], check=True)
    options = ["--debug-dir", str(tmp_path / "debug")]
    with standing(stripped, "threads") as pid:
        code, found = diagnosis(answer, pid, *options)
        _, every, _ = answer("doctor", str(pid), "--all", *options)
        _, first, _ = answer("doctor", str(pid), *options)
        debug.write_bytes(debug.read_bytes()[:-100])
        _, cut = diagnosis(answer, pid, *options)
        _, out, _ = answer("doctor", str(pid), *options)
        _, out_all, _ = answer("doctor", str(pid), "--all", *options)
    [module] = [each for each in found["modules"] if each["module"] == str(stripped)]
    # Its symbols are its own; lines are no finding where there are none.
    assert (code, found["findings"]) == (0, [])
    assert "debug_file" not in module
    lines = module["lines"]
    assert (lines["found"], lines["path"], lines["section"]) == (True, str(debug), ".debug_info")
    assert lines["tried"][0] == {"path": str(stripped), "reason": "has no DWARF"}
    assert f"    lines     .debug_info of {debug}\n" in first
    assert f"              {stripped}: has no DWARF\n" in every
    assert f"{stripped}: has no DWARF" not in first
    [module] = [each for each in cut["modules"] if each["module"] == str(stripped)]
    assert not module["lines"]["found"]
    assert "compile it with -g" in module["lines"]["advice"]
    reasons = {each["path"]: each["reason"] for each in module["lines"]["tried"]}
    assert reasons[str(debug)] == "is cut: its section headers are missing"
    assert f"    lines     none\n              {stripped}: has no DWARF\n" in out
    assert "more: --all lists them\n" in out
    assert f"              {debug}: is cut: its section headers are missing\n" in out_all
    assert "--all lists them" not in out_all


def test_servers_are_asked_for_lines_if_the_user_names_any(
    tmp_path: Path, answer: Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    if shutil.which("strip") is None:
        pytest.skip("strip is not installed")
    whole = build(tmp_path, "-g", "-Wl,--build-id")
    (tmp_path / "bin").mkdir()
    stripped = tmp_path / "bin" / "stands"
    subprocess.run(["strip", "-o", stripped, whole], check=True)
    monkeypatch.setenv("DEBUGINFOD_CACHE_PATH", str(tmp_path / "cache"))
    monkeypatch.setenv("DEBUGINFOD_URLS", f"file://{tmp_path}/store")
    with standing(stripped, "threads") as pid:
        _, out, _ = answer("doctor", str(pid), "--all", "--debug-dir", str(tmp_path))
        _, found = diagnosis(answer, pid)
        [module] = [each for each in found["modules"] if each["module"] == str(stripped)]
        assert not module["lines"]["found"]
        assert "DEBUGINFOD_URLS" not in module["lines"]["advice"]
        build_id = module["build_id"]
        url = f"file://{tmp_path}/store/buildid/{build_id}/debuginfo"
        assert f"              {url}: there is no such file\n" in out
        shutil.rmtree(tmp_path / "cache")
        store = tmp_path / "store" / "buildid" / build_id
        store.mkdir(parents=True)
        shutil.copy(whole, store / "debuginfo")
        code, found = diagnosis(answer, pid)
        monkeypatch.delenv("DEBUGINFOD_URLS")
        _, without = diagnosis(answer, pid)
    [module] = [each for each in found["modules"] if each["module"] == str(stripped)]
    cached = f"{tmp_path}/cache/{build_id}/debuginfo"
    assert (code, module["lines"]["path"], module["debug_file"]["path"]) == (0, cached, cached)
    assert module["symbols"][0]["file"] == cached
    [module] = [each for each in without["modules"] if each["module"] == str(stripped)]
    assert not module["lines"]["found"]
    assert "set DEBUGINFOD_URLS" in module["lines"]["advice"]
    [finding] = [each for each in without["findings"] if each["module"] == str(stripped)]
    assert "set DEBUGINFOD_URLS" in finding["advice"]


def test_a_supplementary_file_that_is_missing(tmp_path: Path, answer: Answer) -> None:
    if shutil.which("objcopy") is None:
        pytest.skip("objcopy is not installed")
    program, link = build(tmp_path, "-g"), tmp_path / "link"
    link.write_bytes(b"/nowhere/common.debug\0" + bytes(20))
    subprocess.run(["objcopy", f"--add-section=.gnu_debugaltlink={link}", program], check=True)
    with standing(program, "threads") as pid:
        code, found = diagnosis(answer, pid)
        _, out, _ = answer("doctor", str(pid))
    assert code == 1
    [finding] = found["findings"]
    assert (finding["kind"], finding["module"]) == ("no_supplement", str(program))
    assert {"path": "/nowhere/common.debug", "reason": "there is no such file"} in finding["tried"]
    [module] = [each for each in found["modules"] if each["module"] == str(program)]
    assert module["lines"]["found"]
    assert not module["lines"]["supplement"]["found"]
    assert "    lines     .debug_info, without its supplementary file\n" in out


@pytest.fixture(scope="module")
def core(program: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("gcore") is None:
        pytest.skip("gcore is not installed")
    folder = tmp_path_factory.mktemp("core")
    with standing(program, "threads") as pid:
        done = subprocess.run(["gcore", "-o", folder / "core", str(pid)], check=False, capture_output=True, timeout=120)
    if done.returncode:
        pytest.skip("gcore cannot write a core here")
    return folder / f"core.{pid}"


def test_a_core_whose_files_are_elsewhere(core: Path, tmp_path: Path, answer: Answer) -> None:
    code, out, _ = answer("doctor", str(core), "--sysroot", str(tmp_path), "--json")
    found = json.loads(out)
    assert code == 1
    assert set(kinds(found)) == {"missing_file"}
    broken = sum(count for end, count in found["stacks"].items() if end != "entry")
    assert sum(each.get("stacks", 0) for each in found["findings"]) == broken > 0
    finding = found["findings"][0]
    assert "--sysroot" in finding["advice"]
    assert finding["tried"] == [{"path": f"{tmp_path}{finding['module']}", "reason": "there is no such file"}]
    code, out, _ = answer("doctor", str(core), "--sysroot", str(tmp_path))
    assert f"      {tmp_path}{finding['module']}: there is no such file\n" in out


def test_a_core_whose_libraries_are_other_builds(core: Path, program: Path, tmp_path: Path, answer: Answer) -> None:
    _, out, _ = answer("stack", str(core), "--json")
    [libc] = {
        frame["module"]
        for thread in json.loads(out)["threads"]
        for frame in thread["frames"]
        if "libc.so" in frame["module"]
    }
    other = tmp_path / libc.lstrip("/")
    other.parent.mkdir(parents=True)
    # Any other library will do.
    shutil.copy(program, other)
    code, out, error = answer("doctor", str(core), "--sysroot", str(tmp_path), "--json")
    assert code == 1
    assert "has build id" in error
    [finding] = [each for each in json.loads(out)["findings"] if each.get("module") == libc]
    assert finding["kind"] == "build_id_mismatch"
    assert "has build id" in finding["tried"][0]["reason"]


def test_the_program_that_was_named_is_another(core: Path, answer: Answer) -> None:
    code, out, error = answer("doctor", str(core), "--exe", os.path.realpath("/bin/sh"), "--json")
    assert code == 1
    assert "it is used nevertheless" in error
    found = json.loads(out)
    mismatch = [each for each in found["findings"] if each["kind"] == "build_id_mismatch"]
    assert len(mismatch) == 1
    assert "frames that this one leads to may never have been" in mismatch[0]["advice"]


def test_coverage_of_code() -> None:
    rule = Rule(RegisterPlus(7, 8), ((16, AtCfa(-8)),), return_address=16)
    # Padding up to 0x1010 counts, the gap behind it does not; what lies outside of the code does not either.
    table = table_of("x86-64", [(0x1000, 0x100C, rule), (0x1010, 0x1020, rule), (0x1080, 0x10A0, rule)])
    assert coverage(table, [(0x1000, 0x1080)]) == 0x20 / 0x80
    assert coverage(table, [(0x1000, 0x1010), (0x1090, 0x1098)]) == 1
    assert coverage(table, [(0x5000, 0x5010)]) == 0
    assert coverage(table, []) is None


@pytest.mark.parametrize("end", [end for end in End if end is not End.ENTRY])
@pytest.mark.parametrize("kind", ["process", "core"])
def test_every_end_has_its_advice(end: End, kind: str) -> None:
    machine = machine_named("x86-64")
    target = Target(kind, machine, [], BytesMemory(b""), Modules([]))
    frame = Frame(Interrupted(0x1000), Trust.CONTEXT, {})
    observed = Observed(FrameNames(target))
    for thread in (1, 2, 2):
        observed.add(thread, Stack((frame,), end, "because"))
    [finding] = findings(target, observed, examine(observed))
    assert (finding.stacks, finding.threads) == (3, [1, 2])
    assert finding.message
    assert finding.advice
    assert finding.to_json().keys() >= {"kind", "message", "advice", "stacks", "threads"}


def test_the_help(answer: Answer) -> None:
    code, out, _ = answer("doctor", "--help")
    assert code == 0
    for option in ("--exe", "--sysroot", "--debug-dir", "--json"):
        assert option in out
