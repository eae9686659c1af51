import { useEffect, useState } from "preact/hooks";
import { Icon } from "./icon";

interface Said {
  id: number;
  text: string;
  isProblem: boolean;
}

const SHOWN_MS = 5000;
let told: Said[] = [];
let last = 0;
let draw: () => void = () => {};

function add(text: string, isProblem: boolean): void {
  const one = { id: ++last, text, isProblem };
  told = [...told.slice(-3), one];
  draw();
  setTimeout(() => drop(one.id), isProblem ? 2 * SHOWN_MS : SHOWN_MS);
}

function drop(id: number): void {
  told = told.filter((one) => one.id !== id);
  draw();
}

// Says something in the corner, for a while.
export function say(text: string): void {
  add(text, false);
}

export function sayProblem(error: unknown): void {
  add((error as Error).message || String(error), true);
}

export function Toasts() {
  const [, again] = useState(0);
  useEffect(() => {
    draw = () => again((n) => n + 1);
    return () => {
      draw = () => {};
    };
  }, []);
  return (
    <div class="toasts" role="status" aria-live="polite">
      {told.map((one) => (
        <div key={one.id} class={`toast ${one.isProblem ? "is-problem" : ""}`}>
          <Icon name={one.isProblem ? "warning" : "completed"} />
          <span>{one.text}</span>
          <button type="button" class="bare" aria-label="Dismiss" onClick={() => drop(one.id)}>
            <Icon name="close" />
          </button>
        </div>
      ))}
    </div>
  );
}
