// Ways back in a flow: the lines that rules draw to earlier steps, and the frames round what is repeated.

import type { DrawnFlow } from "../types";
import type { Box } from "./scene";
import type { GraphState } from "./state";

export const AROUND = 10; // a loop's frame keeps so far from what it holds

export interface Loop {
  key: string;
  d: string;
  label: string;
  x: number;
  y: number;
  isTaken: boolean;
  frame: { x: number; y: number; w: number; h: number } | undefined;
}

// Ways back: a bent line on the right from the step with the rule to its target, and a frame round what is repeated.
export function loopsOf(flow: DrawnFlow, prefix: string, boxes: Box[], state: GraphState): Loop[] {
  const at = new Map(boxes.map((box) => [box.path, box]));
  const found: Loop[] = [];
  for (const step of flow.nodes) {
    for (const rule of step.rules) {
      const from = at.get(prefix + step.name);
      const to = rule.action === "loop" && rule.target !== null ? at.get(prefix + rule.target) : undefined;
      if (from === undefined || to === undefined) continue;
      const taken = state.taken(from.path, rule.name);
      const members = membersOf(flow, rule.target!, step.name).map((name) => at.get(prefix + name)!);
      const right = Math.max(...members.map((box) => box.x + box.w)) + 26 + 10 * found.length;
      const a = { x: from.x + from.w, y: from.y + from.h / 2 };
      const b = { x: to.x + to.w, y: to.y + to.h / 2 };
      const d =
        from === to
          ? `M${a.x} ${a.y + 12} C${a.x + 34} ${a.y + 22} ${a.x + 34} ${a.y - 22} ${a.x} ${a.y - 12}`
          : `M${a.x} ${a.y} C${right + 10} ${a.y} ${right} ${a.y - 10} ${right} ${(a.y + b.y) / 2} C${right} ${b.y + 10} ${right + 10} ${b.y} ${b.x} ${b.y}`;
      const bound = rule.max_iterations === null ? "" : ` of ${rule.max_iterations}`;
      const label = `${rule.name} ${taken}${bound}`;
      found.push({
        key: `${from.path} ${rule.name}`,
        d,
        label,
        x: from === to ? a.x + 24 : right,
        y: (a.y + b.y) / 2,
        isTaken: taken > 0,
        frame: from === to ? undefined : frameOf(members, boxes),
      });
    }
  }
  return found;
}

// The steps that a loop repeats: after its target, and before the step that turns back.
function membersOf(flow: DrawnFlow, target: string, last: string): string[] {
  const before = new Map(flow.nodes.map((step) => [step.name, [...step.after, ...step.may_follow]]));
  const reach = (name: string, seen: Set<string>): Set<string> => {
    if (seen.has(name)) return seen;
    seen.add(name);
    for (const one of before.get(name) ?? []) reach(one, seen);
    return seen;
  };
  const ahead = [...reach(last, new Set())].filter((name) => before.has(name) && reach(name, new Set()).has(target));
  return [...new Set([target, ...ahead, last])];
}

function frameOf(members: Box[], boxes: Box[]): Loop["frame"] {
  const x = Math.min(...members.map((box) => box.x)) - AROUND;
  const y = Math.min(...members.map((box) => box.y)) - AROUND;
  const w = Math.max(...members.map((box) => box.x + box.w)) + AROUND - x;
  const h = Math.max(...members.map((box) => box.y + box.h)) + AROUND - y;
  const isClean = boxes.every(
    (box) => members.includes(box) || box.x > x + w || box.x + box.w < x || box.y > y + h || box.y + box.h < y,
  );
  return isClean ? { x, y, w, h } : undefined; // a frame round others would say something false
}
