from __future__ import annotations
from tests.jobs.support import *

async def test_first(bench):
    f = flow(step("a", python("one")), step("b", python("add"), given("n","a.n")), step("c", script('echo hello >&2; echo "{\\"m\\": $n}"'), given("n","b.n")))
    c = Control()
    print(await bench.run(f, control=c))
    print(c.lines)
    assert await bench.outputs(f) == {"m": 2}
