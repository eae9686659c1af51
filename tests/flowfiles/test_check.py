"""What validation finds without running anything; each finding has a place and a fix."""

from __future__ import annotations

import pytest
from tests.flowfiles.support import Folder

from holdfast.flowfiles import StepSource, check_tools, terminals

GOOD = [
    (
        "a sub-flow with a secret, which nobody hands on",
        "steps: {a: {flow: {inputs: {key: {sensitive: true}}, steps: {x: {run: x, inputs: {k: $job.key}}}}}}",
    ),
    (
        "a step for the first round only",
        """
        steps:
          begin: {run: x, inputs: {old: {from: end.o, optional: true}}, when: {input: old, is_present: false}, outputs: [o]}
          end:
            run: x
            inputs: {o: begin.o}
            outputs: [o]
            exits: [{when: attempt < 3, action: loop, target: begin}]
        """,
    ),
    (
        "derived outputs that build on one another",
        "steps: {a: {run: x, outputs: [n], derived_outputs: {m: n + 1, k: m + n}}}",
    ),
    (
        "a loop closed by a rule and an optional input",
        """
        steps:
          write: {run: w, inputs: {notes: {from: test.notes, optional: true}}, outputs: [code]}
          test:
            run: t
            inputs: {code: write.code}
            outputs: [ok, notes]
            exits: [{when: "not outputs.ok", action: loop, target: write, max_iterations: 3}]
        """,
    ),
    (
        "a loop closed by any_of",
        """
        steps:
          first: {run: f, outputs: [text]}
          improve: {run: i, inputs: {text: {any_of: [judge.text, first.text]}}, outputs: [text]}
          judge:
            run: j
            inputs: {text: improve.text}
            outputs: [text, good]
            exits: [{when: "outputs.good", action: advance}, {action: loop, target: improve, max_iterations: 9}]
        """,
    ),
    (
        "a step that reads its own last result",
        """
        steps:
          count:
            run: c
            inputs: {last: {from: count.n, optional: true}}
            outputs: [n]
            exits: [{when: "outputs.n < 3", action: loop, target: count, max_iterations: 5}]
        """,
    ),
    (
        "one session, one after the other",
        """
        steps:
          a: {executor: agent, prompt: x, session: s}
          b: {run: x, after: [a]}
          c: {executor: agent, prompt: x, session: s, after: [b]}
        """,
    ),
    (
        "one session, either or",
        """
        steps:
          pick: {run: x, outputs: [way]}
          a: {executor: agent, prompt: x, session: s, inputs: {way: pick.way}, when: "way == 'left'"}
          b: {executor: agent, prompt: x, session: s, inputs: {w: pick.way}, when: {input: w, eq: right}}
          c: {executor: agent, prompt: x, session: t, inputs: {w: pick.way}, when: "w"}
          d: {executor: agent, prompt: x, session: t, inputs: {w: pick.way}, when: "not w"}
        """,
    ),
    (
        "a fork",
        """
        steps:
          a: {executor: agent, prompt: x, session: s}
          b: {executor: agent, prompt: x, session: t, fork_from: a}
        """,
    ),
]

