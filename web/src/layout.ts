// Where the steps of a graph go: in rows, each below what it comes after.

import type { Condition, GraphNode } from "./api";

export interface Placed {
  name: string;
  x: number;
  y: number;
}

export interface Edge {
  from: string;
  to: string;
  isBack: boolean;
}

function labels(condition: Condition | null): string[] {
  if (condition === null) return [];
  return condition.type === "source" ? [condition.label] : condition.parts.flatMap(labels);
}

export function arrange(nodes: GraphNode[]): { placed: Placed[]; edges: Edge[]; width: number; height: number } {
  const owner = new Map<string, string>();
  for (const node of nodes) {
    owner.set(node.name, node.name);
    for (const route of node.routes ?? []) owner.set(`→${route}`, node.name);
  }
  const order = new Map(nodes.map((node, index) => [node.name, index]));
  const edges = nodes.flatMap((node) =>
    labels(node.trigger).flatMap((label) => {
      const from = owner.get(label);
      if (from === undefined) return [];
      return [{ from, to: node.name, isBack: (order.get(from) ?? 0) >= (order.get(node.name) ?? 0) }];
    }),
  );
  const row = new Map<string, number>();
  for (const node of nodes) {
    const before = edges.filter((edge) => edge.to === node.name && !edge.isBack).map((edge) => row.get(edge.from) ?? 0);
    row.set(node.name, before.length > 0 ? Math.max(...before) + 1 : 0);
  }
  const counts = new Map<number, number>();
  const placed = nodes.map((node) => {
    const y = row.get(node.name) ?? 0;
    const x = counts.get(y) ?? 0;
    counts.set(y, x + 1);
    return { name: node.name, x, y };
  });
  return { placed, edges, width: Math.max(1, ...counts.values()), height: Math.max(1, ...counts.keys()) + 1 };
}
