import { link } from "../router";
import { Icon } from "./icon";

// To the list that a page is one of.
export function Back(props: { to: string; label: string }) {
  return (
    <a class="back" href={link(props.to)} aria-label={props.label} title={props.label}>
      <Icon name="left" />
    </a>
  );
}
