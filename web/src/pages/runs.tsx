import { query } from "../api";
import { Badge, type Column, Empty, Page, Problem, Table, Time } from "../parts";
import { usePolled } from "../polling";
import { ask, link } from "../router";
import type { PageProps } from "../routes";
import type { Run } from "../runs/types";

const STATUSES = ["running", "waiting", "paused", "completed", "failed", "cancelled"];
const KINDS = ["flow", "crew", "agent", "job", "run"];

// Root runs of the store and of the server's own process, the last changed first.
export function RunsPage(props: PageProps) {
  const status = props.query.get("status") ?? "";
  const kind = props.query.get("kind") ?? "";
  const { data, problem, reload } = usePolled<Run[]>(`runs${query({ status, limit: 500 })}`, 2000);
  const rows = (data ?? []).filter((run) => !kind || run.kind === kind);
  const columns: Column<Run>[] = [
    { head: "Run", class: "roomy", cell: (run) => <a href={link("runs", run.id)}>{run.name || run.id}</a> },
    { head: "Kind", class: "fit", cell: (run) => run.kind },
    { head: "Status", class: "fit", cell: (run) => <Status run={run} /> },
    { head: "Id", class: "fit", cell: (run) => <code title={run.id}>…{run.id.slice(-8)}</code> },
    { head: "Begun", class: "fit", cell: (run) => <Time at={run.created} /> },
    { head: "Changed", class: "fit", cell: (run) => (run.updated ? <Time at={run.updated} /> : <span class="quiet" title="It is shown while it lives">not written down</span>) },
  ];
  return (
    <Page title="Runs">
      <div class="row" role="search">
        <Choice label="Status" all="Every status" options={STATUSES} chosen={status} choose={(value) => ask({ status: value })} />
        <Choice label="Kind" all="Every kind" options={KINDS} chosen={kind} choose={(value) => ask({ kind: value })} />
      </div>
      <Problem error={problem} retry={reload} />
      {data === undefined ? null : rows.length > 0 ? (
        <Table label="Runs" columns={columns} rows={rows} keyOf={(run) => run.id} />
      ) : status || kind ? (
        <Empty title="No run is like that">
          <button type="button" onClick={() => ask({ status: "", kind: "" })}>
            Show all
          </button>
        </Empty>
      ) : (
        <Empty title="No runs yet">
          <p>Jobs, and flows, crews and agents that this process runs, appear here.</p>
        </Empty>
      )}
    </Page>
  );
}

function Status(props: { run: Run }) {
  return (
    <span class="row">
      <Badge status={props.run.status} />
      {props.run.is_live ? <span class="quiet small">here</span> : null}
    </span>
  );
}

function Choice(props: { label: string; all: string; options: string[]; chosen: string; choose: (value: string) => void }) {
  return (
    <select aria-label={props.label} value={props.chosen} onChange={(event) => props.choose(event.currentTarget.value)}>
      <option value="">{props.all}</option>
      {props.options.map((option) => (
        <option key={option}>{option}</option>
      ))}
    </select>
  );
}
