import { useTick } from "../hooks";
import { iconPath } from "../parts/icon";
import type { Step } from "../types";
import { stretch } from "../words";
import type { Box } from "./scene";

export interface Doing {
  chosen: string;
  choose: (path: string) => void;
  fold: (path: string, isOpen: boolean) => void;
  more: (path: string) => void;
}

const KINDS: Record<string, string> = {
  script: "script",
  llm: "model",
  agent: "agent",
  external: "person",
  for_each: "for each",
  flow: "sub-flow",
};

export function kindName(kind: string): string {
  return KINDS[kind] ?? kind;
}

function cut(text: string, length: number): string {
  return text.length > length ? `${text.slice(0, length - 1)}…` : text;
}

export function BoxShape(props: { box: Box; state: Step | undefined; doing: Doing; isFocus: boolean }) {
  const { box } = props;
  if (box.type === "more") return <MoreShape box={box} doing={props.doing} />;
  if (box.type === "item" && !box.isOpen) return <ItemShape box={box} doing={props.doing} />;
  return <StepShape {...props} />;
}

function StepShape(props: { box: Box; state: Step | undefined; doing: Doing; isFocus: boolean }) {
  const { box, state, doing } = props;
  const isItem = box.type === "item";
  const isFrame = box.type === "frame" || isItem;
  const status = box.status ?? "pending";
  const now = useTick(1000, status === "running" && !isItem);
  const canFold = isItem || box.step?.flow != null;
  const under = isItem ? "" : underline(box, state, now);
  const act = () => (isItem ? doing.fold(box.path, false) : doing.choose(box.path));
  return (
    <g
      class={`box ${isFrame ? "frame-box" : "step-box"} is-${status} ${doing.chosen === box.path ? "is-chosen" : ""}`}
      transform={`translate(${box.x} ${box.y})`}
    >
      <rect class="ground" width={box.w} height={box.h} rx={isItem ? 7 : 9} />
      <g
        class="hit"
        role="button"
        tabindex={props.isFocus ? 0 : -1}
        data-box={box.path}
        aria-label={`${box.name}: ${[box.status ?? "step", box.count === undefined ? "" : `${box.done} of ${box.count} items done`, (state?.attempt ?? 1) > 1 ? `attempt ${state!.attempt}` : ""].filter(Boolean).join(", ")}`}
        aria-pressed={isItem ? undefined : doing.chosen === box.path}
        onClick={act}
        onKeyDown={(event) => {
          if (event.key === "Enter" || event.key === " ") {
            event.preventDefault();
            act();
          } else if (canFold && (event.key === "+" || event.key === "-")) {
            event.preventDefault();
            doing.fold(box.path, event.key === "+");
          }
        }}
      >
        <title>
          {box.name}
          {box.step?.description ? `\n${box.step.description}` : ""}
        </title>
        <rect class="face" width={box.w} height={isFrame ? 38 : box.h} rx={isItem ? 7 : 9} />
        {box.status === undefined ? (
          <circle class="dot" cx={20} cy={isFrame ? 19 : 21} r={4} />
        ) : (
          <StatusShape status={status} x={12} y={isFrame ? 11 : 13} />
        )}
        <text class="name" x={36} y={isFrame ? (isItem ? 23 : 18) : 25}>
          {cut(box.name, Math.floor((box.w - 72) / 7.4))}
        </text>
        {isItem ? null : (
          <text class={`under ${box.ending ? "ending" : ""}`} x={36} y={isFrame ? 32 : 43}>
            {cut(under, Math.floor((box.w - 40) / 5.8))}
          </text>
        )}
      </g>
      {canFold ? <FoldShape box={box} doing={doing} /> : null}
      {state !== undefined && state.attempt > 1 ? (
        <g class="times" transform={`translate(${box.w - (canFold ? 66 : 40)} ${isFrame ? 10 : 9})`}>
          <rect width={30} height={18} rx={9} />
          <text x={15} y={13}>
            ×{state.attempt}
          </text>
        </g>
      ) : null}
    </g>
  );
}

function underline(box: Box, state: Step | undefined, now: number): string {
  const kind = kindName(box.step?.kind ?? "");
  if (box.ending) return box.ending;
  if (box.count) return `${kind} · ${box.done} of ${box.count} done${box.failed ? `, ${box.failed} failed` : ""}`;
  const began = Date.parse(box.began ?? "");
  if (began && state?.ended) return `${kind} · ${stretch(Date.parse(state.ended) - began)}`;
  if (began && box.status === "running") return `${kind} · running ${stretch(now - began)}`;
  return box.status === undefined ? kind : `${kind} · ${box.status}`;
}

export function StatusShape(props: { status: string; x: number; y: number }) {
  return (
    <g class="status-shape" transform={`translate(${props.x} ${props.y})`}>
      <path class={props.status === "running" ? "spins" : ""} d={iconPath(props.status)} />
    </g>
  );
}

function FoldShape(props: { box: Box; doing: Doing }) {
  const { box, doing } = props;
  return (
    <g
      class="fold"
      role="button"
      tabindex={-1}
      aria-expanded={box.isOpen}
      aria-label={`${box.isOpen ? "Close" : "Open"} ${box.name}`}
      transform={`translate(${box.w - 32} 8)`}
      onClick={() => doing.fold(box.path, !box.isOpen)}
    >
      <rect width={24} height={24} rx={5} />
      <path d={iconPath(box.isOpen ? "minus" : "plus")} transform="translate(4 4)" />
    </g>
  );
}

function ItemShape(props: { box: Box; doing: Doing }) {
  const { box, doing } = props;
  const open = () => doing.fold(box.path, true);
  return (
    <g
      class={`box item-box is-${box.status}`}
      transform={`translate(${box.x} ${box.y})`}
      role="button"
      tabindex={-1}
      data-box={box.path}
      aria-label={`${box.name}: ${box.status}`}
      aria-expanded="false"
      onClick={open}
      onKeyDown={(event) => event.key === "Enter" && open()}
    >
      <title>{box.name}</title>
      <rect class="ground" width={box.w} height={box.h} rx={7} />
      <StatusShape status={box.status ?? "pending"} x={8} y={8} />
      <text class="name" x={30} y={21}>
        {cut(box.name, 18)}
      </text>
    </g>
  );
}

function MoreShape(props: { box: Box; doing: Doing }) {
  const { box, doing } = props;
  const more = () => doing.more(box.path);
  return (
    <g
      class="box more-box"
      transform={`translate(${box.x} ${box.y})`}
      role="button"
      tabindex={-1}
      data-box={`${box.path}/more`}
      onClick={more}
      onKeyDown={(event) => event.key === "Enter" && more()}
    >
      <rect class="ground" width={box.w} height={box.h} rx={7} />
      <text class="name" x={box.w / 2} y={21}>
        {box.name}
      </text>
    </g>
  );
}
