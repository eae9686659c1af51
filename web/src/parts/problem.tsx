import { Icon } from "./icon";

// What went wrong, where it went wrong.
export function Problem(props: { error: Error | string | undefined | null; retry?: () => void }) {
  if (!props.error) return null;
  return (
    <div class="problem" role="alert">
      <Icon name="warning" />
      <span>{typeof props.error === "string" ? props.error : props.error.message}</span>
      {props.retry ? (
        <button type="button" onClick={props.retry}>
          Try again
        </button>
      ) : null}
    </div>
  );
}
