"""Pictures of graphs: what they show, that any text is safe in them, and that nothing in them overlaps."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from itertools import combinations, pairwise
from typing import TypeAlias
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.graph.test_properties import graphs

from holdfast.graph import (
    AllOf,
    AnyOf,
    Graph,
    Node,
    Source,
    labels_of,
    route_label,
    to_html,
    to_mermaid,
    to_svg,
)

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = [
    "<script>alert(1)</script>",
    "\"'`",
    "]]>",
    '"] --> n9["',
    "end",
    "a|b{c}(d)[e]",
    "&amp; #35; %%{init}%%",
    "1. list",
    "_emphasis_",
    "naïve 数据 🦀 e\u0301",
    "line\nbreak\x00\x1b\ud800\uffff",
    "",
]
Rectangle: TypeAlias = tuple[float, float, float, float]

REVIEW = Graph(
    "Review",
    (
        Node("draft", is_start=True),
        Node("check", AnyOf((Source("draft"), Source(route_label("again")))), is_router=True, routes=("good", "again")),
        Node("publish", Source(route_label("good"))),
        Node("tell", AllOf((Source("draft"), AnyOf((Source("publish"), Source(route_label("good"))))))),
    ),
)


def around(node: ElementTree.Element) -> Rectangle:
    if (rect := node.find(f"{SVG}rect")) is not None:
        x, y, width, height = (float(rect.attrib[name]) for name in ("x", "y", "width", "height"))
        return x, y, x + width, y + height
    polygon = node.find(f"{SVG}polygon")
    assert polygon is not None
    xs, ys = zip(*(map(float, point.split(",")) for point in polygon.attrib["points"].split()), strict=True)
    return min(xs), min(ys), max(xs), max(ys)


def rectangles(svg: str) -> list[Rectangle]:
    """Of every node and label in a picture; a label's from its text, as wide as the layout believes."""
    root = ElementTree.fromstring(svg)
    found = []
    for group in root.iter(f"{SVG}g"):
        if "label" in group.attrib["class"]:
            text = group.find(f"{SVG}text")
            assert text is not None
            x, y, half = float(text.attrib["x"]), float(text.attrib["y"]), 4.0 * len(text.text or "")
            found.append((x - half, y - 7, x + half, y + 7))
        else:
            found.append(around(group))
    return found


def overlap(a: Rectangle, b: Rectangle) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def points_of(path: str) -> Iterator[tuple[float, float]]:
    """Points along a path of absolute commands; each curve is sampled."""
    x = y = 0.0
    for command, rest in re.findall(r"([MLHVCQ])([^MLHVCQ]*)", path):
        numbers = [float(number) for number in rest.split()]
        if command in "HV":
            numbers = [numbers[0], y] if command == "H" else [x, numbers[0]]
        if command != "M":
            bones = [(x, y), *zip(numbers[::2], numbers[1::2], strict=True)]
            for step in range(21):
                joints = bones
                while len(joints) > 1:
                    joints = [
                        (a[0] + (b[0] - a[0]) * step / 20, a[1] + (b[1] - a[1]) * step / 20)
                        for a, b in pairwise(joints)
                    ]
                yield joints[0]
        x, y = numbers[-2:]


def inside(node: ElementTree.Element, x: float, y: float) -> bool:
    """Whether a point is in a node, and not just at its outline."""
    left, top, right, bottom = around(node)
    cut = 0.0
    if node.find(f"{SVG}polygon") is not None:
        cut = 20 * abs(y - (top + bottom) / 2) / ((bottom - top) / 2)
    return left + cut + 1 < x < right - cut - 1 and top + 1 < y < bottom - 1


def nodes_of(svg: str) -> list[ElementTree.Element]:
    return [group for group in ElementTree.fromstring(svg).iter(f"{SVG}g") if "node" in group.attrib["class"]]


def lines_of(svg: str) -> list[list[tuple[float, float]]]:
    found = ElementTree.fromstring(svg).iter(f"{SVG}path")
    return [list(points_of(path.attrib["d"])) for path in found if "class" in path.attrib]


def assert_no_line_crosses_a_node(svg: str) -> None:
    nodes = nodes_of(svg)
    for x, y in (point for line in lines_of(svg) for point in line):
        assert not any(inside(node, x, y) for node in nodes), (x, y)


