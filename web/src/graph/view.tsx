import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { Icon } from "../parts";
import type { DrawnFlow } from "../types";
import { plural } from "../words";
import { BoxShape, type Doing } from "./nodes";
import { type Box, sceneOf } from "./scene";
import { type GraphState, NOTHING } from "./state";

const EDGE = 24;
const FIRST_ITEMS = 12;
const MORE_ITEMS = 48;
const SMALLEST = 0.15;
const READABLE = 0.75;
const LARGEST = 2;

interface GraphProps {
  flow: DrawnFlow;
  state?: GraphState; // none: the flow itself, of no job
  version?: number; // changes whenever the state does
  chosen?: string;
  choose?: (path: string) => void;
}

// A flow as a picture that can be walked through: drag or scroll, zoom, arrow keys between steps, Enter to choose.
export function Graph(props: GraphProps) {
  const [folds, setFolds] = useState<ReadonlyMap<string, boolean>>(new Map());
  const [shown, setShown] = useState<ReadonlyMap<string, number>>(new Map());
  const [zoom, setZoom] = useState(1);
  const [focus, setFocus] = useState("");
  const view = useRef<HTMLDivElement>(null);
  const drawn = useRef(0); // the zoom that is drawn; 0 before anything is
  const middle = useRef<{ x: number; y: number }>();
  const state = props.state ?? NOTHING;

  const scene = useMemo(
    () =>
      sceneOf(props.flow, state, {
        isOpen: (path, byDefault) => folds.get(path) ?? byDefault,
        shown: (path) => shown.get(path) ?? FIRST_ITEMS,
      }),
    [props.flow, props.version, folds, shown],
  );
  const w = scene.w + 2 * EDGE;
  const h = scene.h + 2 * EDGE;

  function fit() {
    const place = view.current;
    if (place === null) return;
    const whole = Math.min(1, (place.clientWidth - 2) / w, Math.max(260, innerHeight * 0.62) / h);
    setZoom(Math.max(SMALLEST, whole));
  }
  useLayoutEffect(() => {
    const place = view.current!;
    const before = drawn.current;
    drawn.current = zoom;
    if (before === 0) {
      setZoom(Math.max(READABLE, Math.min(1, (place.clientWidth - 2) / w))); // all of it, if that can be read
      middle.current = startOf(scene.boxes);
    }
    // What is in the middle stays there.
    const { x, y } = middle.current ?? {
      x: (place.scrollLeft + place.clientWidth / 2) / before - EDGE,
      y: (place.scrollTop + place.clientHeight / 2) / before - EDGE,
    };
    place.scrollTo((x + EDGE) * zoom - place.clientWidth / 2, (y + EDGE) * zoom - place.clientHeight / 2);
    if (before !== 0) middle.current = undefined;
  }, [zoom]);
  useEffect(() => {
    if (props.chosen) elementOf(view.current, props.chosen)?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }, [props.chosen]);

  const doing: Doing = {
    chosen: props.chosen ?? "",
    choose: (path) => props.choose?.(path),
    fold: (path, isOpen) => setFolds(new Map(folds).set(path, isOpen)),
    more: (path) => setShown(new Map(shown).set(path, (shown.get(path) ?? FIRST_ITEMS) + MORE_ITEMS)),
  };
  const current = scene.boxes.some((box) => box.path === focus) ? focus : (scene.boxes[0]?.path ?? "");

  function move(event: KeyboardEvent) {
    const way = ARROWS[event.key];
    const from = scene.boxes.find((box) => box.path === (event.target as Element).getAttribute("data-box"));
    if (way === undefined || from === undefined) return;
    event.preventDefault();
    const next = nearest(from, scene.boxes, way);
    if (next === undefined) return;
    setFocus(next.path);
    const element = elementOf(view.current, next.path);
    element?.focus({ preventScroll: true });
    element?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  return (
    <div class="graph-part">
      <div class="graph-tools" role="group" aria-label="Zoom">
        <span class="small quiet">{plural(props.flow.nodes.length, "step")}</span>
        <button
          type="button"
          class="bare"
          aria-label="Zoom out"
          onClick={() => setZoom(Math.max(SMALLEST, zoom / 1.25))}
        >
          <Icon name="minus" />
        </button>
        <button
          type="button"
          class="bare number"
          aria-label={`${Math.round(zoom * 100)} %, actual size`}
          onClick={() => setZoom(1)}
        >
          {Math.round(zoom * 100)} %
        </button>
        <button type="button" class="bare" aria-label="Zoom in" onClick={() => setZoom(Math.min(LARGEST, zoom * 1.25))}>
          <Icon name="plus" />
        </button>
        <button type="button" class="bare" aria-label="Fit" title="Show all of it" onClick={fit}>
          <Icon name="fit" />
        </button>
      </div>
      <div
        class="graph-view"
        ref={view}
        onKeyDown={move}
        onPointerDown={(event) => drag(event, view.current!)}
        onWheel={(event) => {
          if (!event.ctrlKey && !event.metaKey) return;
          event.preventDefault();
          setZoom(Math.min(LARGEST, Math.max(SMALLEST, zoom * (event.deltaY < 0 ? 1.1 : 1 / 1.1))));
        }}
      >
        <svg
          class="graph"
          width={Math.ceil(w * zoom)}
          height={Math.ceil(h * zoom)}
          viewBox={`${-EDGE} ${-EDGE} ${w} ${h}`}
          role="group"
          aria-label={`Steps of ${props.flow.name}`}
        >
          <defs>
            <marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">
              <path d="M0.5 0.8 7 4 0.5 7.2Z" fill="context-stroke" />
            </marker>
          </defs>
          {scene.blocks.map((block) => (
            <rect key={block.key} class="block" x={block.x} y={block.y} width={block.w} height={block.h} rx={12} />
          ))}
          {scene.loops.map(
            (loop) =>
              loop.frame && (
                <rect
                  key={loop.key}
                  class={`loop-frame ${loop.isTaken ? "is-taken" : ""}`}
                  x={loop.frame.x}
                  y={loop.frame.y}
                  width={loop.frame.w}
                  height={loop.frame.h}
                  rx={12}
                />
              ),
          )}
          {scene.boxes.filter(isAround).map((box) => (
            <BoxShape
              key={box.path}
              box={box}
              state={state.step(box.path)}
              doing={doing}
              isFocus={box.path === current}
            />
          ))}
          {scene.wires.map((wire) => (
            <path key={wire.key} class={`wire is-${wire.state}`} d={wire.d} marker-end="url(#arrow)" />
          ))}
          {scene.boxes
            .filter((box) => !isAround(box))
            .map((box) => (
              <BoxShape
                key={box.type + box.path}
                box={box}
                state={state.step(box.path)}
                doing={doing}
                isFocus={box.path === current}
              />
            ))}
          {scene.loops.map((loop) => (
            <g key={loop.key} class={`loop ${loop.isTaken ? "is-taken" : ""}`}>
              <path class="wire" d={loop.d} marker-end="url(#arrow)" />
              <text x={loop.x + 4} y={loop.y + 4}>
                ↻ {loop.label}
              </text>
            </g>
          ))}
        </svg>
      </div>
    </div>
  );
}

function isAround(box: Box): boolean {
  return box.type === "frame" || (box.type === "item" && box.isOpen);
}

const ARROWS: Record<string, [number, number]> = {
  ArrowDown: [0, 1],
  ArrowUp: [0, -1],
  ArrowLeft: [-1, 0],
  ArrowRight: [1, 0],
};

// The box that lies nearest in a direction; what lies aside counts twice.
function nearest(from: Box, boxes: Box[], [dx, dy]: [number, number]): Box | undefined {
  let best: Box | undefined;
  let least = Infinity;
  const head = (box: Box) => ({ x: box.x + box.w / 2, y: box.y + Math.min(box.h, 40) / 2 });
  const a = head(from);
  for (const box of boxes) {
    const b = head(box);
    const ahead = (b.x - a.x) * dx + (b.y - a.y) * dy;
    const aside = Math.abs((b.x - a.x) * dy) + Math.abs((b.y - a.y) * dx);
    if (box === from || ahead < 4) continue;
    const far = ahead + 2 * aside;
    if (far < least) [best, least] = [box, far];
  }
  return best;
}

function elementOf(place: HTMLElement | null, path: string): SVGElement | null {
  return place?.querySelector<SVGElement>(`[data-box="${CSS.escape(path)}"]`) ?? null;
}

// Where to look first: at what is at work, waits or has failed, else at the beginning.
function startOf(boxes: Box[]): { x: number; y: number } {
  const box = boxes.find((one) => ["running", "waiting", "failed"].includes(one.status ?? "")) ?? boxes[0];
  return box === undefined ? { x: 0, y: 0 } : { x: box.x + box.w / 2, y: box.y + Math.min(box.h, 60) / 2 };
}

// Drags what is seen, with a mouse; fingers scroll by themselves.
function drag(event: PointerEvent, place: HTMLDivElement): void {
  if (event.pointerType !== "mouse" || event.button !== 0 || (event.target as Element).closest("[role=button]")) return;
  const begin = { x: event.clientX + place.scrollLeft, y: event.clientY + place.scrollTop };
  const cut = new AbortController();
  const how = { signal: cut.signal };
  place.classList.add("is-dragged");
  addEventListener("pointermove", (now) => place.scrollTo(begin.x - now.clientX, begin.y - now.clientY), how);
  const stop = () => {
    cut.abort();
    place.classList.remove("is-dragged");
  };
  addEventListener("pointerup", stop, how);
  addEventListener("pointercancel", stop, how);
}
