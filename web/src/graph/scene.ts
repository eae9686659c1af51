// A flow as boxes and lines: steps, flows inside steps, items, loops.

import type { DrawnFlow, DrawnStep, StepStatus } from "../types";
import { bundlesOf, placed } from "./bundles";
import { curve, type Item, layered } from "./layout";
import { AROUND, type Loop, loopsOf } from "./loops";
import { type GraphState, statusOf } from "./state";

export interface Box {
  type: "step" | "frame" | "item" | "more";
  path: string;
  name: string;
  x: number;
  y: number;
  w: number;
  h: number;
  status: StepStatus | undefined;
  step: DrawnStep | undefined;
  isOpen: boolean;
  ending: string; // how a rule of it ended or paused the job
  began: string | null;
  done?: number; // of a step with items
  failed?: number;
  count?: number;
}

export interface Wire {
  key: string;
  d: string;
  state: "taken" | "idle" | "skipped";
}

export interface Scene {
  boxes: Box[];
  wires: Wire[];
  loops: Loop[];
  blocks: { key: string; x: number; y: number; w: number; h: number }[]; // behind many steps side by side
  w: number;
  h: number;
}

export interface Folding {
  isOpen(path: string, byDefault: boolean): boolean;
  shown(path: string): number; // how many items
}

const NARROWEST = 170;
const WIDEST = 330;
const H = 56;
const ITEM_W = 168;
const ITEM_H = 32;
const PAD = 14;
const HEAD = 40;

// How wide a step is drawn: as its name needs.
export function widthOf(name: string): number {
  return Math.round(Math.min(WIDEST, Math.max(NARROWEST, 86 + 7.7 * name.length)));
}

export function sceneOf(flow: DrawnFlow, state: GraphState, folding: Folding, prefix = ""): Scene {
  const inner = new Map<string, Scene>();
  for (const step of flow.nodes) {
    const path = prefix + step.name;
    if (step.flow !== null && folding.isOpen(path, isSmall(step, state, path)))
      inner.set(step.name, insideOf(step, path, state, folding));
  }
  const bundles = bundlesOf(flow, (step) => inner.has(step.name)).map((bundle) => ({
    ...bundle,
    ...placed(bundle.members, widthOf, H, PAD),
  }));
  const within = new Map(bundles.flatMap((bundle) => bundle.members.map((step) => [step.name, bundle])));
  const items = flow.nodes
    .filter((step) => !within.has(step.name))
    .map((step): Item => ({ id: step.name, ...sizeOf(step, inner), after: before(step) }));
  for (const { id, members, w, h } of bundles) items.push({ id, w, h, after: before(members[0]!) });
  const layout = layered(items);
  const whole: Scene = { boxes: [], wires: [], loops: [], blocks: [], w: layout.w, h: layout.h };
  const { boxes, wires } = whole;
  for (const step of flow.nodes) {
    const bundle = within.get(step.name);
    const { x, y } = layout.at.get(bundle?.id ?? step.name)!;
    const spot = bundle?.at.get(step.name);
    const place = spot ? { x: x + spot.x, y: y + spot.y, w: spot.w, h: H } : { x, y, ...sizeOf(step, inner) };
    const box = boxOf(step, prefix, state, place);
    const scene = inner.get(step.name);
    boxes.push({ ...box, type: scene === undefined ? "step" : "frame", isOpen: scene !== undefined });
    if (scene !== undefined) put(scene, x + (box.w - scene.w) / 2, y + HEAD, whole);
  }
  for (const { id, w, h } of bundles) whole.blocks.push({ key: prefix + id, ...layout.at.get(id)!, w, h });
  const names = (id: string) => bundles.find((bundle) => bundle.id === id)?.members.map((step) => step.name) ?? [id];
  for (const line of layout.lines) {
    const ways = names(line.from).flatMap((from) =>
      names(line.to).map((to) => wayOf(prefix + from, prefix + to, state)),
    );
    const way = (["taken", "idle"] as const).find((one) => ways.includes(one)) ?? "skipped";
    wires.push({ key: `${prefix}${line.from}>${line.to}`, d: curve(line.points), state: way });
  }

  function before(step: DrawnStep): string[] {
    return [...new Set([...step.after, ...step.may_follow].map((name) => within.get(name)?.id ?? name))];
  }
  const own = boxes.filter((box) => box.path.slice(prefix.length).indexOf("/") < 0 && box.type !== "more");
  const back = loopsOf(flow, prefix, own, state);
  whole.loops.push(...back);
  return back.length === 0 ? whole : withRoom(whole, back);
}

// Room for ways back: their lines and labels on the right, and a frame all round.
function withRoom(scene: Scene, back: Loop[]): Scene {
  const right = Math.max(scene.w, ...back.map((loop) => loop.x + 22 + 6.6 * loop.label.length));
  const roomy: Scene = { boxes: [], wires: [], loops: [], blocks: [], w: right + 2 * AROUND, h: scene.h + 2 * AROUND };
  put(scene, AROUND, AROUND, roomy);
  return roomy;
}

