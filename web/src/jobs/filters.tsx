import { useEffect, useRef, useState } from "preact/hooks";
import { query } from "../api";
import { useGet } from "../hooks";
import { Icon } from "../parts";
import { ask } from "../router";
import { count } from "../words";

export const STATUSES = [
  "awaiting_approval",
  "queued",
  "running",
  "waiting",
  "paused",
  "completed",
  "failed",
  "cancelled",
] as const;

// What the address asks for, as the API is asked.
export function listed(asked: URLSearchParams, more: { limit: number; before?: string }): string {
  const label = asked.get("label") ?? "";
  return `jobs${query({
    status: asked.getAll("status"),
    flow: asked.get("flow") ?? "",
    label: label.includes("=") ? label : "",
    text: asked.get("text") ?? "",
    archived: asked.get("archived") ?? "",
    ...more,
  })}`;
}

// A field that tells what is typed once it rests.
function Typed(props: {
  name: string;
  label: string;
  value: string;
  placeholder?: string;
  list?: string;
  isFilter?: boolean;
}) {
  const [text, setText] = useState(props.value);
  const seen = useRef(props.value);
  const told = useRef(props.value);
  // What comes back of this field's own telling may be older than what is typed by now: only what others asked for is shown.
  if (props.value !== seen.current) {
    seen.current = props.value;
    if (props.value !== told.current) {
      told.current = props.value;
      setText(props.value);
    }
  }
  useEffect(() => {
    const asked = text.trim();
    if (asked === told.current) return;
    const timer = setTimeout(() => {
      told.current = asked;
      ask({ [props.name]: asked });
    }, 250);
    return () => clearTimeout(timer);
  }, [text]);
  return (
    <input
      type="search"
      aria-label={props.label}
      placeholder={props.placeholder ?? props.label}
      value={text}
      list={props.list}
      data-filter={props.isFilter || undefined}
      onInput={(event) => setText(event.currentTarget.value)}
    />
  );
}

export function Filters(props: { asked: URLSearchParams; counts: Record<string, number> }) {
  const { asked, counts } = props;
  const status = asked.get("status") ?? "";
  const flows = useGet<{ flow: string; name: string }[]>("flows");
  const labelAsked = asked.get("label") ?? "";
  return (
    <div class="stack tight">
      <div class="chips" role="group" aria-label="Filter by status">
        <Chip name="" label="All" status={status} />
        {STATUSES.map((name) => (
          <Chip key={name} name={name} label={name.replaceAll("_", " ")} status={status} count={counts[name]} />
        ))}
      </div>
      <div class="filters" role="search" aria-label="Filter jobs">
        <Typed
          name="text"
          label="Search jobs"
          placeholder="Search names, ids, reasons   /"
          value={asked.get("text") ?? ""}
          isFilter
        />
        <Typed name="flow" label="Flow" value={asked.get("flow") ?? ""} list="flow-names" />
        <datalist id="flow-names">
          {[...new Set(flows.data?.map((one) => one.name))].map((name) => (
            <option key={name} value={name} />
          ))}
        </datalist>
        <Typed name="label" label="Label" placeholder="Label: key=value" value={labelAsked} />
        <select
          aria-label="Archived"
          value={asked.get("archived") ?? "no"}
          onChange={(event) => ask({ archived: event.currentTarget.value.replace(/^no$/, "") })}
        >
          <option value="no">Not archived</option>
          <option value="yes">Archived</option>
          <option value="all">All</option>
        </select>
      </div>
      {labelAsked && !labelAsked.includes("=") ? <p class="hint small">A label is asked for as key=value.</p> : null}
    </div>
  );
}

function Chip(props: { name: string; label: string; status: string; count?: number | undefined }) {
  const isOn = props.status === props.name;
  return (
    <button
      type="button"
      class={`chip ${props.name && `is-${props.name}`}`}
      aria-pressed={isOn}
      onClick={() => ask({ status: isOn ? "" : props.name })}
    >
      {props.name ? <Icon name={props.name} /> : null}
      {props.label}
      {props.count ? <span class="chip-count">{count(props.count)}</span> : null}
    </button>
  );
}
