// Keyboard shortcuts: one key (`?`), or two after another (`g j`). None while something is being typed.

import { useEffect, useRef } from "preact/hooks";

export interface Shortcut {
  keys: string;
  does: string; // as the help says it
  run: () => void;
}

const PAIR_MS = 1200;
const active = new Set<{ current: Shortcut[] }>();
let first = "";
let firstAt = 0;

export function shortcuts(): Shortcut[] {
  return [...active].flatMap((one) => one.current);
}

export function useShortcuts(given: Shortcut[]): void {
  const held = useRef(given);
  held.current = given;
  useEffect(() => {
    active.add(held);
    return () => void active.delete(held);
  }, []);
}

export function isTyping(target: EventTarget | null): boolean {
  return (
    target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName))
  );
}

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || isTyping(event.target)) return;
  if (document.querySelector("dialog[open]") !== null) return;
  const pair = first && event.timeStamp - firstAt < PAIR_MS ? `${first} ${event.key}` : "";
  const all = shortcuts();
  const found = all.find((one) => one.keys === pair) ?? all.find((one) => one.keys === event.key);
  const begins = all.some((one) => one.keys.startsWith(`${event.key} `));
  [first, firstAt] = found === undefined && begins ? [event.key, event.timeStamp] : ["", 0];
  if (found === undefined) return;
  event.preventDefault();
  found.run();
});
