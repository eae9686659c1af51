import { useRef } from "preact/hooks";

// Tabs: arrow keys move between them. What they show is drawn by whoever uses them.
export function Tabs(props: {
  label: string;
  names: Record<string, string>;
  chosen: string;
  choose: (name: string) => void;
}) {
  const here = useRef<HTMLDivElement>(null);
  const all = Object.keys(props.names);

  function move(event: KeyboardEvent) {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    const next = all[(all.indexOf(props.chosen) + by + all.length) % all.length]!;
    props.choose(next);
    here.current?.querySelector<HTMLElement>(`[data-tab="${next}"]`)?.focus();
  }

  return (
    <div class="tabs" role="tablist" aria-label={props.label} ref={here} onKeyDown={move}>
      {all.map((name) => (
        <button
          key={name}
          type="button"
          role="tab"
          data-tab={name}
          aria-selected={name === props.chosen}
          tabIndex={name === props.chosen ? 0 : -1}
          onClick={() => props.choose(name)}
        >
          {props.names[name]}
        </button>
      ))}
    </div>
  );
}
