import { type Column, Empty, Problem, Table, Time } from "../parts";
import { usePolled } from "../polling";
import { link } from "../router";
import { bytes } from "../words";
import { type Checkpoint, reasonOf } from "./types";

interface Entry {
  run: string;
  name: string;
  count: number;
  size: number;
  last: Checkpoint;
}

const MANY = 300;

// The runs that have checkpoints, the last written first.
export function CheckpointRuns() {
  const { data, problem, reload } = usePolled<Checkpoint[]>(`checkpoints?limit=${MANY}`, 10_000);
  const entries = byRun(data ?? []);
  const columns: Column<Entry>[] = [
    { head: "Run", class: "roomy", cell: (one) => <a href={link("checkpoints", { run: one.run })}>{one.name || one.run}</a> },
    { head: "Id", class: "fit", cell: (one) => <code title={one.run}>…{one.run.slice(-8)}</code> },
    { head: "Checkpoints", class: "number", cell: (one) => one.count },
    { head: "Size", class: "number", cell: (one) => bytes(one.size) },
    { head: "Last one", class: "roomy", cell: (one) => reasonOf(one.last) },
    { head: "Written", class: "fit", cell: (one) => <Time at={one.last.at} /> },
  ];
  return (
    <>
      <Problem error={problem} retry={reload} />
      {data === undefined ? null : entries.length > 0 ? (
        <>
          <Table label="Runs with checkpoints" columns={columns} rows={entries} keyOf={(one) => one.run} />
          {data.length === MANY ? <p class="quiet">Made from the newest {MANY} checkpoints.</p> : null}
        </>
      ) : (
        <Empty title="No checkpoints yet">
          <p>A job writes one after each step; a flow, crew or agent in Python with a CheckpointConfig does, too.</p>
        </Empty>
      )}
    </>
  );
}

function byRun(found: Checkpoint[]): Entry[] {
  const runs = new Map<string, Entry>();
  for (const one of found) {
    const entry = runs.get(one.run_id);
    if (entry === undefined) runs.set(one.run_id, { run: one.run_id, name: one.run, count: 1, size: one.size, last: one });
    else {
      entry.count += 1;
      entry.size += one.size;
    }
  }
  return [...runs.values()];
}
