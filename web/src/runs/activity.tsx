import { useEffect, useRef, useState } from "preact/hooks";
import { Badge, Icon, Json, Stretch } from "../parts";
import { count, plural } from "../words";
import type { Act } from "./types";

const SHOWN = 200;

// What a run does, in the order it began, what is inside something below it.
export function Activity(props: { acts: Act[]; version: number }) {
  const [most, setMost] = useState(SHOWN);
  const { acts } = props;
  const hidden = Math.max(0, acts.length - most);
  return (
    <div class="stack tight">
      {hidden > 0 ? (
        <div>
          <button type="button" onClick={() => setMost(most + 5 * SHOWN)}>
            {plural(hidden, "earlier one")}
          </button>
        </div>
      ) : null}
      <ol class="acts" aria-label="What it does">
        {acts.slice(hidden).map((act) => (
          <ActRow key={act.key} act={act} />
        ))}
      </ol>
    </div>
  );
}

function ActRow(props: { act: Act }) {
  const { act } = props;
  const isOpen = act.status === "running";
  return (
    <li class={`act depth-${Math.min(act.depth, 6)} is-${act.status}`}>
      <div class="act-head">
        <Icon name={act.status} />
        <strong class="wrap">{act.name}</strong>
        <span class="quiet">{act.kind}</span>
        <span class="act-end quiet small">
          {act.tokens ? `${count(act.tokens)} tokens · ` : ""}
          <Stretch from={act.started} to={act.ended ?? (isOpen || act.status === "waiting" ? null : act.started)} />
        </span>
      </div>
      {act.thinking ? (
        <details class="act-more" open={isOpen && !act.text}>
          <summary>Thinking</summary>
          <Growing text={act.thinking} isOpen={isOpen} />
        </details>
      ) : null}
      {act.text ? <Growing text={act.text} isOpen={isOpen} /> : null}
      {act.error ? <p class={act.status === "failed" ? "wrong wrap" : "quiet wrap"}>{act.error}</p> : null}
      <More act={act} />
    </li>
  );
}

function More(props: { act: Act }) {
  const { act } = props;
  const hasGiven = isSomething(act.given);
  const hasResult = isSomething(act.result);
  if (!hasGiven && !hasResult) return null;
  if (typeof act.result === "string" && act.result.length < 160 && !hasGiven) return <p class="quiet wrap">{act.result}</p>;
  return (
    <details class="act-more">
      <summary>{hasGiven && hasResult ? "Given and result" : hasGiven ? "Given" : "Result"}</summary>
      <div class="stack tight">
        {hasGiven ? <Json value={act.given} label={`what ${act.name} was given`} /> : null}
        {hasResult ? <Json value={act.result} label={`the result of ${act.name}`} /> : null}
      </div>
    </details>
  );
}

function isSomething(value: unknown): boolean {
  return value !== undefined && value !== null && value !== "" && !(typeof value === "object" && Object.keys(value).length === 0);
}

// Text that grows: its end stays in sight, unless somebody looked back.
function Growing(props: { text: string; isOpen: boolean }) {
  const here = useRef<HTMLPreElement>(null);
  const isAtEnd = useRef(true);
  useEffect(() => {
    const place = here.current;
    if (place !== null && isAtEnd.current) place.scrollTop = place.scrollHeight;
  }, [props.text]);
  return (
    <pre
      class={`growing ${props.isOpen ? "is-open" : ""}`}
      ref={here}
      tabIndex={0}
      aria-label="Text"
      onScroll={(event) => {
        const place = event.currentTarget;
        isAtEnd.current = place.scrollTop + place.clientHeight >= place.scrollHeight - 8;
      }}
    >
      {props.text}
    </pre>
  );
}

export function Whole(props: { status: string; isLive: boolean }) {
  return (
    <span class="row">
      <Badge status={props.status} />
      {props.isLive ? <span class="quiet small">in this process</span> : null}
    </span>
  );
}
