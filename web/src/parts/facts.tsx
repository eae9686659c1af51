import type { ComponentChildren } from "preact";
import "./facts.css";

// Names and what they are. What is undefined is left out.
export function Facts(props: { label: string; of: Record<string, ComponentChildren | undefined> }) {
  return (
    <dl class="about" aria-label={props.label}>
      {Object.entries(props.of).map(([name, value]) =>
        value === undefined ? null : (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ),
      )}
    </dl>
  );
}
