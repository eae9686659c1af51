// What a step was given: followed back through the flow to results and the job's own inputs.

import type { DrawnFlow, DrawnStep } from "../types";
import type { JobModel } from "./model";

export interface Spot {
  step: DrawnStep;
  around: Spot | undefined; // the step that this one's flow is inside of
  path: string;
  item: string; // of a flow that runs for each item: which
}

// The step of a flow that a path names.
export function spotOf(flow: DrawnFlow, path: string): Spot | undefined {
  let inside: DrawnFlow | null = flow;
  let around: Spot | undefined;
  let item = "";
  let at = "";
  for (const part of path.split("/")) {
    if (inside === null) return around;
    if (around?.step.items && item === "") {
      item = part;
      at += `/${part}`;
      continue;
    }
    const step: DrawnStep | undefined = inside.nodes.find((one) => one.name === part);
    if (step === undefined) return undefined;
    at = at === "" ? part : `${at}/${part}`;
    around = { step, around, path: at, item };
    inside = step.flow;
    item = "";
  }
  return around;
}

// The inputs of a step's attempt that began at a time; what cannot be followed is left out.
export function inputsOf(model: JobModel, spot: Spot, began: string | null): Record<string, unknown> {
  const found: Record<string, unknown> = {};
  for (const input of spot.step.inputs) {
    for (const source of input.sources) {
      const value = follow(model, spot, source, began);
      if (value !== undefined) {
        found[input.name] = value;
        break;
      }
    }
  }
  return found;
}

function follow(model: JobModel, spot: Spot, source: string[], began: string | null): unknown {
  const [from = "", ...keys] = source;
  if (from !== "$job")
    return into(resultBefore(model, spot.path.slice(0, spot.path.length - spot.step.name.length) + from, began), keys);
  const { around } = spot;
  if (around === undefined) return into(model.job?.inputs, keys);
  const [name = "", ...rest] = keys;
  if (around.step.items && name === around.step.item_name) {
    const list = follow(model, around, around.step.items, began);
    return into(Array.isArray(list) ? list[Number(spot.item)] : undefined, rest);
  }
  return into(inputsOf(model, around, began)[name], rest);
}

// The newest result of a step that was there at a time.
function resultBefore(model: JobModel, path: string, at: string | null): unknown {
  let newest: unknown;
  for (const one of model.attempts.values()) {
    if (one.path === path && one.status === "completed" && (at === null || (one.ended ?? "") <= at))
      newest = one.result;
  }
  return newest;
}

function into(value: any, keys: string[]): unknown {
  for (const key of keys) value = value?.[key];
  return value;
}
