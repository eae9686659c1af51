import { Component } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { get } from "../api";
import { Empty, Icon, sayProblem } from "../parts";
import type { LogLine } from "../types";
import { exactly, plural, timeOfDay } from "../words";
import type { Log, LogRow } from "./log_rows";

const BLOCK = 100;
const TOUCH_MS = 1000;

// Lines of a job's output, those of one step if asked so: follows the end until the reader scrolls up.
export function LogLines(props: {
  log: Log;
  within?: string;
  text?: string;
  label: string;
  isShort?: boolean;
  hidesSteps?: boolean;
}) {
  const { log, within = "", text = "" } = props;
  const place = useRef<HTMLDivElement>(null);
  const content = useRef<HTMLDivElement>(null);
  const height = useRef(0); // when it was scrolled last: what gets another size scrolls too, and nobody has touched it
  const touched = useRef(0);
  const [isFollowing, setFollowing] = useState(true);
  const frozen = useRef<LogRow[]>();
  const newest = useMemo(
    () => chosen(log.rows, within, text, props.hidesSteps ?? false),
    [log.rows, log.version, within, text, props.hidesSteps],
  );
  const rows = frozen.current ?? newest;
  const blocks = useMemo(() => inBlocks(rows), [rows]);
  const behind = newest.length - rows.length;

  function pause(isPaused: boolean) {
    frozen.current = isPaused ? newest : undefined;
    setFollowing(!isPaused);
  }
  useEffect(() => pause(false), [within, text, props.hidesSteps]);
  const isEmpty = rows.length === 0;
  useEffect(() => {
    if (!isFollowing || isEmpty) return;
    const toEnd = () => place.current && (place.current.scrollTop = place.current.scrollHeight);
    const grows = new ResizeObserver(toEnd); // blocks that come into sight get their true size only then
    grows.observe(content.current!);
    return () => grows.disconnect();
  }, [isFollowing, isEmpty]);

  function scrolled() {
    const at = place.current;
    if (!at || frozen.current) return;
    const isEnd = at.scrollHeight - at.scrollTop - at.clientHeight < 24;
    const isByHand = at.scrollHeight === height.current || Date.now() - touched.current < TOUCH_MS;
    height.current = at.scrollHeight;
    if (isEnd || isByHand) setFollowing(isEnd);
  }
  const touch = () => void (touched.current = Date.now());

  if (isEmpty) return <Empty title={text ? "No line has this" : "Nothing was written yet"} />;
  return (
    <div class="log-part">
      <div
        class={`log ${props.isShort ? "is-short" : ""}`}
        ref={place}
        onScroll={scrolled}
        onWheel={touch}
        onTouchMove={touch}
        onKeyDown={touch}
        onPointerDown={touch}
        role="log"
        aria-label={props.label}
        aria-live="off"
        tabIndex={0}
      >
        <div ref={content}>
          {blocks.map((block) => (
            <Block
              key={block[0]!.number}
              rows={block}
              size={block.length}
              end={block[block.length - 1]!.text.length}
              text={text}
              hasStep={!within}
            />
          ))}
        </div>
      </div>
      <button type="button" class="to-end" onClick={() => pause(isFollowing)}>
        <Icon name={isFollowing ? "paused" : "down"} />{" "}
        {isFollowing ? "Pause" : behind > 0 ? `Follow: ${plural(behind, "new line")}` : "Follow"}
      </button>
    </div>
  );
}

function chosen(rows: LogRow[], within: string, text: string, hidesSteps: boolean): LogRow[] {
  const wanted = text.toLowerCase();
  return rows.filter(
    (row) =>
      (within === "" || row.step === within || row.step.startsWith(`${within}/`)) &&
      !(hidesSteps && row.channel === "step") &&
      (wanted === "" || row.text.toLowerCase().includes(wanted) || row.step.toLowerCase().includes(wanted)),
  );
}

function inBlocks(rows: LogRow[]): LogRow[][] {
  const blocks: LogRow[][] = [];
  for (let at = 0; at < rows.length; at += BLOCK) blocks.push(rows.slice(at, at + BLOCK));
  return blocks;
}

interface BlockProps {
  rows: LogRow[];
  size: number;
  end: number;
  text: string;
  hasStep: boolean;
}

// A hundred lines, drawn again only if something about them changed; those out of sight cost the browser nothing.
class Block extends Component<BlockProps> {
  override shouldComponentUpdate(next: BlockProps): boolean {
    const { props } = this;
    return (
      next.size !== props.size ||
      next.end !== props.end ||
      next.text !== props.text ||
      next.hasStep !== props.hasStep ||
      next.size < BLOCK
    );
  }

  override render({ rows, text, hasStep }: BlockProps) {
    return (
      <div class="log-block">
        {rows.map((row) => (
          <div key={row.number} class={`log-line ch-${row.channel}`}>
            <time title={exactly(row.at)}>{timeOfDay(row.at)}</time>
            {hasStep ? <span class="log-step">{row.step}</span> : null}
            <span class="log-text">{text ? marked(row.text, text) : row.text}</span>
          </div>
        ))}
      </div>
    );
  }
}

function marked(line: string, text: string) {
  const at = line.toLowerCase().indexOf(text.toLowerCase());
  if (at < 0) return line;
  return (
    <>
      {line.slice(0, at)}
      <mark>{line.slice(at, at + text.length)}</mark>
      {line.slice(at + text.length)}
    </>
  );
}

// The whole log, with a search.
export function LogTab(props: { log: Log; jobId: string; changed: () => void }) {
  const { log } = props;
  const [text, setText] = useState("");
  const [hidesSteps, setHides] = useState(false);
  const [isReading, setReading] = useState(false);

  async function readAll() {
    setReading(true);
    try {
      const lines: LogLine[] = [];
      for (let after: number | null = 0; after !== null;) {
        const page: { lines: LogLine[]; next: number | null } = await get(`jobs/${props.jobId}/log?after=${after}`);
        lines.push(...page.lines);
        after = page.next;
      }
      log.replace(lines);
      props.changed();
    } catch (error) {
      sayProblem(error);
    }
    setReading(false);
  }

  return (
    <section class="stack tight" aria-label="Log">
      <div class="row">
        <input
          type="search"
          data-filter
          aria-label="Search the log"
          placeholder="Search the log   /"
          value={text}
          onInput={(event) => setText(event.currentTarget.value)}
        />
        <label class="choice">
          <input type="checkbox" checked={hidesSteps} onChange={(event) => setHides(event.currentTarget.checked)} />{" "}
          Output only
        </label>
        <span class="quiet small number">{plural(log.rows.length, "line")}</span>
        {log.isCut ? (
          <button type="button" disabled={isReading} onClick={() => void readAll()}>
            {isReading ? "Reading…" : "Read all of it"}
          </button>
        ) : null}
      </div>
      <LogLines log={log} text={text.trim()} label="Log of the job" hidesSteps={hidesSteps} />
    </section>
  );
}
