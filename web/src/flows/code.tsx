import { useEffect, useMemo, useRef } from "preact/hooks";
import { Icon } from "../parts";
import type { Finding } from "./types";
import { coloured } from "./yaml";

// The text of a flow file with numbered lines; what a check found stands below the line it is about.
export function Code(props: { text: string; line: number; from: number; to: number; findings: Finding[]; choose: (line: number) => void }) {
  const lines = useMemo(() => coloured(props.text.replace(/\n$/, "")), [props.text]);
  const here = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const place = here.current;
    const row = place?.querySelector<HTMLElement>(`[data-line="${props.line}"]`);
    if (place && row) place.scrollTo({ top: row.offsetTop - place.clientHeight / 3 });
  }, [props.line]);
  return (
    <div class="code" ref={here} role="group" aria-label="The file" tabIndex={0}>
      {lines.map((pieces, index) => {
        const number = index + 1;
        const found = props.findings.filter((one) => one.line === number);
        const looks = [number === props.line ? "is-chosen" : "", number >= props.from && number <= props.to ? "is-inside" : "", found[0] ? `is-${found[0].severity}` : ""];
        return (
          <div key={number} class={`line ${looks.join(" ")}`} data-line={number}>
            <button type="button" class="bare line-number" aria-label={`Line ${number}`} onClick={() => props.choose(number)}>
              {number}
            </button>
            <code>
              {pieces.map((piece, at) => (
                <span key={at} class={`y-${piece.kind}`}>
                  {piece.text}
                </span>
              ))}
            </code>
            {found.map((one) => (
              <p key={one.message} class="line-finding">
                <Icon name="warning" /> {one.message}
                {one.fix ? `; ${one.fix}` : ""}
              </p>
            ))}
          </div>
        );
      })}
    </div>
  );
}
