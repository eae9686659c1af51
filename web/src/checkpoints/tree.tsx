import { Time } from "../parts";
import { bytes } from "../words";
import { type Branch, type Checkpoint, reasonOf } from "./types";

const ROW = 46;
const LANE = 16;
const LEFT = 14;

// Branches as rails beside a list, the newest checkpoint on top.
export function CheckpointTree(props: { branches: Branch[]; checkpoints: Checkpoint[]; chosen: string; choose: (id: string) => void }) {
  const rows = [...props.checkpoints].sort((a, b) => (a.at < b.at ? 1 : a.at > b.at ? -1 : b.position - a.position));
  const lanes = new Map(props.branches.map((branch, index) => [branch.name, index]));
  const tips = new Map<string, string>();
  for (const one of rows) if (!tips.has(one.branch)) tips.set(one.branch, one.id);
  const current = props.branches.find((branch) => branch.is_current)?.name;
  const shown = Math.min(lanes.size, 8);
  return (
    <div class="tree">
      <Rails rows={rows} lanes={lanes} chosen={props.chosen} width={LEFT + shown * LANE} />
      <ul aria-label="Checkpoints, newest first">
        {rows.map((one) => (
          <li key={one.id}>
            <button type="button" class="bare tree-row" aria-current={one.id === props.chosen} onClick={() => props.choose(one.id)}>
              <span class="tree-what">
                <span class="clip">{reasonOf(one)}</span>
                {tips.get(one.branch) === one.id ? (
                  <span class={`tree-branch lane-${(lanes.get(one.branch) ?? 0) % 6}`}>
                    {one.branch}
                    {one.branch === current && lanes.size > 1 ? " · current" : ""}
                  </span>
                ) : null}
              </span>
              <span class="quiet small clip">
                {one.position} · {bytes(one.size)} · <Time at={one.at} />
              </span>
            </button>
          </li>
        ))}
      </ul>
    </div>
  );
}

function Rails(props: { rows: Checkpoint[]; lanes: Map<string, number>; chosen: string; width: number }) {
  const { rows, lanes } = props;
  const at = new Map(rows.map((one, index) => [one.id, { x: LEFT + Math.min(lanes.get(one.branch) ?? 0, 7) * LANE, y: index * ROW + ROW / 2 }]));
  return (
    <svg class="rails" width={props.width} height={rows.length * ROW} aria-hidden="true">
      {rows.map((one) => {
        const here = at.get(one.id)!;
        const before = at.get(one.parent_id ?? "");
        if (before === undefined) return null;
        const bend = before.y - Math.min(ROW, before.y - here.y);
        const path = here.x === before.x ? `M${here.x} ${here.y}V${before.y}` : `M${here.x} ${here.y}V${bend}C${here.x} ${before.y} ${before.x} ${bend} ${before.x} ${before.y}`;
        return <path key={one.id} class={`lane-${(lanes.get(one.branch) ?? 0) % 6}`} d={path} />;
      })}
      {rows.map((one) => {
        const { x, y } = at.get(one.id)!;
        return <circle key={one.id} class={`lane-${(lanes.get(one.branch) ?? 0) % 6}${one.id === props.chosen ? " is-chosen" : ""}`} cx={x} cy={y} r={one.id === props.chosen ? 6 : 4.5} />;
      })}
    </svg>
  );
}
