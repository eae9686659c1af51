import { Refused } from "../api";
import { useGet } from "../hooks";
import { Badge, type Column, CopyButton, Empty, Page, Problem, Stretch, Table, Time } from "../parts";
import { Section } from "../parts/section";
import { usePolled } from "../polling";
import type { Agent, Held, Worker } from "../resources/types";
import { link } from "../router";
import type { PageProps } from "../routes";
import type { Run } from "../runs/types";
import "../resources/resources.css";
import { bytes, plural } from "../words";

const EVERY_MS = 2000;
const LOOKS: Record<string, [string, string]> = {
  held: ["running", "A run holds it"],
  idle: ["idle", "Kept warm; no run holds it"],
  starting: ["pending", "It is being started"],
  orphaned: ["failed", "Its owner is dead; the next sweep ends it"],
  elsewhere: ["info", "Of another machine or user: it cannot be seen from here"],
};

export function ResourcesPage(_: PageProps) {
  return (
    <Page title="Resources">
      <HeldPart />
      <WorkersPart />
      <AgentsPart />
    </Page>
  );
}

const AT_WORK = ["run", "step", "thread"];

function HeldPart() {
  const { data, problem, reload } = usePolled<Held[]>("resources", EVERY_MS);
  const runs = usePolled<Run[]>("runs?limit=500", 5 * EVERY_MS).data ?? [];
  const names = new Map(runs.map((run) => [run.id, run]));
  const held = (data ?? []).filter((one) => !AT_WORK.includes(one.kind));
  const working = (data ?? []).filter((one) => AT_WORK.includes(one.kind));
  const memory = held.reduce((sum, one) => sum + (one.memory ?? 0), 0);
  const what: Column<Held>[] = [
    { head: "What", class: "roomy", cell: (one) => one.name || one.kind },
    { head: "Kind", class: "fit", cell: (one) => one.kind },
  ];
  const columns: Column<Held>[] = [
    ...what,
    { head: "State", class: "fit", cell: (one) => <State held={one} /> },
    { head: "Held by", class: "roomy", cell: (one) => <Runs ids={one.runs} names={names} /> },
    { head: "For", class: "fit", cell: (one) => (one.since ? <Stretch from={one.since} to={null} /> : null) },
    { head: "Processes", class: "number", cell: (one) => (one.processes ? `${one.processes}${one.pid ? ` (pid ${one.pid})` : ""}` : null) },
    { head: "Memory", class: "number", cell: (one) => (one.memory === null ? null : bytes(one.memory)) },
  ];
  const sum = held.length > 0 ? `${plural(held.length, "thing")}${memory ? `, ${bytes(memory)}` : ""}` : "";
  return (
    <>
      <Section title="Held now" aside={<span class="quiet">{sum}</span>}>
        <Problem error={problem} retry={reload} />
        {data === undefined ? null : held.length > 0 ? (
          <Table label="Held now" columns={columns} rows={held} keyOf={keyOf} />
        ) : (
          <Empty title="Nothing is held">
            <p>Processes of agents, MCP servers, sandboxes and folders appear here while a run holds them.</p>
          </Empty>
        )}
      </Section>
      {working.length > 0 ? (
        <Section title="At work in this process">
          <Table label="At work in this process" columns={[...what, { head: "Of", class: "roomy", cell: (one) => <Runs ids={one.runs} names={names} /> }]} rows={working} keyOf={keyOf} />
        </Section>
      ) : null}
    </>
  );
}

function keyOf(one: Held): string {
  return [one.kind, one.name, one.pid, one.since, ...one.runs].join(" ");
}

function State(props: { held: Held }) {
  const [look, title] = LOOKS[props.held.state] ?? ["info", ""];
  return <Badge status={look} label={props.held.state} title={title} />;
}

function Runs(props: { ids: string[]; names: Map<string, Run> }) {
  return (
    <>
      {props.ids.map((id) => {
        const run = props.names.get(id);
        return (
          <a key={id} class="run-link" href={link(run?.kind === "job" ? "jobs" : "runs", id)} title={id}>
            {run?.name} <span class="mono">…{id.slice(-8)}</span>
          </a>
        );
      })}
    </>
  );
}

function WorkersPart() {
  const { data, problem, reload } = usePolled<Worker[]>("workers", EVERY_MS * 2);
  if (problem instanceof Refused && problem.code === "no_queue") return null;
  const columns: Column<Worker>[] = [
    { head: "Worker", class: "grow", cell: (one) => <code title={one.id}>…{one.id.slice(-8)}</code> },
    { head: "Process", class: "number", cell: (one) => one.pid },
    { head: "Role", class: "fit", cell: (one) => <Badge status={one.serving ? "ok" : "idle"} label={one.serving ? "serves the queue" : "guest"} /> },
    { head: "Up for", class: "fit", cell: (one) => <Stretch from={one.started} to={null} /> },
    { head: "Taken for lost", class: "fit", cell: (one) => <Time at={one.held_until} /> },
  ];
  return (
    <Section title="Workers">
      <Problem error={problem} retry={reload} />
      {data === undefined ? null : data.length > 0 ? (
        <Table label="Workers" columns={columns} rows={data} keyOf={(one) => one.id} />
      ) : (
        <Empty title="Nobody serves the queue">
          <p>
            Jobs wait until a worker starts: <code>holdfast worker</code>, or <code>holdfast serve</code> without <code>--no-worker</code>.
          </p>
        </Empty>
      )}
    </Section>
  );
}

function AgentsPart() {
  const { data, problem, reload } = useGet<Agent[]>("agents");
  const columns: Column<Agent>[] = [
    { head: "Agent", class: "roomy", cell: (one) => (one.title && one.title !== one.name ? `${one.title} (${one.name})` : one.name) },
    { head: "Installed", class: "fit", cell: (one) => <Badge status={one.installed ? "completed" : "idle"} label={one.installed ? "yes" : "no"} /> },
    { head: "Known from", class: "fit", cell: (one) => one.source },
    { head: "Install with", class: "grow", cell: (one) => (one.installed || !one.install ? "" : <Command text={one.install} />) },
  ];
  return (
    <Section title="Agents" hint="What a step can name with agent: NAME.">
      <Problem error={problem} retry={reload} />
      {data === undefined ? null : data.length > 0 ? (
        <Table label="Agents" columns={columns} rows={data} keyOf={(one) => one.name} />
      ) : (
        <Empty title="No agents are known">
          <p>
            They come with <code>pip install 'holdfast[acp]'</code>.
          </p>
        </Empty>
      )}
    </Section>
  );
}

function Command(props: { text: string }) {
  return (
    <span class="row command">
      <code>{props.text}</code>
      <CopyButton text={props.text} label="Copy the command" />
    </span>
  );
}
