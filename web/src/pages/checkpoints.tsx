import "../checkpoints/checkpoints.css";
import { CheckpointDetails } from "../checkpoints/details";
import { CheckpointRuns } from "../checkpoints/list";
import { CheckpointTree } from "../checkpoints/tree";
import type { Tree } from "../checkpoints/types";
import { useEffect, useState } from "preact/hooks";
import { Badge, Empty, Page, Problem } from "../parts";
import { Back } from "../parts/back";
import { usePolled } from "../polling";
import { ask, link } from "../router";
import type { PageProps } from "../routes";
import { OVER } from "../types";

// Of one run, as a tree of branches; without one, the runs that have checkpoints.
export function CheckpointsPage(props: PageProps) {
  const run = props.query.get("run") ?? "";
  if (run) return <TreePage key={run} run={run} at={props.query.get("at") ?? ""} />;
  return (
    <Page title="Checkpoints">
      <CheckpointRuns />
    </Page>
  );
}

function TreePage(props: { run: string; at: string }) {
  const [everyMs, setEvery] = useState(3000);
  const { data, problem, reload } = usePolled<Tree>(`runs/${encodeURIComponent(props.run)}/tree`, everyMs);
  useEffect(() => setEvery(OVER.includes(data?.job?.status ?? data?.run.status ?? "") ? 30_000 : 3000), [data]);
  const checkpoints = data?.checkpoints ?? [];
  const chosen = checkpoints.find((one) => one.id === props.at) ?? checkpoints[checkpoints.length - 1];
  const status = data?.job?.status ?? data?.run.status;
  const changed = (id: string) => {
    reload();
    ask({ at: id });
  };
  return (
    <Page
      before={<Back to="checkpoints" label="All checkpoints" />}
      title={`Checkpoints of ${data?.run.name || props.run}`}
      actions={
        <>
          {status ? <Badge status={status} /> : null}
          {data ? (
            <a class="button" href={data.job ? link("jobs", props.run) : link("runs", props.run)}>
              {data.job ? "The job" : "The run"}
            </a>
          ) : null}
        </>
      }
    >
      <Problem error={problem} retry={reload} />
      {data === undefined ? null : chosen === undefined ? (
        <Empty title="This run has no checkpoints yet" />
      ) : (
        <div class="forked">
          <CheckpointTree branches={data.branches} checkpoints={checkpoints} chosen={chosen.id} choose={(id) => ask({ at: id })} />
          <CheckpointDetails key={chosen.id} tree={data} chosen={chosen} changed={changed} />
        </div>
      )}
    </Page>
  );
}