BAD = [
    (
        "a derived output that reads a later one",
        "steps: {a: {run: x, outputs: [n], derived_outputs: {k: m + n, m: n + 1}}}",
        "unknown-name",
        "there is no m here",
    ),
    (
        "an unknown step",
        "steps: {a: {run: x, outputs: [o]}, b: {run: x, inputs: {i: aa.o}}}",
        "unknown-step",
        "did you mean a?",
    ),
    (
        "an unknown step after",
        "steps: {build: {run: x}, b: {run: x, after: [biuld]}}",
        "unknown-step",
        "did you mean build?",
    ),
    (
        "an unknown target",
        "steps: {a: {run: x, exits: [{when: 'attempt < 2', action: loop, target: z}]}}",
        "unknown-step",
        "z",
    ),
    (
        "an unknown fork",
        "steps: {a: {executor: agent, prompt: x, session: s, fork_from: z}}",
        "unknown-step",
        "fork_from",
    ),
    ("an unknown list", "steps: {a: {for_each: z.items, flow: {steps: {x: {run: x}}}}}", "unknown-step", "for_each"),
    ("a step after itself", "steps: {a: {run: x, after: [a]}}", "circle", "a -> a"),
    (
        "an output nobody gives",
        "steps: {a: {run: x, outputs: [result]}, b: {run: x, inputs: {i: a.reslt}}}",
        "unknown-output",
        "did you mean result?",
    ),
    (
        "an output of an effect",
        "steps: {a: {executor: agent, prompt: x}, b: {run: x, inputs: {i: a.text}}}",
        "unknown-output",
        "status",
    ),
    (
        "an output in a rule",
        "steps: {a: {run: x, outputs: [score], exits: [{when: outputs.scor > 1, action: advance}]}}",
        "unknown-output",
        "score",
    ),
    (
        "an output of a sub-flow",
        "steps: {a: {flow: {steps: {x: {run: x, outputs: [o]}}}, outputs: [p]}}",
        "unknown-output",
        "it gives o",
    ),
    (
        "an output of for_each",
        "steps: {a: {for_each: $job.l, flow: {steps: {x: {run: x}}}, outputs: [p]}}",
        "unknown-output",
        "results",
    ),
    (
        "no list",
        "steps: {a: {run: x, outputs: {n: {type: number}}}, b: {for_each: a.n, flow: {steps: {x: {run: x}}}}}",
        "no-list",
        "type: list",
    ),
    (
        "a circle",
        "steps: {a: {run: x, inputs: {i: b.o}, outputs: [o]}, b: {run: x, inputs: {i: a.o}, outputs: [o]}}",
        "circle",
        "a -> b -> a",
    ),
    (
        "a circle of after",
        "steps: {a: {run: x, after: [c]}, b: {run: x, after: [a]}, c: {run: x, after: [b]}}",
        "circle",
        "optional",
    ),
    (
        "an optional circle that no rule closes",
        "steps: {a: {run: x, inputs: {i: {from: b.o, optional: true}}, outputs: [o]}, b: {run: x, inputs: {i: a.o}, outputs: [o]}}",
        "unclosed-circle",
        "action: loop, target: a",
    ),
    (
        "a circle closed by a rule but not optional",
        "steps: {a: {run: x, inputs: {i: b.o}, outputs: [o]}, b: {run: x, inputs: {i: a.o}, outputs: [o],"
        " exits: [{when: attempt < 3, action: loop, target: a}]}}",
        "circle",
        "optional",
    ),
    ("an endless loop", "steps: {a: {run: x, exits: [{action: loop, target: a}]}}", "endless-loop", "max_iterations"),
    (
        "an endless loop, spelled out",
        "steps: {a: {run: x, exits: [{when: '1 == 1', action: loop, target: a}]}}",
        "endless-loop",
        "when:",
    ),
    (
        "two writers",
        "steps: {a: {executor: agent, prompt: x, session: s}, b: {executor: llm, prompt: x, session: s}}",
        "session-writers",
        "after: [a]",
    ),
    (
        "two writers with an optional input between them",
        "steps: {a: {executor: agent, prompt: x, session: s, outputs: [o]}, b: {executor: agent, prompt: $i, session: s,"
        " inputs: {i: {from: a.o, optional: true}}}}",
        "session-writers",
        "a and b",
    ),
    (
        "two writers with the same condition",
        "steps: {p: {run: x, outputs: [w]}, a: {executor: llm, prompt: x, session: s, inputs: {w: p.w}, when: w == 1},"
        " b: {executor: llm, prompt: x, session: s, inputs: {w: p.w}, when: w == 1}}",
        "session-writers",
        "",
    ),
    (
        "two writers that test different values",
        "steps: {p: {run: x, outputs: [v, w]}, a: {executor: llm, prompt: x, session: s, inputs: {w: p.w}, when: w == 1},"
        " b: {executor: llm, prompt: x, session: s, inputs: {w: p.v}, when: w == 2}}",
        "session-writers",
        "",
    ),
    (
        "a fork of nothing",
        "steps: {a: {executor: agent, prompt: x}, b: {executor: agent, prompt: x, session: t, fork_from: a}}",
        "bad-fork",
        "session: to a",
    ),
    (
        "a fork without a session",
        "steps: {a: {executor: agent, prompt: x, session: s}, b: {executor: agent, prompt: x, fork_from: a}}",
        "bad-fork",
        "NAME",
    ),
    (
        "a fork into itself",
        "steps: {a: {executor: agent, prompt: x, session: s}, b: {executor: agent, prompt: x, session: s, fork_from: a}}",
        "bad-fork",
        "another",
    ),
    ("a step that never runs", "steps: {a: {run: x, when: 'false'}}", "unreachable", "its when never holds"),
    (
        "a step behind an abandon",
        "steps: {a: {run: x, exits: [{action: abandon}]}, b: {run: x, after: [a]}}",
        "unreachable",
        "never advances",
    ),
    (
        "a presence that cannot fail",
        "steps: {a: {run: x, outputs: [o]}, b: {run: x, inputs: {i: a.o}, when: {input: i, is_present: false}}}",
        "never-runs",
        "optional",
    ),
    (
        "a sub-flow's input",
        "steps: {a: {flow: {inputs: {q: {}}, steps: {x: {run: x, inputs: {q: $job.q}}}}}}",
        "missing-input",
        "add q:",
    ),
    (
        "a sub-flow's implied input",
        "steps: {a: {flow: {steps: {x: {run: x, inputs: {q: $job.q}}}}}}",
        "missing-input",
        "nothing gives it",
    ),
    (
        "an item that is an input",
        "steps: {a: {for_each: $job.l, inputs: {item: $job.l}, flow: {steps: {x: {run: x}}}}}",
        "duplicate-variable",
        "as:",
    ),
    (
        "cache in a conversation",
        "steps: {a: {executor: llm, prompt: x, session: s, cache: true}}",
        "contradiction",
        "remove cache",
    ),
]

