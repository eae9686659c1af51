import { useState } from "preact/hooks";
import { post } from "../api";
import { Filters } from "../jobs/filters";
import { useJobs } from "../jobs/list";
import {
  Badge,
  type Column,
  ConfirmButton,
  Empty,
  Page,
  Problem,
  say,
  sayProblem,
  Stretch,
  Table,
  Time,
} from "../parts";
import { ask, link } from "../router";
import type { PageProps } from "../routes";
import { useMay } from "../session";
import { type Job, OVER } from "../types";
import { plural } from "../words";

export function JobsPage(props: PageProps) {
  const { found, problem, counts, more, refresh } = useJobs(props.query);
  const [chosen, setChosen] = useState<Set<string>>(new Set());
  const may = useMay("operate");
  const jobs = found?.jobs ?? [];
  const picked = jobs.filter((job) => chosen.has(job.id));

  function pick(id: string, isOn: boolean) {
    const next = new Set(chosen);
    isOn ? next.add(id) : next.delete(id);
    setChosen(next);
  }

  return (
    <Page title="Jobs">
      <Filters asked={props.query} counts={counts} />
      <Problem error={problem} retry={refresh} />
      {may && picked.length > 0 ? <Bulk jobs={picked} clear={() => setChosen(new Set())} done={refresh} /> : null}
      {found === undefined ? (
        <p class="quiet">{problem ? "" : "Loading…"}</p>
      ) : jobs.length === 0 ? (
        <Nothing isFiltered={props.query.toString() !== ""} may={may} />
      ) : (
        <Table label="Jobs" columns={columns(may ? { chosen, pick } : undefined)} rows={jobs} keyOf={(job) => job.id} />
      )}
      {found?.next ? (
        <div class="row">
          <button type="button" onClick={more}>
            Show more
          </button>
          <span class="quiet">{plural(jobs.length, "job")} shown</span>
        </div>
      ) : null}
    </Page>
  );
}

interface Picking {
  chosen: Set<string>;
  pick: (id: string, isOn: boolean) => void;
}

function columns(picking: Picking | undefined): Column<Job>[] {
  return [
    {
      head: "Job",
      class: "job-cell",
      cell: (job) => (
        <div class="job-name">
          {picking ? (
            <input
              type="checkbox"
              aria-label={`Choose ${job.name || job.flow} ${job.id.slice(-8)}`}
              checked={picking.chosen.has(job.id)}
              onChange={(event) => picking.pick(job.id, event.currentTarget.checked)}
            />
          ) : null}
          <div>
            <a href={link("jobs", job.id)}>{job.name || job.flow}</a>
            <div class="small quiet">
              {job.name && job.name !== job.flow ? `${job.flow} · ` : ""}
              <span class="mono">{job.id.slice(-8)}</span>
              {Object.entries(job.labels).map(([name, value]) => (
                <button
                  key={name}
                  type="button"
                  class="label"
                  title="Show only these"
                  onClick={() => ask({ label: `${name}=${value}` })}
                >
                  {name}={value}
                </button>
              ))}
              {job.archived ? " · archived" : ""}
            </div>
          </div>
        </div>
      ),
    },
    { head: "Status", class: "fit", cell: (job) => <Badge status={job.status} /> },
    {
      head: "Why",
      class: "why-cell",
      cell: (job) =>
        job.reason ? (
          <span class="clamp" title={job.reason}>
            {job.reason}
          </span>
        ) : null,
    },
    { head: "Created", class: "fit", cell: (job) => <Time at={job.created} /> },
    {
      head: "Took",
      class: "fit number",
      cell: (job) => (job.started ? <Stretch from={job.started} to={job.ended} /> : null),
    },
  ];
}

function Bulk(props: { jobs: Job[]; clear: () => void; done: () => void }) {
  const active = props.jobs.filter((job) => !OVER.includes(job.status));
  const over = props.jobs.filter((job) => OVER.includes(job.status) && !job.archived);

  async function each(jobs: Job[], what: string, body: object) {
    const results = await Promise.allSettled(jobs.map((job) => post(`jobs/${job.id}/${what}`, body)));
    const wrong = results.filter((one) => one.status === "rejected");
    if (wrong[0]) sayProblem(wrong[0].reason);
    say(`${plural(results.length - wrong.length, "job")}: ${what} done`);
    props.clear();
    props.done();
  }

  return (
    <div class="card row bulk" role="group" aria-label="Chosen jobs">
      <strong>{plural(props.jobs.length, "job")} chosen</strong>
      {active.length > 0 ? (
        <ConfirmButton
          label={`Cancel ${active.length}`}
          question={`Cancel ${plural(active.length, "job")}?`}
          asksReason
          isDangerous
          act={(reason) => each(active, "cancel", { reason })}
        />
      ) : null}
      {over.length > 0 ? (
        <button type="button" onClick={() => void each(over, "archive", {})}>
          Archive {over.length}
        </button>
      ) : null}
      <button type="button" class="bare" onClick={props.clear}>
        Choose none
      </button>
    </div>
  );
}

function Nothing(props: { isFiltered: boolean; may: boolean }) {
  if (props.isFiltered)
    return (
      <Empty title="No job fits these filters">
        <a class="button" href={link("jobs")}>
          Show all jobs
        </a>
      </Empty>
    );
  return (
    <Empty title="No jobs yet">
      <p>A job is one run of a flow.</p>
      {props.may ? (
        <a class="button primary" href={link("start")}>
          Start one
        </a>
      ) : null}
      <p>
        Or in a terminal: <code>holdfast run flows/hello.flow.yaml</code>
      </p>
    </Empty>
  );
}
