import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";

// A page: its heading, its actions beside that, and its title in the browser.
export function Page(props: {
  title: string;
  heading?: ComponentChildren;
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
        <h1 tabIndex={-1}>{props.heading ?? props.title}</h1>
        {props.actions ? <div class="row">{props.actions}</div> : null}
      </header>
      {props.children}
    </div>
  );
}
