import type { GraphNode, Step } from "./api";
import { arrange } from "./layout";

const W = 180;
const H = 44;
const GAP_X = 40;
const GAP_Y = 40;

export function Graph(props: { nodes: GraphNode[]; steps: Step[]; chosen: string; choose: (step: string) => void }) {
  const { placed, edges, width, height } = arrange(props.nodes);
  const at = new Map(placed.map((node) => [node.name, { x: node.x * (W + GAP_X) + 20, y: node.y * (H + GAP_Y) + 20 }]));
  const status = new Map(props.steps.map((step) => [step.path, step.status]));
  return (
    <svg
      class="graph"
      width={width * (W + GAP_X) + 20}
      height={height * (H + GAP_Y) + 20}
      role="group"
      aria-label="steps of the flow"
    >
      {edges.map((edge) => {
        const a = at.get(edge.from);
        const b = at.get(edge.to);
        if (a === undefined || b === undefined) return null;
        const path = edge.isBack
          ? `M${a.x + W} ${a.y + H / 2} C${a.x + W + 30} ${a.y} ${b.x + W + 30} ${b.y + H} ${b.x + W} ${b.y + H / 2}`
          : `M${a.x + W / 2} ${a.y + H} C${a.x + W / 2} ${a.y + H + 20} ${b.x + W / 2} ${b.y - 20} ${b.x + W / 2} ${b.y}`;
        return <path key={`${edge.from} ${edge.to}`} class={edge.isBack ? "edge back" : "edge"} d={path} />;
      })}
      {placed.map((node) => {
        const place = at.get(node.name)!;
        const now = status.get(node.name) ?? "pending";
        return (
          <g
            key={node.name}
            class={`node ${now}${props.chosen === node.name ? " chosen" : ""}`}
            transform={`translate(${place.x} ${place.y})`}
            tabIndex={0}
            role="button"
            aria-label={`${node.name}: ${now}`}
            onClick={() => props.choose(node.name)}
            onKeyDown={(event) => (event.key === "Enter" || event.key === " ") && props.choose(node.name)}
          >
            <rect width={W} height={H} rx={6} />
            <text x={W / 2} y={18}>
              {node.name.length > 22 ? `${node.name.slice(0, 21)}…` : node.name}
            </text>
            <text x={W / 2} y={34} class="status">
              {now}
            </text>
          </g>
        );
      })}
    </svg>
  );
}
