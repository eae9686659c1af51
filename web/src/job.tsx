import { useEffect, useState } from "preact/hooks";
import { type Ask, type Change, call, follow, type GraphNode, type Job, type LogLine, type Step } from "./api";
import { AskForm } from "./form";
import { Graph } from "./graph";

const KEPT_LINES = 2000;

interface Told {
  job: Job;
  steps: Step[];
  log: LogLine[];
}

interface Row {
  type: string;
  data: { step?: string; attempt?: number; reason?: string; error?: string; result?: unknown };
  run_id: string;
  at: string;
}

const STATUSES: Record<string, string> = {
  step_started: "running",
  step_completed: "completed",
  step_failed: "failed",
  step_cancelled: "cancelled",
  step_waiting: "waiting",
  step_skipped: "skipped",
};

// What an event of the journal makes of the steps. Steps inside sub-flows come with the next snapshot.
function noted(steps: Step[], row: Row, jobId: string): Step[] {
  const status = STATUSES[row.type];
  if (status === undefined || row.run_id !== jobId || !row.data.step) return steps;
  return steps.map((step) =>
    step.path !== row.data.step
      ? step
      : {
          ...step,
          status,
          attempt: row.data.attempt ?? step.attempt,
          reason: row.data.error ?? row.data.reason ?? "",
          started: status === "running" ? row.at : step.started,
          ended: status === "running" || status === "waiting" ? null : row.at,
          outputs: row.type === "step_completed" ? row.data.result : step.outputs,
        },
  );
}

export function JobPage(props: { id: string }) {
  const [told, setTold] = useState<Told | null>(null);
  const [nodes, setNodes] = useState<GraphNode[]>([]);
  const [chosen, choose] = useState("");
  const [isLost, setLost] = useState(false);
  const [problem, setProblem] = useState("");
  const [again, setAgain] = useState(0);

  useEffect(() => {
    call<{ nodes: GraphNode[] }>("GET", `jobs/${props.id}/graph`).then((graph) => setNodes(graph.nodes), complain);
    const update = (change: (before: Told) => Told) => setTold((before) => before && change(before));
    return follow(
      `jobs/${props.id}/stream`,
      {
        snapshot: (all: Told) => setTold(all),
        resync: (all: Told) => setTold(all),
        change: (one: Change) => update((t) => ({ ...t, job: { ...t.job, status: one.target, reason: one.reason } })),
        asks: (asks: Ask[]) => update((t) => ({ ...t, job: { ...t.job, asks } })),
        event: (row: Row) => update((t) => ({ ...t, steps: noted(t.steps, row, props.id) })),
        log: (line: LogLine) => update((t) => ({ ...t, log: [...t.log, line].slice(-KEPT_LINES) })),
      },
      setLost,
    );
  }, [props.id, again]);

  function complain(error: unknown) {
    setProblem((error as Error).message);
  }

  async function act(name: string) {
    try {
      await call("POST", `jobs/${props.id}/${name}`, {});
      setProblem("");
      if (name === "retry") setAgain(again + 1); // a stream ends with its job
    } catch (error) {
      complain(error);
    }
  }

  if (told === null) return <p>{problem || "…"}</p>;
  const { job, steps, log } = told;
  const step = steps.find((one) => one.path === chosen);
  const lines = log.filter((line) => chosen === "" || `${line.step}/`.startsWith(`${chosen}/`));
  const isOver = ["completed", "failed", "cancelled"].includes(job.status);
  return (
    <>
      <p>
        <a href="#">all jobs</a>
      </p>
      <h1>
        {job.name || job.flow} <span class={`badge ${job.status}`}>{job.status}</span>
      </h1>
      <p class="quiet">
        {job.id} {job.reason ? `· ${job.reason}` : ""} {isLost && !isOver ? "· connection lost, coming back" : ""}
      </p>
      <p class="actions">
        {job.status === "awaiting_approval" ? <button onClick={() => act("approve")}>Approve</button> : null}
        {["queued", "running", "waiting"].includes(job.status) ? <button onClick={() => act("pause")}>Pause</button> : null}
        {job.status === "paused" ? <button onClick={() => act("resume")}>Resume</button> : null}
        {job.status === "failed" ? <button onClick={() => act("retry")}>Retry</button> : null}
        {isOver ? null : <button onClick={() => act("cancel")}>Cancel</button>}
      </p>
      {problem ? <p class="problem">{problem}</p> : null}
      {job.asks.map((ask) => (
        <AskForm key={ask.id} jobId={job.id} ask={ask} />
      ))}
      <div class="scroll">
        <Graph nodes={nodes} steps={steps} chosen={chosen} choose={(name) => choose(name === chosen ? "" : name)} />
      </div>
      {step ? (
        <section>
          <h2>
            {step.path} <span class={`badge ${step.status}`}>{step.status}</span>
          </h2>
          <p class="quiet">
            {step.executor} · attempt {step.attempt} {step.reason ? `· ${step.reason}` : ""}
          </p>
          <pre>{JSON.stringify(step.outputs, null, 2)}</pre>
        </section>
      ) : null}
      <h2>Output{chosen ? ` of ${chosen}` : ""}</h2>
      <pre class="log" tabIndex={0}>
        {lines.map((line) => `${line.step ? `[${line.step}] ` : ""}${line.text}${line.text.endsWith("\n") ? "" : "\n"}`)}
      </pre>
    </>
  );
}
