// What a picture of a flow has to know about how far a job has come.

import type { Attempt, DrawnStep, Step, StepStatus } from "../types";

export interface Items {
  count: number;
  labels: string[];
}

export interface GraphState {
  blank: StepStatus | undefined; // of steps that nothing is known of: none, if the picture is of no job
  step(path: string): Step | undefined;
  inside(prefix: string): Step[]; // the steps directly in a flow inside a step
  items(path: string, step: DrawnStep): Items;
  taken(path: string, rule: string): number; // how often a rule of a step led elsewhere
  began(path: string): string | null; // when the last attempt of a step did
  ending(path: string): string; // how a rule of a step ended or paused the job, if one did
}

export const NOTHING: GraphState = {
  blank: undefined,
  step: () => undefined,
  inside: () => [],
  items: () => ({ count: 0, labels: [] }),
  taken: () => 0,
  began: () => null,
  ending: () => "",
};

const ENDINGS: Record<string, string> = { abandon: "gave up", escalate: "asks a person" };

export function stateOf(steps: Map<string, Step>, attempts: Iterable<Attempt>, inputs: unknown): GraphState {
  const groups = new Map<string, Step[]>();
  for (const step of steps.values()) {
    const around = step.path.slice(0, step.path.lastIndexOf("/") + 1);
    const group = groups.get(around);
    group ? group.push(step) : groups.set(around, [step]);
  }
  const counts = new Map<string, number>(); // items seen, by the step that has them
  for (const around of groups.keys()) {
    const found = /^(.*)\/(\d+)\/$/.exec(around);
    if (found) counts.set(found[1]!, Math.max(counts.get(found[1]!) ?? 0, Number(found[2]) + 1));
  }
  const taken = new Map<string, number>();
  const began = new Map<string, string | null>();
  const endings = new Map<string, string>(); // of the last attempt of each
  for (const one of attempts) {
    if (one.action && one.action !== "advance") {
      const key = `${one.path} ${one.rule}`;
      taken.set(key, (taken.get(key) ?? 0) + 1);
    }
    began.set(one.path, one.started);
    endings.set(one.path, ENDINGS[one.action] ? `${ENDINGS[one.action]}: ${one.rule}` : "");
  }
  return {
    blank: "pending",
    step: (path) => steps.get(path),
    inside: (prefix) => groups.get(prefix) ?? [],
    items: (path, step) => {
      const list = listOf(step.items, path, steps, inputs);
      return { count: Math.max(list?.length ?? 0, counts.get(path) ?? 0), labels: (list ?? []).map(labelOf) };
    },
    taken: (path, rule) => taken.get(`${path} ${rule}`) ?? 0,
    began: (path) => began.get(path) ?? steps.get(path)?.started ?? null,
    ending: (path) => endings.get(path) ?? "",
  };
}

function listOf(
  source: string[] | null,
  path: string,
  steps: Map<string, Step>,
  inputs: unknown,
): unknown[] | undefined {
  if (source === null) return undefined;
  const around = path.slice(0, path.lastIndexOf("/") + 1);
  const [from = "", ...keys] = source;
  let value: any = from === "$job" ? (around ? undefined : inputs) : steps.get(around + from)?.outputs;
  for (const key of keys) value = value?.[key];
  if (typeof value === "string" && from === "$job") value = parsed(value);
  return Array.isArray(value) ? value : undefined;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function labelOf(item: unknown): string {
  if (item === null || typeof item !== "object") return String(item);
  const named = ["name", "title", "id", "path"]
    .map((key) => (item as Record<string, unknown>)[key])
    .find((one) => typeof one === "string");
  return (named as string | undefined) ?? JSON.stringify(item);
}

const LOUD: StepStatus[] = ["failed", "waiting", "running", "cancelled"];

// How a flow inside a step stands, by its steps. `size` is how many it has.
export function statusOf(steps: Step[], size: number): StepStatus {
  for (const status of LOUD) if (steps.some((step) => step.status === status)) return status;
  if (steps.length === 0) return "pending";
  return steps.filter((step) => step.status !== "pending").length >= size ? "completed" : "running";
}
