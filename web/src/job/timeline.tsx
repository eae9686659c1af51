import { useMemo, useState } from "preact/hooks";
import { useTick } from "../hooks";
import { Empty } from "../parts";
import { type Attempt, type Job, OVER } from "../types";
import { plural, stretch, timeOfDay } from "../words";
import type { JobModel } from "./model";

const ROWS = 200;
const TICKS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400].map((s) => s * 1000);

interface Lane {
  path: string;
  attempts: Attempt[];
}

// Every attempt over time, one lane a step.
export function Timeline(props: { model: JobModel; job: Job; chosen: string; choose: (path: string) => void }) {
  const { model, job } = props;
  const [rows, setRows] = useState(ROWS);
  const isLive = !OVER.includes(job.status);
  const now = useTick(1000, isLive);
  const lanes = useMemo(() => lanesOf(model), [model.version]);
  if (lanes.length === 0) return <Empty title="No step has begun yet" />;
  const begin = Math.min(...lanes.map((lane) => Date.parse(lane.attempts[0]!.started!)));
  const ends = lanes.flatMap((lane) => lane.attempts.map((one) => (one.ended ? Date.parse(one.ended) : 0)));
  const last = job.ended ? Date.parse(job.ended) : Math.max(...ends);
  const end = Math.max(isLive ? now : last, begin + 1);
  const span = (end - begin) * 1.02;
  const at = (moment: number) => `${Math.max(0, Math.min(100, ((moment - begin) / span) * 100)).toFixed(3)}%`;
  const ticks = ticksOf(begin, begin + span);
  return (
    <section class="timeline card" aria-label="Timeline">
      <div class="lane axis" aria-hidden="true">
        <span class="small quiet">{plural(lanes.length, "step")}</span>
        <svg class="grid" width="100%" height="100%">
          {ticks.map((tick) => (
            <line key={tick} class="tick" x1={at(tick)} x2={at(tick)} y1="24" y2="100%" />
          ))}
          {isLive ? <line class="now" x1={at(now)} x2={at(now)} y1="24" y2="100%" /> : null}
          {ticks.map((tick, index) => (
            <text key={tick} x={at(tick)} y="15" class={index === 0 ? "" : "middle"}>
              {stretch(tick - begin)}
            </text>
          ))}
        </svg>
      </div>
      {lanes.slice(0, rows).map((lane) => (
        <div key={lane.path} class={`lane ${props.chosen === lane.path ? "is-chosen" : ""}`}>
          <button
            type="button"
            class="bare lane-name"
            title={lane.path}
            aria-label={lane.path}
            onClick={() => props.choose(lane.path)}
          >
            <span class={`depth-${Math.min(4, lane.path.split("/").length - 1)}`}>{nameOf(lane.path)}</span>
          </button>
          <svg width="100%" height="24" role="img" aria-label={saidOf(lane, now)}>
            {lane.attempts.map((one) => {
              const from = Date.parse(one.started!);
              const to = one.ended ? Date.parse(one.ended) : isLive ? now : last;
              return (
                <rect
                  key={`${one.attempt}.${one.tries}`}
                  class={`bar is-${one.status}`}
                  x={at(from)}
                  width={`${Math.max(0.25, ((to - from) / span) * 100).toFixed(3)}%`}
                  y="5"
                  height="14"
                  rx="3"
                >
                  <title>{`${lane.path}, attempt ${one.attempt}: ${one.status}, ${stretch(to - from)} from ${timeOfDay(one.started!)}${one.error ? `\n${one.error}` : ""}`}</title>
                </rect>
              );
            })}
          </svg>
        </div>
      ))}
      {lanes.length > rows ? (
        <button type="button" onClick={() => setRows(rows + 5 * ROWS)}>
          {lanes.length - rows} more
        </button>
      ) : null}
    </section>
  );
}

function lanesOf(model: JobModel): Lane[] {
  const lanes = new Map<string, Attempt[]>();
  for (const one of model.attempts.values()) {
    if (one.started === null) continue;
    const lane = lanes.get(one.path);
    lane ? lane.push(one) : lanes.set(one.path, [one]);
  }
  const found = [...lanes].map(([path, attempts]) => ({
    path,
    attempts: attempts.sort((a, b) => (a.started! < b.started! ? -1 : 1)),
  }));
  return grouped(found);
}

// By their beginning, but what is inside a step right below it.
function grouped(lanes: Lane[]): Lane[] {
  const began = new Map<string, string>();
  const prefixes = (path: string) => path.split("/").map((_, index, parts) => parts.slice(0, index + 1).join("/"));
  for (const lane of lanes) {
    for (const around of prefixes(lane.path)) {
      const at = lane.attempts[0]!.started!;
      if (at < (began.get(around) ?? "~")) began.set(around, at);
    }
  }
  const keys = new Map(
    lanes.map((lane) => [lane, prefixes(lane.path).map((around) => `${began.get(around)} ${around}`)]),
  );
  return lanes.sort((a, b) => {
    const [x, y] = [keys.get(a)!, keys.get(b)!];
    const differ = x.findIndex((one, index) => one !== y[index]);
    return differ < 0 ? x.length - y.length : (x[differ] ?? "") < (y[differ] ?? "") ? -1 : 1;
  });
}

function nameOf(path: string): string {
  return path
    .split("/")
    .slice(-2)
    .filter((part, index, parts) => index === parts.length - 1 || /^\d+$/.test(part))
    .join(" / ");
}

function ticksOf(begin: number, end: number): number[] {
  const step =
    TICKS.find((one) => (end - begin) / one <= (innerWidth < 760 ? 3 : 8)) ??
    86_400_000 * Math.ceil((end - begin) / 86_400_000 / 8);
  const small = end - begin < 2000 ? Math.max(1, Math.round((end - begin) / (innerWidth < 760 ? 3 : 5))) : step;
  const ticks: number[] = [];
  for (let tick = begin; tick < end - small / 3; tick += small) ticks.push(tick);
  return ticks;
}

function saidOf(lane: Lane, now: number): string {
  const said = lane.attempts.map(
    (one) => `${one.status}, ${stretch((one.ended ? Date.parse(one.ended) : now) - Date.parse(one.started!))}`,
  );
  return `${lane.path}: ${said.join("; ")}`;
}
