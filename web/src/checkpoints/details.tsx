import { useState } from "preact/hooks";
import { post } from "../api";
import { useGet } from "../hooks";
import { Badge, type Column, ConfirmButton, CopyButton, Json, Problem, say, Table, Tabs, Time } from "../parts";
import { Facts } from "../parts/facts";
import { go, link } from "../router";
import { useMay } from "../session";
import type { Job } from "../types";
import { bytes, count } from "../words";
import { Compare } from "./compare";
import { ForkButton } from "./fork";
import { type Checkpoint, type Details, reasonOf, type RecordedStep, type Tree } from "./types";

const GOES_ON = ["failed", "paused", "waiting"];
const TABS = { state: "State", steps: "Steps", compare: "Compare" };

// One checkpoint: what it holds, what differs from another, and what can be done from here.
export function CheckpointDetails(props: { tree: Tree; chosen: Checkpoint; changed: (id: string) => void }) {
  const { tree, chosen } = props;
  const { data, problem, reload } = useGet<Details>(`checkpoints/${chosen.id}`);
  const [picked, setTab] = useState("");
  const mayAct = useMay("operate");
  const known = data?.id === chosen.id ? data : undefined;
  const tab = picked || (known && Object.keys(known.state).length === 0 ? "steps" : "state");
  return (
    <section class="card stack" aria-label="Checkpoint">
      <header class="row between">
        <h2>{reasonOf(chosen)}</h2>
        {mayAct && known ? (
          <div class="row">
            <ForkButton details={known} chosen={chosen} taken={tree.branches.map((one) => one.name)} job={tree.job} done={props.changed} />
            <ResumeButton tree={tree} chosen={chosen} />
          </div>
        ) : null}
      </header>
      <Facts
        label="About this checkpoint"
        of={{
          Id: (
            <span class="row tight">
              <code title={chosen.id}>…{chosen.id.slice(-8)}</code> <CopyButton text={chosen.id} label="Copy the id" />
            </span>
          ),
          Branch: chosen.branch,
          Position: known ? `${chosen.position} of ${known.head}` : chosen.position,
          Written: <Time at={chosen.at} />,
          Size: `${bytes(chosen.size)} since the one before`,
          Tokens: known && Object.keys(known.usage).length > 0 ? Object.entries(known.usage).map(([kind, n]) => `${count(n)} ${kind.replaceAll("_", " ")}`).join(", ") : undefined,
        }}
      />
      {mayAct && known && tree.job === null ? <HowToResume chosen={chosen} program={known.program} /> : null}
      <Problem error={problem} retry={reload} />
      <Tabs label="What it holds" names={TABS} chosen={tab} choose={setTab} />
      {tab === "compare" ? (
        <Compare checkpoints={tree.checkpoints} chosen={chosen} />
      ) : known === undefined ? null : tab === "state" ? (
        <State details={known} />
      ) : (
        <Steps steps={known.steps} />
      )}
    </section>
  );
}

function State(props: { details: Details }) {
  if (Object.keys(props.details.state).length === 0) return <p class="quiet">The state is empty: this program keeps what it knows in its steps.</p>;
  return <Json value={props.details.state} label="the state" />;
}

function Steps(props: { steps: RecordedStep[] }) {
  const columns: Column<RecordedStep>[] = [
    { head: "Step", class: "step-name", cell: (one) => one.step.replace(/#1$/, "") },
    { head: "Status", class: "fit", cell: (one) => <Badge status={one.status} /> },
    { head: "Tries", class: "number", cell: (one) => one.attempts ?? "" },
    { head: "Result", class: "grow", cell: (one) => (one.error ? <span class="wrong">{one.error}</span> : one.result === null ? "" : <Json value={one.result} label={`the result of ${one.step}`} />) },
  ];
  if (props.steps.length === 0) return <p class="quiet">No step had begun.</p>;
  return <Table label="Steps" columns={columns} rows={props.steps} keyOf={(one) => one.step} />;
}

// Jobs are resumed by the server: it goes on where the branch that was begun last has got to.
function ResumeButton(props: { tree: Tree; chosen: Checkpoint }) {
  const { job, branches } = props.tree;
  if (job === null || !GOES_ON.includes(job.status)) return null;
  const current = branches.find((one) => one.is_current);
  async function resume() {
    await post<Job>(`checkpoints/${props.chosen.id}/resume`);
    say("It goes on");
    go(link("jobs", job!.id));
  }
  if (current !== undefined && current.name !== props.chosen.branch) return null;
  return (
    <ConfirmButton label="Resume" question="Resume the job?" class="primary" act={resume}>
      The job is {job.status}. It goes on at the end of branch {current?.name ?? "main"}. To go on from an earlier checkpoint, fork it first.
    </ConfirmButton>
  );
}

function HowToResume(props: { chosen: Checkpoint; program: string }) {
  const command = `holdfast checkpoint resume ${props.chosen.id}${props.program ? ` --flow ${props.program}` : ""}`;
  return (
    <p class="quiet small">
      This run is a program of its own, and a server imports no programs. To go on with it: <code>{command}</code>
      <CopyButton text={command} label="Copy the command" />
    </p>
  );
}