def assert_every_arrow_points_at_a_node(svg: str) -> None:
    """The last stretch is as long as some of the head, and a step further on is a node."""
    for line in lines_of(svg):
        (x, y), tip = next(point for point in reversed(line) if point != line[-1]), line[-1]
        across, down = tip[0] - x, tip[1] - y
        assert (across < 0) is (down == 0), line
        assert across == 0 or down == 0
        assert down >= 0
        ahead = (tip[0] - 8 if across else tip[0], tip[1] if across else tip[1] + 8)
        assert any(inside(node, *ahead) for node in nodes_of(svg)), tip
        assert any(abs(px - tip[0]) + abs(py - tip[1]) >= 4 and (px == tip[0] or py == tip[1]) for px, py in line)


def assert_nothing_overlaps(svg: str) -> None:
    found = rectangles(svg)
    root = ElementTree.fromstring(svg)
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    assert all(x >= 0 and y >= 0 and right <= width and bottom <= height for x, y, right, bottom in found)
    assert [pair for pair in combinations(found, 2) if overlap(*pair)] == []


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(svg).iter() if element.tag != f"{SVG}style"]


def mermaid_texts(text: str) -> list[str]:
    """Every quoted text of a flowchart, decoded as Mermaid does."""
    return [unescape(re.sub(r"#(\d+);", r"&#\1;", found)) for found in re.findall(r'"([^"]*)"', text)]


def test_a_small_graph_as_mermaid() -> None:
    assert to_mermaid(REVIEW) == (
        "flowchart TD\n"
        '    n0(["draft"]):::start\n'
        '    n1{"check"}\n'
        '    n2["publish"]\n'
        '    n3["tell"]\n'
        '    m0(("and"))\n'
        "    n0 --> n1\n"
        '    n1 -->|"again"| n1\n'
        '    n1 -->|"good"| n2\n'
        "    m0 --> n3\n"
        "    n0 --> m0\n"
        '    n2 -->|"or"| m0\n'
        '    n1 -->|"or#58; good"| m0\n'
        "    classDef start stroke-width:3px\n"
    )


def test_routes_that_nobody_declares_are_dotted_from_every_router_that_declares_none() -> None:
    vague = [Node(name, is_start=True, is_router=True) for name in ("a", "b")]
    clear = Node("c", is_start=True, is_router=True, routes=("other",))
    text = to_mermaid(Graph("Guess", (*vague, clear, Node("d", Source(route_label("x"))))))
    assert 'n0 -.->|"x"| n3' in text
    assert 'n1 -.->|"x"| n3' in text
    assert "n2 -.->" not in text


def test_a_declared_route_comes_from_its_routers_alone() -> None:
    routers = (Node("a", is_start=True, is_router=True, routes=("x",)), Node("b", is_start=True, is_router=True))
    text = to_mermaid(Graph("Known", (*routers, Node("c", Source(route_label("x"))))))
    assert 'n0 -->|"x"| n2' in text
    assert "n1 -" not in text


def test_a_route_that_nothing_listens_to_leads_to_an_end_and_one_from_nowhere_is_marked() -> None:
    router = Node("a", is_start=True, is_router=True, routes=("stop",))
    text = to_mermaid(Graph("Ends", (router, Node("b", Source(route_label("lost"))))))
    assert 'm0(("#63;"))' in text
    assert 'm0 -.->|"lost"| n1' in text
    assert 'm1(("end"))' in text
    assert 'n0 -->|"stop"| m1' in text


def test_two_choices_at_one_join_are_told_apart() -> None:
    starts = tuple(Node(name, is_start=True) for name in "abcd")
    choices = AllOf((AnyOf((Source("a"), Source("b"))), AllOf((AnyOf((Source("c"), Source("d"))),))))
    text = to_mermaid(Graph("Joins", (*starts, Node("e", choices))))
    assert re.findall(r'(n\d) -->\|"(or \d)"\| m0', text) == [
        ("n0", "or 1"),
        ("n1", "or 1"),
        ("n2", "or 2"),
        ("n3", "or 2"),
    ]


