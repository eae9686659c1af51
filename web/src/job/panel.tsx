import { useState } from "preact/hooks";
import { post } from "../api";
import { kindName } from "../graph/nodes";
import { Badge, ConfirmButton, Icon, Json, Problem, say, Stretch, Tabs, Time } from "../parts";
import { useMay } from "../session";
import { type Attempt, type Job, OVER } from "../types";
import { count, money, plural } from "../words";
import { inputsOf, spotOf } from "./inputs";
import { spoken } from "./log_rows";
import { LogLines } from "./log_view";
import type { JobModel } from "./model";

const RERUN = ["queued", "running", "waiting", "paused", "failed"];

// All about one step.
export function Panel(props: { model: JobModel; job: Job; path: string; close: () => void; followAgain: () => void }) {
  const { model, job, path } = props;
  const may = useMay("operate");
  const [tab, setTab] = useState("result");
  const step = model.steps.get(path);
  const spot = model.flow && spotOf(model.flow, path);
  const attempts = [...model.attempts.values()].filter((one) => one.path === path);
  const last = attempts[attempts.length - 1];
  const said = spoken(model.log.rows, path);
  const isSpeaking = step?.status === "running" && (said.text !== "" || said.thinking !== "");
  const name = path.split("/").pop()!;
  return (
    <aside class="card panel" aria-label={`Step ${path}`}>
      <header class="row between">
        <h2 class="wrap">{name}</h2>
        <button type="button" class="bare" aria-label="Close the step" onClick={props.close}>
          <Icon name="close" />
        </button>
      </header>
      {path !== name ? <p class="small quiet mono wrap">{path}</p> : null}
      {spot?.step.description ? <p class="quiet">{spot.step.description}</p> : null}
      <div class="row">
        <Badge status={step?.status ?? "pending"} />
        <span class="quiet">{kindName(spot?.step.kind ?? step?.executor ?? "")}</span>
        {last ? <Stretch from={last.started} to={last.ended} /> : null}
        <Used attempts={attempts} />
      </div>
      {step?.reason && step.status !== "completed" ? (
        step.status === "failed" ? (
          <Problem error={step.reason} />
        ) : (
          <p class="quiet wrap">{step.reason}</p>
        )
      ) : null}
      {isSpeaking ? <Speech said={said} isLive /> : null}
      {may && !path.includes("/") && last && RERUN.includes(job.status) ? (
        <div class="row">
          <ConfirmButton
            label="Run again"
            question={`Run ${name} again?`}
            act={async () => {
              await post(`jobs/${job.id}/rerun`, { step: path });
              say(`${name} is run again`);
              OVER.includes(job.status) ? props.followAgain() : model.reread(0);
            }}
          >
            It and every step that depends on it get a new attempt.
          </ConfirmButton>
        </div>
      ) : null}
      <Tabs
        label="Of this step"
        names={{ result: "Data", attempts: `Attempts ${attempts.length || ""}`, log: "Log" }}
        chosen={tab}
        choose={setTab}
      />
      {tab === "result" ? (
        <div class="stack tight">
          <h3>Inputs</h3>
          <Json value={spot ? emptyIsNone(inputsOf(model, spot, last?.started ?? null)) : null} label="inputs" />
          <h3>Outputs</h3>
          <Json value={step?.outputs ?? null} label="outputs" />
          {!isSpeaking && (said.text || said.thinking) ? <Speech said={said} /> : null}
        </div>
      ) : tab === "attempts" ? (
        <Attempts attempts={attempts} />
      ) : (
        <LogLines log={model.log} within={path} label={`Log of ${path}`} isShort />
      )}
    </aside>
  );
}

function emptyIsNone(value: Record<string, unknown>): unknown {
  return Object.keys(value).length > 0 ? value : null;
}

function Used(props: { attempts: Attempt[] }) {
  const tokens = props.attempts.reduce((sum, one) => sum + one.tokens, 0);
  const cost = props.attempts.reduce((sum, one) => sum + one.cost_usd, 0);
  return (
    <>
      {tokens > 0 ? <span class="quiet number">{count(tokens)} tokens</span> : null}
      {cost > 0 ? <span class="quiet number">{money(cost)}</span> : null}
    </>
  );
}

function Speech(props: { said: { thinking: string; text: string }; isLive?: boolean }) {
  return (
    <section class="speech" aria-label="What it says" aria-live={props.isLive ? "off" : undefined}>
      {props.said.text ? (
        <p>
          {props.said.text}
          {props.isLive ? <span class="caret" /> : null}
        </p>
      ) : null}
      {props.said.thinking ? (
        <details open={props.isLive && !props.said.text}>
          <summary>Thinking</summary>
          <p class="quiet">{props.said.thinking}</p>
        </details>
      ) : null}
    </section>
  );
}

function Attempts(props: { attempts: Attempt[] }) {
  if (props.attempts.length === 0) return <p class="quiet">It has not begun.</p>;
  return (
    <ol class="attempts">
      {[...props.attempts].reverse().map((one) => (
        <li key={`${one.attempt}.${one.tries}`}>
          <div class="row">
            <strong>
              {one.attempt}
              {one.tries > 0 ? `, try ${one.tries + 1}` : ""}
            </strong>
            <Badge status={one.status} />
            {one.is_fallback ? <span class="quiet">fallback</span> : null}
            <span class="quiet">
              <Time at={one.started} />
            </span>
            <Stretch from={one.started} to={one.ended} />
            {one.tokens > 0 ? <span class="quiet number">{plural(one.tokens, "token")}</span> : null}
          </div>
          {one.action ? (
            <p class="small quiet">
              then: {one.action}
              {one.rule ? `, by the rule ${one.rule}` : ""}
            </p>
          ) : null}
          {one.error ? <p class={one.status === "failed" ? "wrong wrap" : "quiet wrap"}>{one.error}</p> : null}
          {one.status === "completed" ? (
            <details>
              <summary class="quiet">outputs</summary>
              <Json value={one.result} label={`outputs of attempt ${one.attempt}`} />
            </details>
          ) : null}
        </li>
      ))}
    </ol>
  );
}
