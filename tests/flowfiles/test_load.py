"""Files, directories, kits, scripts, prompts and sub-flows."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.flowfiles.support import Folder

from holdfast.errors import FlowFileError
from holdfast.flowfiles import ForEach, Llm, Script, SubFlow, check_flow, find_flow, load_flow

ONE = "steps: {one: {run: echo, outputs: [r]}}\n"


def test_a_flow_is_a_file_a_directory_or_a_name(folder: Folder) -> None:
    file = folder.write("single.flow.yaml", ONE)
    entry = folder.write("whole/FLOW.yaml", ONE)
    folder.write("flows/kept.flow.yaml", ONE)
    for reference, name in ((str(file), "single"), ("single", "single"), ("single.flow.yaml", "single"), (str(entry), "whole"),
                            ("whole", "whole"), ("whole/", "whole"), ("kept", "kept")):  # fmt: skip
        assert load_flow(reference).name == name
    assert load_flow("whole").directory == str((folder.path / "whole").resolve())
    assert str(load_flow("single").at) == "single.flow.yaml:1:1"


def test_a_kit_is_a_directory_of_flows_with_defaults_of_its_own(folder: Folder) -> None:
    folder.write("flows/dev/KIT.yaml", "name: dev\ndescription: for work\ndefaults: {depth: 7}\ntags: [a]\n")
    folder.write("flows/dev/plan/FLOW.yaml", "config: {depth: {type: number}, other: {default: 1}}\n" + ONE)
    folder.write("flows/dev/small.flow.yaml", ONE)
    flow = load_flow("dev/plan")
    assert [(one.name, one.required, one.default) for one in flow.config] == [
        ("depth", False, 7),
        ("other", False, "1"),
    ]
    assert load_flow("dev/small").name == "small"


@pytest.mark.parametrize(
    ("kit", "code", "place"),
    [
        ("nam: dev\nname: dev\n", "unknown-key", "1:1"),
        ("description: x\n", "missing-key", "1:1"),
        ("name: dev\ndefaults: {depth: deep}\n", "bad-default", "2:12"),
        ("- x\n", "wrong-value", "1:1"),
        ("name: dev\ndefaults: {key: hunter2}\n", "sensitive-default", "2:12"),
        ("a: [", "yaml", "2:1"),
    ],
)
def test_what_is_wrong_with_a_kit_is_told_in_its_own_file(folder: Folder, kit: str, code: str, place: str) -> None:
    folder.write("dev/KIT.yaml", kit)
    folder.write("dev/plan/FLOW.yaml", "config: {depth: {type: number}, key: {sensitive: true}}\n" + ONE)
    flow, findings = check_flow("dev/plan")
    assert flow is None
    assert [(one.code, one.at.file, f"{one.at.line}:{one.at.column}") for one in findings] == [
        (code, "dev/KIT.yaml", place)
    ]


@pytest.mark.parametrize("reference", ["nope", "./nope", "", "a\0b", "x" * 5000, "/", "."])
def test_a_flow_that_is_not_there_is_told_so(folder: Folder, reference: str) -> None:
    with pytest.raises(FlowFileError, match="there is no such flow; give a file, a directory"):
        load_flow(reference)


def test_scripts_and_prompts_are_found_beside_the_flow(folder: Folder) -> None:
    folder.write("f/scripts/go.py", "print('{}')")
    folder.write("f/prompts/ask.md", "Hello $name\n")
    folder.write(
        "f/FLOW.yaml",
        """
        steps:
          a: {run: scripts/go.py}
          b: {run: "scripts/go.py --now"}
          c: {executor: llm, prompt_file: prompts/ask.md, inputs: {name: $job.name}}
          d: {run: ./made-later.sh}
        """,
    )
    a, b, c, d = (one.executor for one in load_flow("f").steps)
    assert a == Script(text="scripts/go.py", file="scripts/go.py")
    assert b == Script(text="scripts/go.py --now")
    assert d == Script(text="./made-later.sh")
    assert isinstance(c, Llm)
    assert (c.prompt.text, str(c.prompt.at)) == ("Hello $name\n", "f/prompts/ask.md:1:1")


def test_a_script_outside_the_flow_is_a_command_not_a_file_of_the_flow(folder: Folder) -> None:
    folder.write("secret.sh", "")
    folder.write("f/FLOW.yaml", "steps: {a: {run: ../secret.sh}}\n")
    os.symlink(folder.path / "secret.sh", folder.path / "f" / "link.sh")
    folder.write("f/two.flow.yaml", "steps: {a: {run: ./link.sh}}\n")
    for flow in (load_flow("f"), load_flow("f/two.flow.yaml")):
        assert isinstance(flow.steps[0].executor, Script)
        assert flow.steps[0].executor.file is None


def test_nothing_waits_for_a_file_that_is_no_file(folder: Folder) -> None:
    os.mkfifo(folder.path / "pipe")
    folder.write(
        "x.flow.yaml", "steps: {a: {executor: llm, prompt_file: pipe}, b: {executor: llm, prompt_file: /dev/zero}}\n"
    )
    _, findings = check_flow("x")
    assert [one.code for one in findings] == ["missing-file", "missing-file"]
    assert find_flow("pipe", folder.path) is None


def test_a_prompt_that_is_too_large_or_no_text_is_refused(folder: Folder) -> None:
    folder.write("large.md", b"x" * 1_000_001)
    folder.write("bytes.md", b"\xff\xfe")
    codes = folder.codes(
        "steps: {a: {executor: llm, prompt_file: large.md}, b: {executor: llm, prompt_file: bytes.md}}"
    )
    assert sorted(codes) == ["encoding", "too-large"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_without_permission_is_told_so(folder: Folder) -> None:
    folder.write("x.flow.yaml", ONE).chmod(0)
    _, findings = check_flow("x")
    assert [one.code for one in findings] == ["unreadable"]


def test_the_digest_follows_everything_the_flow_is_made_of(folder: Folder) -> None:
    folder.write("go.sh", "one")
    folder.write("ask.md", "one")
    folder.write("child.flow.yaml", ONE)
    text = (
        "steps:\n  a: {run: go.sh}\n  b: {executor: llm, prompt_file: ask.md}\n  c: {flow: child}\n"
        "  d: {flow: {steps: {x: {run: in.sh}}}}\n"
    )
    folder.write("in.sh", "one")
    seen = [folder.load(text).digest]
    assert folder.load(text).digest == seen[0]
    for name in ("go.sh", "ask.md", "in.sh"):
        folder.write(name, "two")
        seen.append(folder.load(text).digest)
    folder.write("child.flow.yaml", ONE + "# changed\n")
    seen.append(folder.load(text).digest)
    seen.append(folder.load(text + "# changed\n").digest)
    assert len(set(seen)) == len(seen)


def test_a_sub_flow_is_written_inside_or_named_or_a_file(folder: Folder) -> None:
    folder.write("child.flow.yaml", ONE)
    folder.write("parts/other/FLOW.yaml", ONE)
    flow = folder.load("""
        steps:
          a: {flow: {steps: {x: {run: echo, outputs: [r]}}}, outputs: [r]}
          b: {flow: child}
          c: {flow: child.flow.yaml}
          d: {flow: parts/other}
          e: {for_each: $job.list, flow: ./child.flow.yaml}
        """)
    assert [one.executor.reference for one in flow.steps if isinstance(one.executor, SubFlow | ForEach)] == [
        "",
        "child",
        "child.flow.yaml",
        "parts/other",
        "./child.flow.yaml",
    ]
    assert flow.size == 10


def test_a_directory_flow_finds_its_siblings_by_name(folder: Folder) -> None:
    folder.write("kit/KIT.yaml", "name: kit\n")
    folder.write("kit/a/FLOW.yaml", "steps: {x: {flow: b}}\n")
    folder.write("kit/b/FLOW.yaml", ONE)
    executor = load_flow("kit/a").steps[0].executor
    assert isinstance(executor, SubFlow)
    assert executor.flow.name == "b"


def test_flows_that_use_one_another_in_a_circle_are_refused(folder: Folder) -> None:
    folder.write("b.flow.yaml", "steps: {x: {flow: c}}\n")
    folder.write("c.flow.yaml", "steps: {x: {for_each: $job.y, flow: a}}\n")
    folder.write("a.flow.yaml", "steps: {x: {flow: b}}\n")
    _, findings = check_flow("a")
    circle = next(one for one in findings if one.code == "sub-flow-cycle")
    assert str(circle.at) == "c.flow.yaml:1:31"
    assert "a.flow.yaml -> b.flow.yaml -> c.flow.yaml -> a.flow.yaml" in circle.message


def test_a_flow_that_uses_itself_is_refused(folder: Folder) -> None:
    assert folder.codes("steps: {x: {flow: x}}") == ["sub-flow-cycle"]


def test_sub_flows_that_multiply_are_counted_not_unpacked(folder: Folder) -> None:
    folder.write("f0.flow.yaml", ONE)
    for number in range(1, 40):
        folder.write(f"f{number}.flow.yaml", f"steps: {{a: {{flow: f{number - 1}}}, b: {{flow: f{number - 1}}}}}\n")
    _, findings = check_flow("f39")
    assert {one.code for one in findings} == {"too-large"}


def test_what_is_wrong_in_a_sub_flow_is_told_in_its_file(folder: Folder) -> None:
    folder.write("child.flow.yaml", "steps:\n  a: {rum: echo}\n")
    _, findings = check_flow(folder.write("x.flow.yaml", "steps: {x: {flow: child}}\n"))
    assert [(str(one.at), one.code) for one in findings] == [("child.flow.yaml:2:7", "unknown-key")]


def test_loading_runs_nothing(folder: Folder, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    folder.write("evil.py", f"open({str(mark)!r}, 'w')")
    folder.write(
        "x.flow.yaml",
        f"""
        requires: [{{name: x, check: "touch {mark}"}}]
        steps:
          a: {{run: "touch {mark}"}}
          b: {{run: evil.py}}
          c: {{executor: python, call: "evil:main"}}
          d: {{executor: poll, check_command: "touch {mark}"}}
          e: {{run: x, when: "__import__('os').system('touch {mark}')"}}
        """,
    )
    check_flow("x")
    assert not mark.exists()


def test_a_folder_that_is_called_like_a_flow_is_not_suggested_for_itself(tmp_path: Path) -> None:
    (tmp_path / "odd.flow.yaml").mkdir()
    with pytest.raises(FlowFileError) as refused:
        load_flow("odd", tmp_path)
    assert "did you mean" not in str(refused.value)
