import { useEffect, useState } from "preact/hooks";
import { query } from "../api";
import { useGet } from "../hooks";
import { ago } from "../words";

const TYPING_MS = 300;

// When a cron expression is due next, in its own time zone and in the browser's.
export function Preview(props: { cron: string; timezone: string }) {
  const asked = useSettled(props.cron.trim() ? `schedules/preview${query({ cron: props.cron.trim(), timezone: props.timezone.trim() || "UTC", count: 5 })}` : null);
  const { data, problem } = useGet<string[]>(asked);
  if (asked === null) return <p class="hint">Type an expression to see when it is due.</p>;
  if (problem) return <p class="wrong" role="status">{problem.message}</p>;
  if (data === undefined) return null;
  if (data.length === 0) return <p class="wrong">It is never due.</p>;
  return (
    <div role="status">
      <p class="hint">Due next</p>
      <ol class="times" aria-label="Due next">
        {data.map((at) => (
          <li key={at}>
            <time dateTime={at}>{inZone(at, props.timezone)}</time> <span class="quiet">{ago(at)}</span>
          </li>
        ))}
      </ol>
    </div>
  );
}

// A value, once it has been left alone for a moment.
function useSettled<T>(value: T): T {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), TYPING_MS);
    return () => clearTimeout(timer);
  }, [value]);
  return settled;
}

export function inZone(at: string, timezone: string): string {
  const options: Intl.DateTimeFormatOptions = { weekday: "short", day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit", hourCycle: "h23", timeZoneName: "short" };
  try {
    return new Intl.DateTimeFormat("en-GB", { ...options, timeZone: timezone || "UTC" }).format(new Date(at));
  } catch {
    return new Intl.DateTimeFormat("en-GB", { ...options, timeZone: "UTC" }).format(new Date(at)); // a zone that the browser does not know
  }
}
