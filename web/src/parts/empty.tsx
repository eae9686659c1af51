import type { ComponentChildren } from "preact";

// Where there is nothing: says so, and what to do about it.
export function Empty(props: { title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <p class="empty-title">{props.title}</p>
      {props.children}
    </div>
  );
}
