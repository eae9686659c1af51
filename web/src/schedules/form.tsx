import { useState } from "preact/hooks";
import { call, query } from "../api";
import { useGet } from "../hooks";
import { Dialog, Problem, say } from "../parts";
import { Inputs } from "../start/inputs";
import { type Label, labelRows, Labels, labelsOf } from "../start/labels";
import type { FlowEntry, FlowFile } from "../start/types";
import { initialValues, type Values, valuesToSend } from "../start/values";
import { seconds, typed } from "./durations";
import { Preview } from "./preview";
import type { Schedule } from "./types";

const OVERLAPS: [string, string][] = [
  ["skip", "leave this one out"],
  ["queue", "run it afterwards"],
  ["allow", "run both"],
];

// Makes a schedule, or changes one.
export function ScheduleForm(props: { schedule?: Schedule; flow?: string; close: () => void; done: (schedule: Schedule) => void }) {
  const before = props.schedule;
  const flows = useGet<FlowEntry[]>("flows");
  const [name, setName] = useState(before?.name ?? "");
  const [flow, setFlow] = useState(before?.flow ?? props.flow ?? "");
  const [kind, setKind] = useState<"cron" | "poll">(before?.kind ?? "cron");
  const [cron, setCron] = useState(before?.cron || "0 9 * * 1-5");
  const [zone, setZone] = useState(before?.timezone ?? Intl.DateTimeFormat().resolvedOptions().timeZone);
  const [every, setEvery] = useState(typed(before?.every_seconds || 300));
  const [check, setCheck] = useState(before ? before.call || (typeof before.command === "string" ? before.command : JSON.stringify(before.command)) : "");
  const [overlap, setOverlap] = useState(before?.overlap ?? "skip");
  const [catchUp, setCatchUp] = useState(before?.catch_up ?? "none");
  const [cooldown, setCooldown] = useState(typed(before?.cooldown_seconds ?? 0));
  const [errors, setErrors] = useState(String(before?.pause_after_errors ?? 5));
  const [labels, setLabels] = useState<Label[]>(() => labelRows(before?.labels ?? {}));
  const [values, setValues] = useState<Values>({});
  const [problem, setProblem] = useState<Error | null>(null);
  const file = useGet<FlowFile>(flow ? `flows/file${query({ flow })}` : null);
  const known = file.data?.flow === flow ? file.data : undefined;
  const shown: Values = { ...(known ? initialValues(known.inputs, before?.flow === flow ? before.inputs : {}) : {}), ...values };
  const wrongEvery = kind === "poll" && !seconds(every);
  const wrongCooldown = seconds(cooldown) === null;

  async function send(event: SubmitEvent) {
    event.preventDefault();
    if (wrongEvery || wrongCooldown) return;
    const poll = { every_seconds: seconds(every) ?? 0, ...(before?.call ? { call: check.trim() } : { command: commandOf(check) }) };
    const body = {
      name: name.trim(),
      flow,
      ...(kind === "cron" ? { cron: cron.trim(), timezone: zone.trim() || "UTC" } : poll),
      inputs: known ? valuesToSend(known.inputs, shown) : (before?.inputs ?? {}),
      labels: labelsOf(labels),
      overlap,
      cooldown_seconds: seconds(cooldown) ?? 0,
      catch_up: catchUp,
      pause_after_errors: Number(errors),
    };
    try {
      const made = await (before ? call<Schedule>("PUT", `schedules/${encodeURIComponent(before.id)}`, body) : call<Schedule>("POST", "schedules", body));
      say(before ? "Changed" : `${made.name} is scheduled`);
      props.done(made);
    } catch (error) {
      setProblem(error as Error);
    }
  }

  return (
    <Dialog title={before ? `Change ${before.name}` : "New schedule"} close={props.close} isWide>
      <form class="stack" onSubmit={send}>
        <div class="fields two">
          <label class="field">
            Name <input value={name} required maxLength={100} pattern="[^\/]+" autocomplete="off" onInput={(event) => setName(event.currentTarget.value)} />
          </label>
          <label class="field">
            Flow
            <select value={flow} required onChange={(event) => setFlow(event.currentTarget.value)}>
              <option value="">choose a flow</option>
              {(flows.data ?? []).filter((one) => one.valid || one.flow === flow).map((one) => (
                <option key={one.flow} value={one.flow}>
                  {one.name} ({one.flow})
                </option>
              ))}
            </select>
          </label>
        </div>
        <fieldset class="plain">
          <legend>When</legend>
          <div class="row">
            <Choice name="kind" value="cron" now={kind} set={setKind} label="At certain times" />
            <Choice name="kind" value="poll" now={kind} set={setKind} label="When a check says so" />
          </div>
        </fieldset>
        {kind === "cron" ? (
          <div class="fields two">
            <label class="field">
              Cron expression
              <input class="mono" value={cron} required autocomplete="off" onInput={(event) => setCron(event.currentTarget.value)} />
              <span class="hint">minute hour day month weekday, or @daily, @hourly</span>
            </label>
            <label class="field">
              Time zone
              <input value={zone} list="zones" autocomplete="off" onInput={(event) => setZone(event.currentTarget.value)} />
              <Zones />
            </label>
            <Preview cron={cron} timezone={zone} />
          </div>
        ) : (
          <div class="fields two">
            <label class="field">
              Check every
              <input value={every} required aria-invalid={wrongEvery} onInput={(event) => setEvery(event.currentTarget.value)} />
              <span class={wrongEvery ? "wrong" : "hint"}>as 30s, 5m, 2h or 1d</span>
            </label>
            <label class="field">
              {before?.call ? "Function" : "Command"}
              <textarea class="mono" rows={3} required value={check} onInput={(event) => setCheck(event.currentTarget.value)} />
              <span class="hint">It prints JSON: {'{"fire": true, "cursor": …}'}. The cursor comes back in HOLDFAST_CURSOR.</span>
            </label>
          </div>
        )}
        {known && known.inputs.length > 0 ? (
          <details class="fold" open>
            <summary>Inputs of the flow</summary>
            <div class="stack">
              <Inputs variables={known.inputs} values={shown} problems={{}} change={(input, value) => setValues({ ...values, [input]: value })} />
            </div>
          </details>
        ) : null}
        <details class="fold">
          <summary>Overlap, catch-up, errors, labels</summary>
          <div class="stack">
            <div class="fields two">
              <label class="field">
                If the job before still runs
                <select value={overlap} onChange={(event) => setOverlap(event.currentTarget.value)}>
                  {OVERLAPS.map(([value, label]) => (
                    <option key={value} value={value}>
                      {label}
                    </option>
                  ))}
                </select>
              </label>
              <label class="field">
                Times that were missed
                <select value={catchUp} onChange={(event) => setCatchUp(event.currentTarget.value)}>
                  <option value="none">are left out</option>
                  <option value="once">are made up for once</option>
                </select>
              </label>
              <label class="field">
                At least between two jobs
                <input value={cooldown} aria-invalid={wrongCooldown} onInput={(event) => setCooldown(event.currentTarget.value)} />
                <span class={wrongCooldown ? "wrong" : "hint"}>as 30s, 5m, 2h or 1d; 0 for nothing</span>
              </label>
              <label class="field">
                Pause after so many errors in a row
                <input type="number" min={0} max={1000000} required value={errors} onInput={(event) => setErrors(event.currentTarget.value)} />
                <span class="hint">0 for never</span>
              </label>
            </div>
            <Labels rows={labels} set={setLabels} />
          </div>
        </details>
        <Problem error={problem ?? (flow ? file.problem : null)} />
        <div class="row end">
          <button type="button" onClick={props.close}>
            Cancel
          </button>
          <button type="submit" class="primary">
            {before ? "Save" : "Schedule it"}
          </button>
        </div>
      </form>
    </Dialog>
  );
}

function commandOf(text: string): string | string[] {
  try {
    const list: unknown = JSON.parse(text);
    if (Array.isArray(list) && list.every((one) => typeof one === "string")) return list;
  } catch {
    // shell text, then
  }
  return text.trim();
}

function Choice(props: { name: string; value: "cron" | "poll"; now: string; set: (value: "cron" | "poll") => void; label: string }) {
  return (
    <label class="choice">
      <input type="radio" name={props.name} checked={props.now === props.value} onChange={() => props.set(props.value)} />
      <span>{props.label}</span>
    </label>
  );
}

function Zones() {
  return (
    <datalist id="zones">
      {["UTC", ...Intl.supportedValuesOf("timeZone")].map((zone) => (
        <option key={zone} value={zone} />
      ))}
    </datalist>
  );
}