@settings(max_examples=100, deadline=None)
@given(graphs())
def test_every_step_and_route_is_in_every_picture_and_nothing_overlaps(graph: Graph) -> None:
    svg = to_svg(graph)
    labels = {label for node in graph.nodes for label in labels_of(node.trigger)}
    routes = {label for label in labels if label.startswith(route_label(""))}
    names = set(graph.by_name) | {label.removeprefix(route_label("")) for label in routes}
    names |= {route for node in graph.nodes for route in node.routes}
    shown = " ".join(texts(svg))
    assert all(name in shown for name in names)
    assert all(f'{name}"' in to_mermaid(graph) for name in names)
    assert_nothing_overlaps(svg)
    assert_no_line_crosses_a_node(svg)
    assert_every_arrow_points_at_a_node(svg)


@pytest.mark.parametrize("text", HOSTILE)
def test_any_name_and_route_is_safe(text: str) -> None:
    router = Node(text, is_start=True, is_router=True, routes=(text,))
    graph = Graph(text, (router, Node("next", Source(route_label(text)))))
    safe = "".join("�" if c in "\n\x00\x1b\ud800\uffff" else c for c in text)
    svg, page, mermaid = to_svg(graph), to_html(graph), to_mermaid(graph)
    root = ElementTree.fromstring(svg)
    assert root.findtext(f"{SVG}title") == safe
    assert safe in texts(svg)
    assert "<script" not in page
    assert page.encode()
    assert len(mermaid.splitlines()) == mermaid.count("\n") == 5
    assert safe.strip() in [found.strip() for found in mermaid_texts(mermaid)]
    assert re.fullmatch(r'[\w #;"\-]*', re.findall(r"n0\{(.*)\}:::start\n", mermaid)[0])


@given(st.text(max_size=80), st.text(max_size=80))
def test_any_text_at_all_gives_well_formed_pictures(name: str, route: str) -> None:
    graph = Graph(name, (Node(name, is_start=True, is_router=True, routes=(route,)),))
    ElementTree.fromstring(to_svg(graph))
    assert len(to_mermaid(graph).splitlines()) == 5
    assert_nothing_overlaps(to_svg(graph))


def test_a_long_name_is_cut_short_and_whole_in_its_tooltip() -> None:
    shown = texts(to_svg(Graph("Long", (Node("x" * 500, is_start=True),))))
    assert "x" * 47 + "…" in shown
    assert "x" * 500 in shown


def test_the_same_graph_gives_the_same_picture() -> None:
    again = Graph(REVIEW.name, tuple(REVIEW.nodes), REVIEW.max_calls)
    assert [draw(REVIEW) for draw in (to_svg, to_html, to_mermaid)] == [
        draw(again) for draw in (to_svg, to_html, to_mermaid)
    ]


def test_one_step_alone_is_a_picture() -> None:
    svg = to_svg(Graph("One", (Node("only", is_start=True),)))
    assert len(rectangles(svg)) == 1
    assert_nothing_overlaps(svg)


def test_no_step_at_all_is_a_picture_too() -> None:
    assert rectangles(to_svg(Graph("None", ()))) == []


@pytest.mark.parametrize("width", [1, 3, 60])
def test_sixty_steps_do_not_overlap(width: int) -> None:
    starts = [Node(f"step_{n}", is_start=True) for n in range(width)]
    steps = [Node(f"step_{n}", Source(f"step_{n - width}")) for n in range(width, 60)]
    svg = to_svg(Graph("Sixty", (*starts, *steps)))
    assert len(rectangles(svg)) == 60
    assert_nothing_overlaps(svg)


def test_a_very_long_chain_needs_no_deep_stack() -> None:
    steps = [Node("s0", is_start=True), *(Node(f"s{n}", Source(f"s{n - 1}")) for n in range(1, 2000))]
    assert to_svg(Graph("Deep", tuple(steps))).count('class="node') == 2000


def test_steps_below_one_another_and_loops_round_the_side() -> None:
    start = Node("a", is_start=True)
    first = Node("b", AnyOf((Source("a"), Source(route_label("again")))))
    last = Node("c", Source("b"), is_router=True, routes=("again",))
    svg = to_svg(Graph("Loop", (start, first, last)))
    a, b, c, label = (rectangles(svg)[index] for index in (1, 2, 3, 0))
    assert a[3] < b[1] < b[3] < c[1]
    assert label[0] > max(a[2], b[2], c[2])
    assert b[3] < label[1] < label[3] < c[1] or b[1] < label[1] < c[3]
    assert_nothing_overlaps(svg)