ODD = [
    (
        "a loop that an earlier rule can end",
        "steps: {a: {run: x, outputs: [ok], exits: [{when: outputs.ok, action: advance}, {action: loop, target: a}]}}",
        "unbounded-loop",
        "max_iterations",
    ),
    (
        "a category that does not exist",
        "steps: {a: {run: x, exits: [{when: \"error_category in ('timout', 'auth')\", action: advance}]}}",
        "unknown-category",
        "did you mean timeout?",
    ),
    (
        "an undeclared variable",
        "inputs: {topic: {}}\nsteps: {a: {run: x, inputs: {t: $job.topc}}}",
        "undeclared-variable",
        "did you mean topic?",
    ),
    (
        "an unfilled template",
        "steps: {a: {executor: llm, prompt: Hi $nme, inputs: {name: $job.n}}}",
        "unfilled-template",
        "did you mean name?",
    ),
    (
        "an unbounded loop",
        "steps: {a: {run: x, exits: [{when: outputs.x, action: loop, target: a}]}}",
        "unbounded-loop",
        "max_iterations",
    ),
    (
        "a rule nobody reaches",
        "steps: {a: {run: x, exits: [{action: advance}, {when: attempt > 1, action: abandon}]}}",
        "dead-rule",
        "move it up",
    ),
    (
        "a jump",
        "steps: {a: {run: x, exits: [{when: attempt < 3, action: loop, target: b}]}, b: {run: x}}",
        "no-loop",
        "goes to b",
    ),
    (
        "an input a sub-flow does not read",
        "steps: {a: {flow: {inputs: {q: {}}, steps: {x: {run: x}}}, inputs: {q: $job.q, qq: $job.q}}}",
        "unused-input",
        "did you mean q?",
    ),
]


@pytest.mark.parametrize("text", [row[1] for row in GOOD], ids=[row[0] for row in GOOD])
def test_a_good_flow_has_nothing_found(folder: Folder, text: str) -> None:
    assert folder.findings(text) == []


@pytest.mark.parametrize(("text", "code", "says"), [row[1:] for row in BAD], ids=[row[0] for row in BAD])
def test_a_flow_that_cannot_work_is_refused(folder: Folder, text: str, code: str, says: str) -> None:
    errors = [one for one in folder.findings(text) if one.severity == "error"]
    assert [one.code for one in errors] == [code]
    assert says in str(errors[0])
    assert errors[0].fix


@pytest.mark.parametrize(("text", "code", "says"), [row[1:] for row in ODD], ids=[row[0] for row in ODD])
def test_a_flow_that_is_probably_not_meant_so_loads_with_a_warning(
    folder: Folder, text: str, code: str, says: str
) -> None:
    findings = folder.findings(text)
    assert [(one.severity, one.code) for one in findings] == [("warning", code)]
    assert says in str(findings[0])


