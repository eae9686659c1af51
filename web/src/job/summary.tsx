import { Badge, CopyButton, Stretch, Time } from "../parts";
import { link } from "../router";
import type { Job } from "../types";
import { count, money, plural } from "../words";
import type { JobModel } from "./model";

// The figures of a job, in one line.
export function Summary(props: { model: JobModel; job: Job }) {
  const { model, job } = props;
  let tokens = 0;
  let cost = 0;
  let attempts = 0;
  for (const one of model.attempts.values()) {
    tokens += one.tokens;
    cost += one.cost_usd;
    attempts += 1;
  }
  const top = [...model.steps.values()].filter((step) => !step.path.includes("/"));
  const done = top.filter((step) => step.status === "completed" || step.status === "skipped").length;
  return (
    <>
      <dl class="facts">
        <Fact name="Status">
          <Badge status={job.status} />
        </Fact>
        <Fact name="Steps">
          {done} of {top.length}
        </Fact>
        <Fact name="Attempts">{model.isRead ? count(attempts) : "…"}</Fact>
        <Fact name="Created">
          <Time at={job.created} />
        </Fact>
        <Fact name="Took">{job.started ? <Stretch from={job.started} to={job.ended} /> : "–"}</Fact>
        {tokens > 0 ? <Fact name="Tokens">{count(tokens)}</Fact> : null}
        {tokens > 0 || cost > 0 ? <Fact name="Cost">{cost > 0 ? money(cost) : "not priced"}</Fact> : null}
        {job.wakes && job.status === "waiting" ? (
          <Fact name="Goes on">
            <Time at={job.wakes} />
          </Fact>
        ) : null}
        {job.claims > 1 ? <Fact name="Taken up">{plural(job.claims, "time")}</Fact> : null}
        {job.priority ? <Fact name="Priority">{job.priority}</Fact> : null}
        <Fact name="Flow">
          <a href={link("jobs", { flow: job.flow })}>{job.flow}</a>
        </Fact>
        <Fact name="Id">
          <span class="mono small" title={job.id}>
            {job.id.slice(-8)}
          </span>
          <CopyButton text={job.id} label="Copy the id" />
        </Fact>
      </dl>
      {job.needs.length > 0 ? (
        <p class="small quiet">
          After{" "}
          {job.needs.map((id) => (
            <a key={id} class="mono" href={link("jobs", id)}>
              {id.slice(-8)}{" "}
            </a>
          ))}
        </p>
      ) : null}
      {job.reason &&
      job.asks.length === 0 &&
      !["completed", "queued", "running", "awaiting_approval"].includes(job.status) ? (
        <p class={`reason is-${job.status}`}>{job.reason}</p>
      ) : null}
    </>
  );
}

function Fact(props: { name: string; children: preact.ComponentChildren }) {
  return (
    <div>
      <dt>{props.name}</dt>
      <dd>{props.children}</dd>
    </div>
  );
}
