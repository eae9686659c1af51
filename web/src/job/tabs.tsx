import { Badge, Empty, Json, Table, Time } from "../parts";
import type { Change, Job } from "../types";
import { timeOfDay } from "../words";
import type { JobModel } from "./model";

// What went into a job, and what came out.
export function DataTab(props: { model: JobModel; job: Job }) {
  const { model, job } = props;
  const labels = Object.entries(job.labels);
  return (
    <div class="two">
      <section class="card stack tight">
        <h2>Inputs</h2>
        <Json value={job.inputs} label="the job's inputs" />
        {labels.length > 0 ? (
          <>
            <h2>Labels</h2>
            <Json value={job.labels} label="labels" />
          </>
        ) : null}
      </section>
      <section class="card stack tight">
        <h2>Outputs</h2>
        {job.status === "completed" ? (
          <Json value={model.outputs ?? null} label="the job's outputs" />
        ) : (
          <p class="quiet">They are here once it has completed.</p>
        )}
      </section>
    </div>
  );
}

export function HistoryTab(props: { changes: Change[] }) {
  if (props.changes.length === 0) return <Empty title="Nothing happened yet" />;
  return (
    <Table
      label="History"
      class="still"
      rows={[...props.changes].reverse()}
      keyOf={(one) => String(one.seq)}
      columns={[
        { head: "Status", class: "fit", cell: (one) => <Badge status={one.target} /> },
        { head: "At", class: "fit", cell: (one) => <span class="number">{timeOfDay(one.at)}</span> },
        { head: "When", class: "fit", cell: (one) => <Time at={one.at} /> },
        { head: "Why", cell: (one) => one.reason || null },
        { head: "By", class: "fit", cell: (one) => <span title={one.by}>{doerOf(one.by)}</span> },
      ]}
    />
  );
}

function doerOf(by: string): string {
  return /^[0-9a-f]{8}-[0-9a-f-]{27}$/.test(by) ? `worker ${by.slice(-6)}` : by;
}
