import { Icon } from "./icon";

// A status: a shape, a colour and a word.
export function Badge(props: { status: string; label?: string; title?: string }) {
  return (
    <span class={`badge is-${props.status}`} title={props.title}>
      <Icon name={props.status} />
      {props.label ?? props.status.replaceAll("_", " ")}
    </span>
  );
}