def test_steps_that_nothing_reaches_are_shown_even_when_they_wait_for_each_other() -> None:
    lost = (Node("x", Source("y")), Node("y", Source("x")), Node("z", Source("z")))
    svg = to_svg(Graph("Lost", (Node("a", is_start=True), *lost)))
    assert {"a", "x", "y", "z"} <= set(texts(svg))
    assert_nothing_overlaps(svg)


def test_a_picture_loads_and_runs_nothing() -> None:
    page = to_html(REVIEW)
    assert "<title>Review</title>" in page
    assert to_svg(REVIEW) in page
    assert re.findall(r"<script|@import|href|src=|https?://(?!www\.w3\.org/2000/svg)", page) == []
    assert "prefers-color-scheme: dark" in to_svg(REVIEW)


def test_an_arrow_points_down_at_what_it_leads_to() -> None:
    # The last stretch once had no length, so that browsers drew every head sideways.
    svg = to_svg(Graph("Two", (Node("a", is_start=True), Node("b", Source("a")))))
    [line] = lines_of(svg)
    assert line[-1][1] == around(nodes_of(svg)[1])[1]
    assert_every_arrow_points_at_a_node(svg)


def test_a_line_bends_once_between_layers_that_have_no_labels() -> None:
    fan = [Node(name, Source("begin")) for name in ("a", "b", "a_much_longer_name")]
    svg = to_svg(Graph("Fan", (Node("begin", is_start=True), *fan)))
    assert [re.sub(r"[^A-Z]", "", path) for path in re.findall(r'arrow\)" d="([^"]*)"', svg)] == ["MCV"] * 3
    assert [len({x for x, _ in line}) == 1 for line in lines_of(svg)] == [False, True, False]


def loop_beside(*steps: Node) -> str:
    again = Node("again", AnyOf((Source("a"), Source(route_label("back")))))
    back = Node("judge", Source("again"), is_router=True, routes=("back",))
    return to_svg(Graph("Loop", (Node("a", is_start=True), again, back, *steps)))


def test_a_loop_leaves_and_enters_at_the_side_where_nothing_is_in_the_way() -> None:
    svg = loop_beside()
    again, judge = around(nodes_of(svg)[1]), around(nodes_of(svg)[2])
    [loop] = [line for line in lines_of(svg) if line[0][1] > line[-1][1]]
    assert judge[1] < loop[0][1] < judge[3]
    assert again[1] < loop[-1][1] < again[3]
    assert loop[-1][0] == again[2]


def test_a_loop_leaves_below_and_enters_above_where_something_is_at_the_side() -> None:
    svg = loop_beside(Node("beside", Source("a")), Node("below", Source("beside")))
    again, judge = around(nodes_of(svg)[1]), around(nodes_of(svg)[2])
    [loop] = [line for line in lines_of(svg) if max(y for _, y in line) > judge[3] and line[-1][1] < judge[1]]
    assert loop[0] == ((judge[0] + judge[2]) / 2, judge[3])
    assert loop[-1] == ((again[0] + again[2]) / 2, again[1])
    assert_no_line_crosses_a_node(svg)
    assert_every_arrow_points_at_a_node(svg)


def test_a_loop_stays_beside_what_it_passes_however_wide_the_picture_is_elsewhere() -> None:
    wide = [Node(f"wide_{n}", Source("judge")) for n in range(9)]
    svg = loop_beside(*wide)
    [loop] = [line for line in lines_of(svg) if line[0][1] > line[-1][1]]
    assert max(x for x, _ in loop) == around(nodes_of(svg)[2])[2] + 28


def test_a_page_shrinks_to_a_narrow_screen_as_far_as_it_can_be_read() -> None:
    page = to_html(REVIEW)
    width = float(ElementTree.fromstring(to_svg(REVIEW)).attrib["width"])
    assert f"max-width: 100%; min-width: {round(width * 0.6)}px; height: auto" in page
