import { useTick } from "../hooks";
import { ago, between, exactly } from "../words";

// When: relative, and exactly in the title.
export function Time(props: { at: string | null | undefined }) {
  const now = useTick(10_000, !!props.at);
  if (!props.at) return <span class="quiet">–</span>;
  return (
    <time dateTime={props.at} title={exactly(props.at)}>
      {ago(props.at, now)}
    </time>
  );
}

// How long, going on while there is no end.
export function Stretch(props: { from: string | null; to: string | null }) {
  const now = useTick(1000, props.from !== null && props.to === null);
  return <span class="number">{between(props.from, props.to, now)}</span>;
}
