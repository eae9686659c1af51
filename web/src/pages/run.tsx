import { useMemo } from "preact/hooks";
import "../flows/flows.css";
import { type GraphState, stateOf } from "../graph/state";
import { Graph } from "../graph/view";
import { useGet } from "../hooks";
import { CopyButton, Empty, Page, Problem, Tabs, Time } from "../parts";
import { Back } from "../parts/back";
import { Facts } from "../parts/facts";
import { ask, link } from "../router";
import type { PageProps } from "../routes";
import { Activity, Whole } from "../runs/activity";
import { Events } from "../runs/events";
import "../runs/runs.css";
import type { RunModel } from "../runs/model";
import type { Run } from "../runs/types";
import { useRun } from "../runs/use_run";
import type { DrawnFlow } from "../types";

const TABS = { activity: "Activity", events: "Events" };

// A run of a flow, a crew or an agent: its graph, what it does while it does it, and its events.
export function RunPage(props: PageProps) {
  const run = useGet<Run>(`runs/${encodeURIComponent(props.id)}`);
  const graph = useGet<DrawnFlow>(`runs/${encodeURIComponent(props.id)}/graph`);
  const { model, version, isOver, isPartial, refused } = useRun(props.id);
  const tab = props.query.get("tab") === "events" ? "events" : "activity";
  const status = (isOver || model.status ? model.status : "") || run.data?.status || "";
  const isStored = run.data?.updated !== null;
  const steps = useMemo(() => stepsOf(model, graph.data, isStored), [version, isStored, graph.data]);
  return (
    <Page title={run.data?.name || props.id} before={<Back to="runs" label="All runs" />} actions={run.data ? <Actions run={run.data} isStored={isStored} /> : null}>
      <Problem error={run.data ? null : (run.problem ?? refused)} retry={run.reload} />
      {run.data ? (
        <div class="card">
          <Facts
            label="About this run"
            of={{
              Status: status ? <Whole status={status} isLive={run.data.is_live && !isOver} /> : undefined,
              Kind: run.data.kind,
              Begun: <Time at={run.data.created} />,
              Incarnation: run.data.incarnation > 1 ? run.data.incarnation : undefined,
              Id: (
                <span class="row tight">
                  <code title={props.id}>…{props.id.slice(-8)}</code> <CopyButton text={props.id} label="Copy the id" />
                </span>
              ),
            }}
          />
        </div>
      ) : null}
      <Problem error={model.error} />
      {graph.data && graph.data.nodes.length > 1 ? <Graph flow={graph.data} state={steps} version={version} /> : null}
      <Tabs label="What happened" names={TABS} chosen={tab} choose={(name) => ask({ tab: name === "activity" ? "" : name })} />
      {!isStored ? <p class="quiet">This run is not written down: you see what happens from now on, while it lives.</p> : null}
      {isPartial ? <p class="quiet">The connection was lost for a while: pieces of text may be missing.</p> : null}
      {tab === "events" ? (
        <Events events={model.events} count={model.count} />
      ) : model.acts.length > 0 ? (
        <Activity acts={model.acts} version={version} />
      ) : run.data ? (
        <Empty title={isOver ? "Nothing was written down" : "Nothing has happened yet"} />
      ) : null}
    </Page>
  );
}

// How far the steps of the picture have come. What a run that is not written down did before is not known.
function stepsOf(model: RunModel, graph: DrawnFlow | undefined, isStored: boolean): GraphState {
  const steps = model.steps();
  const target = (path: string, rule: string) => graph?.nodes.find((node) => node.name === path)?.rules.find((one) => one.name === rule)?.target ?? "";
  return {
    ...stateOf(steps, [], {}),
    blank: isStored ? "pending" : undefined,
    taken: (path, rule) => Math.max(0, (steps.get(target(path, rule))?.attempt ?? 1) - 1),
  };
}

function Actions(props: { run: Run; isStored: boolean }) {
  const { run } = props;
  return (
    <>
      {run.kind === "job" ? (
        <a class="button" href={link("jobs", run.id)}>
          The job
        </a>
      ) : null}
      {props.isStored ? (
        <a class="button" href={link("checkpoints", { run: run.id })}>
          Checkpoints
        </a>
      ) : null}
    </>
  );
}
