import { useMemo } from "preact/hooks";
import { Graph } from "../graph/view";
import { stateOf } from "../graph/state";
import { Actions } from "../job/actions";
import { Asks } from "../job/asks";
import { LogTab } from "../job/log_view";
import { Panel } from "../job/panel";
import { Summary } from "../job/summary";
import { useTabIcon } from "../job/tab_icon";
import { DataTab, HistoryTab } from "../job/tabs";
import { Timeline } from "../job/timeline";
import { useJob } from "../job/use_job";
import { useShortcuts } from "../keys";
import { Empty, Icon, Page, Problem, Tabs } from "../parts";
import { ask, link } from "../router";
import type { PageProps } from "../routes";

const TABS = { graph: "Graph", timeline: "Timeline", log: "Log", data: "Data", history: "History" };

export function JobPage(props: PageProps) {
  const { model, refused, followAgain } = useJob(props.id);
  const { job } = model;
  const tab = props.query.get("tab") ?? "graph";
  const chosen = props.query.get("step") ?? "";
  const choose = (path: string) => {
    ask({ step: path === chosen ? "" : path });
    if (path && innerWidth < 1100) setTimeout(() => document.querySelector(".panel")?.scrollIntoView({ block: "start", behavior: "smooth" }), 60);
  };
  const state = useMemo(() => stateOf(model.steps, model.attempts.values(), job?.inputs), [model.version]);
  useTabIcon(job);
  useShortcuts([
    ...Object.entries(TABS).map(([name, title], index) => ({ keys: String(index + 1), does: title, run: () => ask({ tab: name === "graph" ? "" : name }) })),
    { keys: "u", does: "Back to the jobs", run: () => { location.hash = link("jobs"); } },
    ...(chosen ? [{ keys: "Escape", does: "Close the step", run: () => ask({ step: "" }) }] : []),
  ]);

  if (refused)
    return (
      <Page title="Job">
        <Empty title={refused.status === 404 ? "There is no such job" : refused.message}>
          <a class="button" href={link("jobs")}>Show all jobs</a>
        </Empty>
      </Page>
    );
  if (job === undefined) return <Page title="Job"><p class="quiet">Loading…</p></Page>;

  const hasPanel = chosen !== "" && (tab === "graph" || tab === "timeline");
  return (
    <Page
      title={job.name || job.flow}
      before={<a class="back" href={link("jobs")} aria-label="All jobs"><Icon name="left" /></a>}
      actions={
        <>
          {job.claims > 0 ? <a class="button" href={link("checkpoints", { run: job.id })}>Checkpoints</a> : null}
          <Actions job={job} followAgain={followAgain} changed={() => model.reread(0)} />
        </>
      }
    >
      <Summary model={model} job={job} />
      <Problem error={model.problem} retry={() => model.reread(0)} />
      <Asks jobId={job.id} asks={job.asks} chosen={chosen} />
      <Tabs label="Of this job" names={TABS} chosen={tab} choose={(name) => ask({ tab: name === "graph" ? "" : name })} />
      <div class={hasPanel ? "with-panel" : ""}>
        {tab === "timeline" ? (
          <Timeline model={model} job={job} chosen={chosen} choose={choose} />
        ) : tab === "log" ? (
          <LogTab log={model.log} jobId={job.id} changed={() => model.changed()} />
        ) : tab === "data" ? (
          <DataTab model={model} job={job} />
        ) : tab === "history" ? (
          <HistoryTab changes={model.changes} />
        ) : model.flow ? (
          <Graph flow={model.flow} state={state} version={model.version} chosen={chosen} choose={choose} />
        ) : (
          <p class="quiet">Loading…</p>
        )}
        {hasPanel ? <Panel key={chosen} model={model} job={job} path={chosen} followAgain={followAgain} close={() => ask({ step: "" })} /> : null}
      </div>
    </Page>
  );
}
