import { query } from "../api";
import { Code } from "../flows/code";
import { Findings } from "../flows/findings";
import "../flows/flows.css";
import type { Checked, Finding } from "../flows/types";
import "../graph/graph.css";
import { Graph } from "../graph/view";
import { useGet } from "../hooks";
import { type Column, Icon, Page, Problem, Table } from "../parts";
import { Back } from "../parts/back";
import { Facts } from "../parts/facts";
import { Section } from "../parts/section";
import { ask, link } from "../router";
import type { PageProps } from "../routes";
import { useMay } from "../session";
import "../settings/settings.css";
import type { FlowFile, FlowStep, Variable } from "../start/types";
import { asTyped } from "../start/values";
import type { DrawnFlow } from "../types";

// A flow's file beside its graph. Choosing a step shows its lines, choosing a line its step.
export function FlowPage(props: PageProps) {
  const asked = query({ flow: props.id });
  const file = useGet<FlowFile>(`flows/file${asked}`);
  const checked = useGet<Checked>(`flows/check${asked}`);
  const isUsable = (file.data?.steps.length ?? 0) > 0;
  const graph = useGet<DrawnFlow>(isUsable ? `flows/graph${asked}` : null);
  const line = Number(props.query.get("line")) || 0;
  const steps = file.data?.steps ?? [];
  const chosen = stepAt(steps, line);
  const [from, to] = linesOf(chosen, steps, file.data?.text ?? "");
  const show = (number: number) => ask({ line: String(number) });
  const isHere = (one: Finding) => file.data !== undefined && (one.file === file.data.flow || one.file.startsWith(`${file.data.flow}/`));
  const reload = () => [file, checked, graph].forEach((one) => one.reload());
  return (
    <Page title={file.data?.name ?? props.id} before={<Back to="flows" label="All flows" />} actions={file.data ? <Actions flow={file.data} reload={reload} /> : null}>
      <Problem error={file.problem ?? checked.problem ?? graph.problem} retry={reload} />
      {file.data ? (
        <>
          {file.data.description ? <p>{file.data.description}</p> : null}
          <div class="flow-page">
            <Code text={file.data.text} line={line} from={from} to={to} findings={(checked.data?.findings ?? []).filter(isHere)} choose={show} />
            <div class="stack">
              {checked.data ? <Findings checked={checked.data} isHere={isHere} choose={show} /> : null}
              {graph.data ? (
                <Graph
                  flow={graph.data}
                  chosen={chosen?.name ?? ""}
                  choose={(path) => show(steps.find((step) => step.name === path.split("/")[0])?.line ?? 0)}
                />
              ) : null}
              <About flow={file.data} />
              {file.data.inputs.length > 0 ? <InputsPart inputs={file.data.inputs} /> : null}
            </div>
          </div>
        </>
      ) : null}
    </Page>
  );
}

// The step that a line belongs to: the last one that begins at or before it.
function stepAt(steps: FlowStep[], line: number): FlowStep | undefined {
  return [...steps].sort((a, b) => b.line - a.line).find((step) => step.line <= line);
}

function linesOf(step: FlowStep | undefined, steps: FlowStep[], text: string): [number, number] {
  if (step === undefined) return [0, 0];
  const next = Math.min(...steps.filter((one) => one.line > step.line).map((one) => one.line), text.split("\n").length + 1);
  return [step.line, next - 1];
}

function Actions(props: { flow: FlowFile; reload: () => void }) {
  const mayStart = useMay("operate");
  const mayPlan = useMay("admin");
  const { flow } = props;
  const isUsable = flow.steps.length > 0;
  return (
    <>
      <button type="button" onClick={props.reload}>
        Check again
      </button>
      {mayPlan && isUsable ? (
        <a class="button" href={link("schedules", { new: flow.flow })}>
          <Icon name="schedules" /> Schedule
        </a>
      ) : null}
      {mayStart && isUsable ? (
        <a class="button primary" href={link("start", { flow: flow.flow })}>
          <Icon name="play" /> Start
        </a>
      ) : null}
    </>
  );
}

function About(props: { flow: FlowFile }) {
  const { flow } = props;
  return (
    <div class="card">
      <Facts
        label="About this flow"
        of={{
          File: <code>{flow.flow}</code>,
          Version: flow.version || undefined,
          Author: flow.author || undefined,
          Jobs: <a href={link("jobs", { flow: flow.name })}>Jobs of this flow</a>,
        }}
      />
    </div>
  );
}

function InputsPart(props: { inputs: Variable[] }) {
  const columns: Column<Variable>[] = [
    { head: "Name", class: "short", cell: (one) => one.name },
    { head: "Type", class: "fit", cell: (one) => (one.type === "choice" ? one.options.map(asTyped).join(" | ") : one.type) },
    { head: "Default", class: "short", cell: (one) => (one.sensitive ? "secret" : asTyped(one.default) || (one.required ? "needed" : "")) },
    { head: "Description", class: "short", cell: (one) => one.description },
  ];
  return (
    <Section title="Inputs">
      <Table label="Inputs" columns={columns} rows={props.inputs} keyOf={(one) => one.name} />
    </Section>
  );
}
