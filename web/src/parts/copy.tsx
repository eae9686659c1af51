import { Icon } from "./icon";
import { say } from "./toast";

export function CopyButton(props: { text: string; label?: string }) {
  const name = props.label ?? "Copy";
  const copy = () =>
    navigator.clipboard.writeText(props.text).then(
      () => say("Copied"),
      () => say("The browser does not allow copying here"),
    );
  return (
    <button type="button" class="bare" aria-label={name} title={name} onClick={copy}>
      <Icon name="copy" />
    </button>
  );
}