function sizeOf(step: DrawnStep, inner: Map<string, Scene>): { w: number; h: number } {
  const scene = inner.get(step.name);
  if (scene === undefined) return { w: widthOf(step.name), h: H };
  return { w: Math.max(widthOf(step.name), scene.w + 2 * PAD), h: scene.h + HEAD + PAD };
}

function isSmall(step: DrawnStep, state: GraphState, path: string): boolean {
  return step.items === null ? step.flow!.nodes.length <= 12 : state.items(path, step).count > 0;
}

function boxOf(
  step: DrawnStep,
  prefix: string,
  state: GraphState,
  place: { x: number; y: number; w: number; h: number },
): Box {
  const path = prefix + step.name;
  const box: Box = {
    type: "step",
    path,
    name: step.name,
    ...place,
    status: state.step(path)?.status ?? state.blank,
    step,
    isOpen: false,
    ending: state.ending(path),
    began: state.began(path),
  };
  if (step.items === null) return box;
  const { count } = state.items(path, step);
  const size = step.flow?.nodes.length ?? 0;
  let done = 0;
  let failed = 0;
  for (let index = 0; index < count; index += 1) {
    const status = statusOf(state.inside(`${path}/${index}/`), size);
    if (status === "completed") done += 1;
    if (status === "failed") failed += 1;
  }
  return { ...box, count, done, failed };
}

function insideOf(step: DrawnStep, path: string, state: GraphState, folding: Folding): Scene {
  if (step.items === null) return sceneOf(step.flow!, state, folding, `${path}/`);
  const { count, labels } = state.items(path, step);
  const size = step.flow!.nodes.length;
  const shown = Math.min(count, folding.shown(path));
  const scene: Scene = { boxes: [], wires: [], loops: [], blocks: [], w: 0, h: 0 };
  const opened: { box: Box; inner: Scene }[] = [];
  const folded: Box[] = [];
  for (let index = 0; index < shown; index += 1) {
    const at = `${path}/${index}`;
    const label = labels[index];
    const box: Box = {
      type: "item",
      path: at,
      name: label === undefined ? `item ${index}` : `${index} · ${label}`,
      x: 0,
      y: 0,
      w: ITEM_W,
      h: ITEM_H,
      status: statusOf(state.inside(`${at}/`), size),
      step: undefined,
      isOpen: false,
      ending: "",
      began: null,
    };
    if (folding.isOpen(at, count <= 4 && size <= 4))
      opened.push({ box: { ...box, isOpen: true }, inner: sceneOf(step.flow!, state, folding, `${at}/`) });
    else folded.push(box);
  }
  if (count > shown)
    folded.push({
      type: "more",
      path,
      name: `${count - shown} more`,
      x: 0,
      y: 0,
      w: ITEM_W,
      h: ITEM_H,
      status: undefined,
      step: undefined,
      isOpen: false,
      ending: "",
      began: null,
    });
  for (const { box, inner } of opened) {
    box.x = scene.w > 0 ? scene.w + PAD : 0;
    box.w = inner.w + 2 * PAD;
    box.h = inner.h + HEAD - 4 + PAD;
    scene.boxes.push(box);
    put(inner, box.x + PAD, HEAD - 4, scene);
    scene.w = box.x + box.w;
    scene.h = Math.max(scene.h, box.h);
  }
  const columns = Math.max(1, Math.min(folded.length, Math.max(4, Math.floor((scene.w + 10) / (ITEM_W + 10)))));
  const top = scene.h > 0 ? scene.h + PAD : 0;
  for (const [index, box] of folded.entries()) {
    box.x = (index % columns) * (ITEM_W + 10);
    box.y = top + Math.floor(index / columns) * (ITEM_H + 8);
    scene.boxes.push(box);
    scene.w = Math.max(scene.w, box.x + ITEM_W);
    scene.h = Math.max(scene.h, box.y + ITEM_H);
  }
  return scene;
}

// Draws a scene into another one.
function put(scene: Scene, dx: number, dy: number, into: Scene): void {
  const shifted = <T extends { x: number; y: number }>(one: T): T => ({ ...one, x: one.x + dx, y: one.y + dy });
  into.boxes.push(...scene.boxes.map(shifted));
  into.blocks.push(...scene.blocks.map(shifted));
  into.wires.push(...scene.wires.map((wire) => ({ ...wire, d: moved(wire.d, dx, dy) })));
  into.loops.push(
    ...scene.loops.map((loop) => ({
      ...shifted(loop),
      d: moved(loop.d, dx, dy),
      frame: loop.frame && shifted(loop.frame),
    })),
  );
}

function moved(d: string, dx: number, dy: number): string {
  return d.replace(
    /(-?[\d.]+) (-?[\d.]+)/g,
    (_, x, y) => `${Math.round((Number(x) + dx) * 10) / 10} ${Math.round((Number(y) + dy) * 10) / 10}`,
  );
}

function wayOf(from: string, to: string, state: GraphState): Wire["state"] {
  const before = state.step(from);
  const after = state.step(to);
  if (after?.status === "skipped" || before?.status === "skipped") return "skipped";
  return before?.started && after?.started ? "taken" : "idle";
}
