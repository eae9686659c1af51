import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { plural } from "../words";
import { CopyButton } from "./copy";

const MANY = 100; // items shown of one list at first
const LONG = 400; // characters shown of one text at first

// A value as a tree: containers fold, long texts and lists are shortened until asked for.
export function Json(props: { value: unknown; label: string }) {
  if (props.value === null || props.value === undefined) return <p class="quiet">none</p>;
  return (
    <div class="json" role="group" aria-label={props.label}>
      <CopyButton text={asText(props.value)} label={`Copy ${props.label}`} />
      <Value value={props.value} depth={0} />
    </div>
  );
}

function asText(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value, null, 2);
}

function Value(props: { name?: string; value: unknown; depth: number }) {
  const { value, name } = props;
  const key = name === undefined ? null : <span class="json-key">{name}</span>;
  if (value === null || typeof value !== "object")
    return (
      <>
        {key} <Leaf value={value} />
      </>
    );
  const entries = Array.isArray(value)
    ? value.map((one, index) => [String(index), one] as const)
    : Object.entries(value);
  if (entries.length === 0)
    return (
      <>
        {key} <span class="quiet">{Array.isArray(value) ? "[ ]" : "{ }"}</span>
      </>
    );
  return <Entries name={key} entries={entries} isList={Array.isArray(value)} depth={props.depth} />;
}

function Leaf(props: { value: unknown }) {
  const { value } = props;
  if (value === "") return <span class="quiet">""</span>;
  if (typeof value === "string") return <Text text={value} />;
  return <span class={`json-${value === null ? "null" : typeof value}`}>{String(value)}</span>;
}

function Entries(props: {
  name: ComponentChildren;
  entries: (readonly [string, unknown])[];
  isList: boolean;
  depth: number;
}) {
  const [shown, setShown] = useState(MANY);
  const { entries } = props;
  const rows = (
    <ul>
      {entries.slice(0, shown).map(([name, value]) => (
        <li key={name}>
          <Value name={name} value={value} depth={props.depth + 1} />
        </li>
      ))}
      {entries.length > shown ? (
        <li>
          <button type="button" class="bare" onClick={() => setShown(shown + 10 * MANY)}>
            {entries.length - shown} more
          </button>
        </li>
      ) : null}
    </ul>
  );
  if (props.depth === 0) return rows;
  return (
    <details open={props.depth < 3 && entries.length <= 20}>
      <summary>
        {props.name} {props.isList ? plural(entries.length, "item") : plural(entries.length, "field")}
      </summary>
      {rows}
    </details>
  );
}

function Text(props: { text: string }) {
  const [isWhole, setWhole] = useState(false);
  const isLong = props.text.length > LONG;
  return (
    <>
      <span class="json-string">{isLong && !isWhole ? `${props.text.slice(0, LONG)}…` : props.text}</span>
      {isLong ? (
        <button type="button" class="bare" onClick={() => setWhole(!isWhole)}>
          {isWhole ? "less" : `all ${props.text.length.toLocaleString("en")} characters`}
        </button>
      ) : null}
    </>
  );
}
