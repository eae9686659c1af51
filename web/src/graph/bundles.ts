// Many steps side by side that come after the same and lead to the same are put into a block, not into one endless row.

import type { DrawnFlow, DrawnStep } from "../types";

export interface Bundle {
  id: string;
  members: DrawnStep[];
}

const MANY = 6;

export function bundlesOf(flow: DrawnFlow, isAlone: (step: DrawnStep) => boolean): Bundle[] {
  const followers = new Map<string, string[]>();
  for (const step of flow.nodes) {
    for (const before of [...step.after, ...step.may_follow])
      followers.set(before, [...(followers.get(before) ?? []), step.name]);
  }
  const targets = new Set(flow.nodes.flatMap((step) => step.rules.map((rule) => rule.target)));
  const groups = new Map<string, DrawnStep[]>();
  for (const step of flow.nodes) {
    if (isAlone(step) || targets.has(step.name) || step.rules.some((rule) => rule.action === "loop")) continue;
    const key = JSON.stringify([[...step.after].sort(), [...step.may_follow].sort(), followers.get(step.name) ?? []]);
    groups.set(key, [...(groups.get(key) ?? []), step]);
  }
  return [...groups.values()]
    .filter((members) => members.length > MANY)
    .map((members) => ({ id: `${members[0]!.name} and others`, members }));
}

export interface Placed {
  w: number;
  h: number;
  at: Map<string, { x: number; y: number; w: number }>;
}

// A block of boxes: somewhat wider than high, columns as wide as their widest.
export function placed(members: DrawnStep[], widthOf: (name: string) => number, height: number, gap: number): Placed {
  const columns = Math.ceil(Math.sqrt(members.length));
  const widths = Array.from({ length: columns }, (_, column) =>
    Math.max(...members.filter((_, index) => index % columns === column).map((step) => widthOf(step.name))),
  );
  const left = widths.map((_, column) => widths.slice(0, column).reduce((sum, w) => sum + w + gap, gap));
  const at = new Map(
    members.map((step, index) => [
      step.name,
      { x: left[index % columns]!, y: gap + Math.floor(index / columns) * (height + gap), w: widths[index % columns]! },
    ]),
  );
  const rows = Math.ceil(members.length / columns);
  return { w: left[columns - 1]! + widths[columns - 1]! + gap, h: rows * (height + gap) + gap, at };
}
