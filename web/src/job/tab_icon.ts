// The browser's tab says how a job stands.

import { useEffect } from "preact/hooks";
import { iconPath } from "../parts/icon";
import type { Job } from "../types";

const MARKS: Record<string, string> = {
  awaiting_approval: "?",
  queued: "…",
  running: "▶",
  waiting: "◷",
  paused: "Ⅱ",
  completed: "✓",
  failed: "✕",
  cancelled: "⊘",
};
const COLOURS: Record<string, string> = {
  running: "#0a5cc2",
  completed: "#1a7037",
  failed: "#b3202b",
  waiting: "#855200",
  awaiting_approval: "#855200",
  paused: "#6a3fb0",
};

export function useTabIcon(job: Job | undefined): void {
  const name = job ? job.name || job.flow : "";
  const status = job?.status ?? "";
  useEffect(() => {
    if (!status) return;
    document.title = `${MARKS[status] ?? ""} ${name} · Holdfast`;
    const drawn = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><rect width="16" height="16" rx="4" fill="${COLOURS[status] ?? "#58636c"}"/><path d="${iconPath(status)}" transform="translate(2.4 2.4) scale(.7)" fill="none" stroke="white" stroke-width="2.6" stroke-linecap="round" stroke-linejoin="round"/></svg>`;
    setIcon(`data:image/svg+xml,${encodeURIComponent(drawn)}`);
    return () => setIcon("data:,");
  }, [name, status]);
}

function setIcon(address: string): void {
  document.querySelector<HTMLLinkElement>("link[rel=icon]")?.setAttribute("href", address);
}
