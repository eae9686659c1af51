import { useState } from "preact/hooks";
import { call } from "../api";
import { Facts } from "../parts/facts";
import { Icon, Problem, say } from "../parts";
import { Section } from "../parts/section";
import { useMay } from "../session";
import type { QueueSettings, ServerSettings } from "./types";

interface Cap {
  kind: string;
  name: string;
  number: string;
}

const KINDS = ["flow", "executor", "agent"];

// How much runs at once: shown to everybody, changed by an admin.
export function QueuePart(props: { queue: QueueSettings; changed: () => void }) {
  const mayChange = useMay("admin");
  const { queue } = props;
  const effect = queue.counts_at_once
    ? "A change counts at once for this server's worker, and moments later for others. Jobs that run go on."
    : "This server has no worker: a change counts for others moments later. Jobs that run go on.";
  return (
    <Section title="How much runs at once" hint={mayChange ? effect : undefined}>
      <div class="card">{mayChange ? <QueueForm key={JSON.stringify(queue)} {...props} /> : <QueueFacts queue={queue} />}</div>
    </Section>
  );
}

function QueueFacts(props: { queue: QueueSettings }) {
  const { places, total, caps } = props.queue;
  const shown = Object.fromEntries(Object.entries(caps).map(([use, number]) => [`Cap of ${use}`, number]));
  return <Facts label="How much runs at once" of={{ "Jobs of one worker": places, "Jobs of all workers": total ?? "no bound", ...shown }} />;
}

function QueueForm(props: { queue: QueueSettings; changed: () => void }) {
  const { queue } = props;
  const [places, setPlaces] = useState(String(queue.places));
  const [total, setTotal] = useState(queue.total === null ? "" : String(queue.total));
  const [caps, setCaps] = useState<Cap[]>(() => Object.entries(queue.caps).map(capOf));
  const [problem, setProblem] = useState<Error | null>(null);

  async function save(event: SubmitEvent) {
    event.preventDefault();
    const uses = Object.fromEntries(caps.map((cap) => [`${cap.kind}:${cap.name.trim()}`, Number(cap.number)]));
    const body = { places: Number(places), total: total === "" ? null : Number(total), caps: uses };
    try {
      await call<ServerSettings>("PUT", "settings", body);
      setProblem(null);
      say("Saved");
      props.changed();
    } catch (error) {
      setProblem(error as Error);
    }
  }

  const change = (index: number, part: Partial<Cap>) => setCaps(caps.map((cap, at) => (at === index ? { ...cap, ...part } : cap)));
  return (
    <form class="stack" onSubmit={save}>
      <div class="fields">
        <NumberField label="Jobs of one worker" value={places} set={setPlaces} min={1} isRequired />
        <NumberField label="Jobs of all workers" value={total} set={setTotal} min={0} hint="Empty for no bound" />
      </div>
      <fieldset class="plain stack">
        <legend>Caps</legend>
        {caps.length === 0 ? <p class="quiet">None: flows, executors and agents have no bound of their own.</p> : null}
        {caps.map((cap, index) => (
          <div class="cap" key={index}>
            <select aria-label="What is bounded" value={cap.kind} onChange={(event) => change(index, { kind: event.currentTarget.value })}>
              {KINDS.map((kind) => (
                <option key={kind}>{kind}</option>
              ))}
            </select>
            <input aria-label={`Name of the ${cap.kind}`} required placeholder="name" value={cap.name} onInput={(event) => change(index, { name: event.currentTarget.value })} />
            <input aria-label="Jobs at once" type="number" required min={0} max={1000000} value={cap.number} onInput={(event) => change(index, { number: event.currentTarget.value })} />
            <button type="button" class="bare" aria-label={`Remove the cap of ${cap.kind} ${cap.name}`} onClick={() => setCaps(caps.filter((_, at) => at !== index))}>
              <Icon name="close" />
            </button>
          </div>
        ))}
        <div>
          <button type="button" onClick={() => setCaps([...caps, { kind: "flow", name: "", number: "1" }])}>
            <Icon name="plus" /> Add a cap
          </button>
        </div>
      </fieldset>
      <Problem error={problem} />
      <div class="row end">
        <button type="submit" class="primary">
          Save
        </button>
      </div>
    </form>
  );
}

function capOf([use, number]: [string, number]): Cap {
  const colon = use.indexOf(":");
  return { kind: use.slice(0, colon), name: use.slice(colon + 1), number: String(number) };
}

function NumberField(props: { label: string; value: string; set: (value: string) => void; min: number; hint?: string; isRequired?: boolean }) {
  return (
    <label class="field">
      {props.label}
      <input type="number" min={props.min} max={10000} required={props.isRequired} value={props.value} onInput={(event) => props.set(event.currentTarget.value)} />
      {props.hint ? <span class="hint">{props.hint}</span> : null}
    </label>
  );
}
