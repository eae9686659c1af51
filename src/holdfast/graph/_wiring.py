"""What steps that data drives take from one another, and what follows from that alone: order, loops and their frames."""

from __future__ import annotations

from functools import cached_property

from msgspec import Struct


class Origin(Struct, frozen=True):
    """A step whose result may satisfy a need."""

    step: str
    loop: str = ""
    """set when it comes back round a loop: the step at that loop's head. Such a result is the latest of the loop's frame, never
    awaited, and makes nothing run again by itself"""
    path: str = ""
    """set when another origin stands in if this is not in the result: what is looked for there"""


class Need(Struct, frozen=True, dict=True):
    """Something a step needs before it can run: the result of one of these steps, the first that has it."""

    origins: tuple[Origin, ...]
    optional: bool = False
    """it runs without, once none of them can give one any more"""
    resolved: bool = False
    """a step that was skipped, or failed without failing the job, is as good as one with a result"""

    @cached_property
    def ahead(self) -> tuple[str, ...]:
        """The steps that must come to an end first: those that no loop brings back."""
        return tuple(origin.step for origin in self.origins if not origin.loop)


class Wiring(Struct, frozen=True):
    """How a step hangs together with the others."""

    step: str
    needs: tuple[Need, ...] = ()
    guarded: bool = False
    """whether a condition over its inputs must hold besides"""
    once: bool = False
    """whether it must not run again when nobody knows how far it came: a person decides"""
    nested: bool = False
    """whether it is made of steps of its own: a failed run that is taken up again goes on inside it"""
    loops: tuple[tuple[str, str], ...] = ()
    """its rules that go back to a step: the rule's name and that step"""


class Shape:
    """What the wiring of a graph amounts to. Computed once, and only as far as it is asked for."""

    def __init__(self, wirings: tuple[Wiring, ...]) -> None:
        self.wired = {wiring.step: wiring for wiring in wirings}
        self.backward = {
            wiring.step: tuple({o.step: bool(o.loop) for o in need.origins} for need in wiring.needs)
            for wiring in wirings
        }
        """for each step and need, which of its origins a loop brings back"""
        self._below: dict[str, frozenset[str]] = {}

    @cached_property
    def looked_for(self) -> dict[str, tuple[str, ...]]:
        """For each step, what must be in its result lest another step's is taken instead."""
        found: dict[str, dict[str, None]] = {}
        for wiring in self.wired.values():
            for origin in (origin for need in wiring.needs for origin in need.origins if origin.path):
                found.setdefault(origin.step, {})[origin.path] = None
        return {step: tuple(paths) for step, paths in found.items()}

    @cached_property
    def takers(self) -> dict[str, tuple[str, ...]]:
        """The steps that wait for each step."""
        found: dict[str, dict[str, None]] = {name: {} for name in self.wired}
        for wiring in self.wired.values():
            for need in wiring.needs:
                for step in need.ahead:
                    found.setdefault(step, {})[wiring.step] = None
        return {name: tuple(takers) for name, takers in found.items()}

    @cached_property
    def order(self) -> tuple[str, ...]:
        """Every step after those it waits for."""
        left = {name: {s for need in w.needs for s in need.ahead if s in self.wired} for name, w in self.wired.items()}
        ready, order = [name for name, ahead in left.items() if not ahead], []
        while ready:
            order.append(name := ready.pop(0))
            for taker in self.takers[name]:
                left[taker].discard(name)
                if not left[taker]:
                    ready.append(taker)
        return (*order, *(name for name in self.wired if name not in set(order)))  # the loader refuses circles

    @cached_property
    def terminals(self) -> tuple[str, ...]:
        """Steps that nothing waits for: their results are the job's."""
        return tuple(name for name in self.wired if not self.takers[name])

    def below(self, step: str) -> frozenset[str]:
        """Every step that runs after this one because of it. Remembered."""
        if step not in self._below:
            found: set[str] = set()
            ahead = list(self.takers.get(step, ()))
            while ahead:
                if (name := ahead.pop()) not in found:
                    found.add(name)
                    ahead += self.takers[name]
            self._below[step] = frozenset(found - {step})
        return self._below[step]

    @cached_property
    def rules(self) -> tuple[tuple[str, str, str], ...]:
        """Every rule that goes back: its step, its name, and where to."""
        return tuple((name, rule, target) for name, w in self.wired.items() for rule, target in w.loops)

    @cached_property
    def head_of(self) -> dict[str, str]:
        """The head of the innermost loop that each step is in; no entry for one that is in none."""
        bodies: dict[str, set[str]] = {}
        for step, _, target in self.rules:
            between = {name for name in self.below(target) if step == name or step in self.below(name)}
            bodies.setdefault(target, {target}).update(between)
        found: dict[str, str] = {}
        for head, body in sorted(bodies.items(), key=lambda item: -len(item[1])):
            found.update(dict.fromkeys(body, head))
        return found

    def inner_heads(self, target: str) -> frozenset[str]:
        """The heads of loops that begin anew when a rule goes back to a step."""
        return frozenset(head for _, _, head in self.rules if head in self.below(target))

    def inner_rules(self, step: str, target: str) -> frozenset[str]:
        """The rules whose rounds are counted anew when a step's rule goes back to another."""
        below = self.below(target)
        return frozenset(
            rule_key(other, rule)
            for other, rule, head in self.rules
            if head in below or (head == target and step in self.below(other))
        )


def rule_key(step: str, rule: str) -> str:
    """Under which name the rounds of a rule are counted."""
    return f"{step}/{rule}"
