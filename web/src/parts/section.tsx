import type { ComponentChildren } from "preact";
import { useId } from "preact/hooks";

// A part of a page under a heading of its own; `aside` stands at the heading's right.
export function Section(props: { title: string; aside?: ComponentChildren; hint?: ComponentChildren; children: ComponentChildren }) {
  const title = useId();
  return (
    <section class="section" aria-labelledby={title}>
      <header class="row between">
        <h2 id={title}>{props.title}</h2>
        {props.aside ? <div class="row">{props.aside}</div> : null}
      </header>
      {props.hint ? <p class="quiet">{props.hint}</p> : null}
      {props.children}
    </section>
  );
}
