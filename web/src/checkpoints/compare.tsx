import { useState } from "preact/hooks";
import { query } from "../api";
import { useGet } from "../hooks";
import { Json, Problem } from "../parts";
import { ago } from "../words";
import { type Checkpoint, type Difference, reasonOf } from "./types";

// What differs between the chosen checkpoint and another one of its run.
export function Compare(props: { checkpoints: Checkpoint[]; chosen: Checkpoint }) {
  const others = props.checkpoints.filter((one) => one.id !== props.chosen.id).reverse();
  const before = others.find((one) => one.id === props.chosen.parent_id) ?? others[0];
  const [picked, setPicked] = useState("");
  const other = others.find((one) => one.id === picked) ?? before;
  const [from, to] = other === undefined || other.at > props.chosen.at ? [props.chosen, other] : [other, props.chosen];
  const { data, problem, reload } = useGet<Difference>(to ? `checkpoints/diff${query({ a: from.id, b: to.id })}` : null);
  if (other === undefined || to === undefined) return <p class="quiet">There is no other checkpoint to compare it with.</p>;
  const isKnown = data?.a === from.id && data.b === to.id;
  return (
    <div class="stack">
      <label class="field">
        Compare with
        <select value={other.id} onChange={(event) => setPicked(event.currentTarget.value)}>
          {others.map((one) => (
            <option key={one.id} value={one.id}>
              {placeOf(one)} ({ago(one.at)})
            </option>
          ))}
        </select>
        <span class="hint">
          What changed from {placeOf(from)} to {placeOf(to)}
        </span>
      </label>
      <Problem error={problem} retry={reload} />
      {isKnown ? <Differences of={data} /> : null}
    </div>
  );
}

function placeOf(one: Checkpoint): string {
  return `${one.branch} ${one.position}, ${reasonOf(one)}`;
}

function Differences(props: { of: Difference }) {
  const { state, only_a, only_b, results } = props.of;
  if (state.length + only_a.length + only_b.length + results.length === 0) return <p class="quiet">They hold the same.</p>;
  return (
    <div class="stack" role="group" aria-label="Differences">
      {state.length > 0 ? (
        <div>
          <h3>State</h3>
          <ul class="changes">
            {state.map((one) => (
              <li key={`${one.kind} ${one.path}`}>
                <code>{one.path}</code> <span class="quiet">{one.kind}</span>
                <Sides before={one.before} after={one.after} />
              </li>
            ))}
          </ul>
        </div>
      ) : null}
      <Names title="Steps that only the earlier one knows" names={only_a} mark="−" />
      <Names title="Steps that only the later one knows" names={only_b} mark="+" />
      {results.length > 0 ? (
        <div>
          <h3>Steps with another result</h3>
          <ul class="changes">
            {results.map((one) => (
              <li key={one.step}>
                <code>{one.step}</code>
                <Sides before={one.before} after={one.after} />
              </li>
            ))}
          </ul>
        </div>
      ) : null}
    </div>
  );
}

function Sides(props: { before: unknown; after: unknown }) {
  return (
    <div class="sides">
      <div class="side-before">
        <Json value={props.before} label="before" />
      </div>
      <div class="side-after">
        <Json value={props.after} label="after" />
      </div>
    </div>
  );
}

function Names(props: { title: string; names: string[]; mark: string }) {
  if (props.names.length === 0) return null;
  return (
    <div>
      <h3>{props.title}</h3>
      <ul class="changes">
        {props.names.map((name) => (
          <li key={name}>
            {props.mark} <code>{name}</code>
          </li>
        ))}
      </ul>
    </div>
  );
}