def test_sources_that_come_round_know_the_head_of_their_innermost_loop(folder: Folder) -> None:
    flow = folder.load("""
        steps:
          outer: {run: x, inputs: {old: {from: check.o, optional: true}}, outputs: [o]}
          inner:
            run: x
            inputs: {o: outer.o, last: {from: try.o, optional: true}, far: {from: check.o, optional: true}}
            outputs: [o]
          try:
            run: x
            inputs: {o: inner.o}
            outputs: [o]
            exits: [{when: outputs.o, action: loop, target: inner, max_iterations: 3}]
          check:
            run: x
            inputs: {o: try.o}
            outputs: [o]
            exits: [{when: outputs.o, action: loop, target: outer, max_iterations: 3}]
        """)
    heads = {
        (step.name, one.name): source.loop
        for step in flow.steps
        for one in step.inputs
        for source in one.sources
        if isinstance(source, StepSource)
    }
    assert heads[("outer", "old")] == "outer"
    assert heads[("inner", "last")] == "inner"
    assert heads[("inner", "far")] == "outer"
    assert heads[("inner", "o")] is None
    assert heads[("check", "o")] is None


def test_the_last_steps_are_those_that_nothing_comes_after(folder: Folder) -> None:
    flow = folder.load("""
        steps:
          a: {run: x, outputs: [o]}
          b: {run: x, inputs: {o: a.o}}
          c: {run: x, inputs: {o: {from: a.o, optional: true}}}
          d: {run: x, after_resolved: [c]}
          e: {run: x, inputs: {o: {from: b.o, optional: true}}}
        """)
    assert [one.name for one in terminals(flow)] == ["d", "e"]


def test_what_reads_upwards_in_the_file_goes_forward_and_what_reads_downwards_comes_round(folder: Folder) -> None:
    flow = folder.load("""
        steps:
          a: {run: x, inputs: {i: {from: b.o, optional: true}}, outputs: [o]}
          b:
            run: x
            inputs: {i: {from: a.o, optional: true}}
            outputs: [o]
            exits: [{when: attempt < 3, action: loop, target: a}]
        """)
    assert [one.inputs[0].sources[0] for one in flow.steps] == [
        StepSource("b", ("o",), loop="a"),
        StepSource("a", ("o",)),
    ]


def test_an_undeclared_variable_of_a_flow_that_declares_none_is_implied(folder: Folder) -> None:
    flow = folder.load("steps: {a: {run: x, inputs: {t: $job.topic, o: {from: $job.other, optional: true}}}}")
    assert [(one.name, one.implied, one.required, one.type) for one in flow.inputs] == [
        ("topic", True, True, "any"),
        ("other", True, False, "any"),
    ]


def test_a_program_that_is_missing_is_a_warning_with_the_way_to_get_it(folder: Folder) -> None:
    flow = folder.load("""
        requires:
          - sh
          - {name: shell, check: "sh --version"}
          - {name: nowhere-to-be-found, install: apt install it}
          - {name: odd, check: "no'where", url: "https://example.org"}
        steps: {a: {flow: {requires: [also-missing], steps: {x: {run: x}}}}}
        """)
    found = check_tools(flow)
    assert [(one.severity, one.code, str(one.at)) for one in found] == [
        ("warning", "missing-tool", "x.flow.yaml:5:5"),
        ("warning", "missing-tool", "x.flow.yaml:6:5"),
        ("warning", "missing-tool", "x.flow.yaml:7:31"),
    ]
    assert [one.fix for one in found] == ["install it: apt install it", "see https://example.org", "install it"]


def test_a_large_flow_is_checked_quickly_enough_to_be_checked_at_all(folder: Folder) -> None:
    """A chain of 300 steps in one session: every pair has an order, and finding that must not take for ever."""
    lines = ["steps:", "  s0: {executor: llm, prompt: x, session: a, outputs: [o]}"]
    lines += [
        f"  s{n}: {{executor: llm, prompt: x, session: a, outputs: [o], inputs: {{o: s{n - 1}.o}}}}"
        for n in range(1, 300)
    ]
    assert folder.findings("\n".join(lines)) == []
