// What a run does, folded from its events in the order they come.

import type { Step, StepStatus } from "../types";
import { AROUND, CLOSES, OPENS, ofCallId, RUN_STATUSES } from "./kinds";
import type { Act, Told } from "./types";

const KEPT = 1000; // events that are listed
const MOST = 200_000; // characters that are kept of one text

export class RunModel {
  acts: Act[] = [];
  events: Told[] = [];
  count = 0;
  status = "";
  error = "";
  private byKey = new Map<string, Act>();
  private under = new Map<string, Act | undefined>(); // by an event that opens something: the act that what is inside belongs to
  private runs = new Map<string, Act | undefined>(); // by a run: the act that it is a part of
  private seen = new Set<string>();

  constructor(private readonly root: string) {}

  clear(): void {
    Object.assign(this, new RunModel(this.root));
  }

  take(told: Told): void {
    if (told.id && this.seen.has(told.id)) return;
    if (told.id) this.seen.add(told.id);
    this.status = (told.run_id === this.root && RUN_STATUSES[told.type]) || this.status;
    if (told.type === "run_failed" && told.run_id === this.root) this.error = String(told.data.error ?? "");
    if (told.type === "run_started") this.enter(told);
    else if (told.type.endsWith("_chunk") || told.type === "llm_stream_restarted") return this.chunk(told);
    else if (told.type in OPENS) this.open(told);
    else if (told.type in CLOSES) this.close(told);
    this.list(told);
  }

  // The steps of the run itself, as its picture shows them.
  steps(): Map<string, Step> {
    const found = new Map<string, Step>();
    for (const act of this.acts) {
      if (act.run_id !== this.root || !["method", "task", "step"].includes(act.kind)) continue;
      const attempt = (found.get(act.name)?.attempt ?? 0) + 1;
      found.set(act.name, { path: act.name, status: act.status as StepStatus, executor: act.kind, attempt, reason: act.error, started: act.started, ended: act.ended, outputs: act.result });
    }
    return found;
  }

  private list(told: Told): void {
    this.count += 1;
    this.events.push(told);
    if (this.events.length > 2 * KEPT) this.events = this.events.slice(-KEPT);
  }

  private enter(told: Told): void {
    const within = told.run_id === this.root ? undefined : this.parentOf(told);
    this.runs.set(told.run_id, within);
    this.under.set(told.id, within);
  }

  private parentOf(told: Told): Act | undefined {
    if (told.parent_id && this.under.has(told.parent_id)) return this.under.get(told.parent_id);
    const own = this.lastOpen((act) => act.run_id === told.run_id);
    if (own !== undefined || told.type !== "run_started") return own ?? this.runs.get(told.run_id);
    return this.lastOpen(() => true);
  }

  private lastOpen(fits: (act: Act) => boolean): Act | undefined {
    for (let at = this.acts.length - 1; at >= 0; at -= 1) {
      const act = this.acts[at]!;
      if (act.ended === null && !["model", "tool", "person"].includes(act.kind) && fits(act)) return act;
    }
    return undefined;
  }

  private open(told: Told): void {
    const { kind, name, key } = OPENS[told.type]!;
    const parent = this.siblingsParent(kind, told);
    if (told.run_id === this.root && AROUND.includes(kind)) {
      this.under.set(told.id, undefined);
      return;
    }
    const act: Act = {
      key: key(told), kind, name: name(told) || kind, depth: parent === undefined ? 0 : parent.depth + 1, status: "running", started: told.at, ended: null,
      text: "", thinking: "", given: givenOf(told), result: undefined, error: "", tokens: 0, run_id: told.run_id,
    };
    this.acts.push(act);
    this.byKey.set(act.key, act);
    this.under.set(told.id, act);
  }

  // Methods, tasks and steps of one run stand beside each other, also while several are at work.
  private siblingsParent(kind: string, told: Told): Act | undefined {
    if (told.parent_id && this.under.has(told.parent_id)) return this.under.get(told.parent_id);
    if (!["method", "task", "step"].includes(kind)) return this.parentOf(told);
    return this.lastOpen((act) => act.run_id === told.run_id && AROUND.includes(act.kind)) ?? this.runs.get(told.run_id);
  }

  private close(told: Told): void {
    const { status, opener } = CLOSES[told.type]!;
    const act = this.byKey.get(OPENS[opener]!.key(told)) ?? this.openUnseen(told, opener);
    if (act === undefined) return;
    const { data } = told;
    act.status = status;
    if (status !== "waiting") act.ended = told.at;
    act.error = String(data.error ?? data.reason ?? "");
    act.result = data.result ?? data.output ?? data.response ?? data.feedback ?? data.values ?? data.text ?? undefined;
    act.tokens = Object.entries((data.usage ?? {}) as Record<string, number>).reduce((sum, [kind, n]) => (/^(input|output)/.test(kind) && !kind.includes("cached") ? sum + n : sum), 0);
    if (act.kind === "model") finishCall(act, data.response);
  }

  // Who joins in the middle sees the end of things that nobody told the beginning of.
  private openUnseen(told: Told, opener: string): Act | undefined {
    if (opener === "human_input_requested") return undefined;
    this.open({ ...told, id: "", type: opener });
    const act = this.byKey.get(OPENS[opener]!.key(told));
    if (act !== undefined) act.started = null;
    return act;
  }

  private chunk(told: Told): void {
    const isOutput = told.type === "step_output_chunk";
    const act = isOutput ? this.lastOpen((one) => one.kind === "step" && one.name === told.data.name) : this.callOf(told);
    if (act === undefined) return;
    if (told.type === "llm_stream_restarted") act.text = act.thinking = "";
    else if (told.type === "llm_thinking_chunk") act.thinking = (act.thinking + told.data.chunk).slice(-MOST);
    else act.text = (act.text + told.data.chunk).slice(-MOST);
  }

  private callOf(told: Told): Act | undefined {
    return this.byKey.get(ofCallId(told)) ?? this.openUnseen(told, "llm_call_started");
  }
}

function givenOf(told: Told): unknown {
  const { data } = told;
  return data.tool_args ?? data.params ?? data.task_prompt ?? (data.description || undefined) ?? undefined;
}

function finishCall(act: Act, response: any): void {
  const parts: any = response?.message?.parts;
  const list: any[] = Array.isArray(parts) ? parts : Array.isArray(parts?.$tuple) ? parts.$tuple : [];
  const said = (kind: string) => list.filter((part) => part?.kind === kind).map((part) => String(part.text ?? "")).join("");
  act.text = said("text") || act.text;
  act.thinking = said("thought") || act.thinking;
  const calls = list.filter((part) => part?.kind === "tool_call").map((part) => String(part.name));
  act.result = list.length > 0 ? (calls.length > 0 ? `asks for ${calls.join(", ")}` : undefined) : response;
}
