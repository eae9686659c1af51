import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";

// A page: its heading, its actions beside that, and its title in the browser.
export function Page(props: {
  title: string;
  before?: ComponentChildren; // left of the heading
  actions?: ComponentChildren;
  children: ComponentChildren;
  class?: string;
}) {
  useEffect(() => {
    document.title = `${props.title} · Holdfast`;
  }, [props.title]);
  return (
    <div class={`page ${props.class ?? ""}`}>
      <header class="page-head">
        <div class="page-title">
          {props.before}
          <h1 tabIndex={-1}>{props.title}</h1>
        </div>
        {props.actions ? <div class="row">{props.actions}</div> : null}
      </header>
      {props.children}
    </div>
  );
}
