// What the page knows of a job: a snapshot, and what its stream tells since. One object, changed in place; `version` says so.

import { get } from "../api";
import type { Ask, Attempt, Change, DrawnFlow, Job, LogLine, Row, Step, StepStatus } from "../types";
import { Log } from "./log_rows";

const STATUSES: Record<string, StepStatus> = {
  step_started: "running",
  step_completed: "completed",
  step_failed: "failed",
  step_cancelled: "cancelled",
  step_waiting: "waiting",
  step_skipped: "skipped",
};
const SPENDING = ["llm_call_completed", "llm_call_failed", "agent_execution_completed"];
const REREAD_MS = 1000;
const MOST = 50_000;

export interface Told {
  job: Job;
  steps: Step[];
  log: LogLine[];
}

export class JobModel {
  version = 0;
  job: Job | undefined;
  flow: DrawnFlow | undefined;
  steps = new Map<string, Step>();
  attempts = new Map<string, Attempt>();
  changes: Change[] = [];
  outputs: unknown = undefined;
  log = new Log();
  problem: Error | undefined;
  isRead = false; // whether the attempts are known
  private places = new Map<string, string>();
  private within = new Map<string, string>();
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(
    readonly id: string,
    private readonly drawAgain: () => void,
  ) {
    this.places.set(id, "");
  }

  close(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
  }

  changed(): void {
    this.version += 1;
    this.drawAgain();
  }

  // Everything anew: the first frame, or one after the place in the stream was lost.
  begin(told: Told): void {
    this.job = told.job;
    this.attempts.clear();
    this.within.clear();
    this.places = new Map([[this.id, ""]]);
    this.steps = new Map(told.steps.map((step) => [step.path, step]));
    this.log.begin(told.log);
    this.reread(0);
  }

  change(one: Change): void {
    if (this.job) this.job = { ...this.job, status: one.target, reason: one.reason };
    if (!this.changes.some((known) => known.seq === one.seq)) this.changes = [...this.changes, one];
    this.reread(200); // when it began, when it ended, who works on it
  }

  asks(asks: Ask[]): void {
    if (this.job) this.job = { ...this.job, asks };
  }

  event(row: Row): void {
    if (row.type === "job_started" && row.data.called_as) this.enter(row.run_id, row.data.called_as);
    const owner = this.within.get(row.parent_id ?? "");
    if (this.within.size > MOST) this.within.clear(); // what is not found there is read again
    if (owner !== undefined) this.within.set(row.id, owner);
    if (SPENDING.includes(row.type) && row.data.usage?.total_tokens) this.used(owner, row);
    const status = STATUSES[row.type];
    if (status !== undefined && row.data.step) this.step(row, status);
    if (row.data.$omitted) this.reread(REREAD_MS);
  }

  // A flow inside a step: its steps are named after that, and after the item where there are several.
  private enter(run: string, calledAs: string): void {
    const [parent = "", call = ""] = calledAs.split(" ", 2);
    const step = call.split("#")[0]!;
    const item = /\.([^/.]*)$/.exec(call)?.[1] ?? "";
    this.places.set(run, `${this.places.get(parent) ?? ""}${step}/${item && `${item}/`}`);
  }

  private step(row: Row, status: StepStatus): void {
    const place = this.places.get(row.run_id);
    if (place === undefined) return this.reread(REREAD_MS); // it began before this page did
    const path = place + row.data.step;
    const before = this.steps.get(path);
    const isOpen = status === "running" || status === "waiting";
    this.steps.set(path, {
      path,
      executor: before?.executor ?? "",
      status,
      attempt: row.data.execution ?? before?.attempt ?? 1,
      reason: row.data.error ?? row.data.reason ?? "",
      started: status === "running" ? row.at : (before?.started ?? null),
      ended: isOpen || status === "skipped" ? null : row.at,
      outputs: status === "completed" ? row.data.result : (before?.outputs ?? null),
    });
    if (status !== "skipped") this.attempt(row, path, status);
  }

  private attempt(row: Row, path: string, status: StepStatus): void {
    const number: number = row.data.execution || 1;
    const isStart = status === "running";
    const tries = isStart ? (row.data.tries ?? 0) : this.lastTry(path, number);
    const key = `${path}#${number}.${tries}`;
    const before = this.attempts.get(key);
    this.attempts.set(key, {
      step: row.data.step,
      path,
      run_id: row.run_id,
      attempt: number,
      tries,
      is_fallback: before?.is_fallback ?? row.data.fallback ?? false,
      status,
      started: before?.started ?? row.at,
      ended: isStart || status === "waiting" ? null : row.at,
      error: isStart ? "" : (row.data.error ?? row.data.reason ?? ""),
      rule: row.data.verdict?.rule ?? "",
      action: row.data.verdict?.action ?? "",
      result: row.data.result ?? null,
      tokens: before?.tokens ?? 0,
      cost_usd: before?.cost_usd ?? 0,
    });
    if (isStart) this.within.set(row.id, key);
  }

  private lastTry(path: string, number: number): number {
    let tries = 0;
    while (this.attempts.has(`${path}#${number}.${tries + 1}`)) tries += 1;
    return tries;
  }

  private used(owner: string | undefined, row: Row): void {
    const one = owner === undefined ? undefined : this.attempts.get(owner);
    if (one === undefined) return this.reread(REREAD_MS);
    one.tokens += row.data.usage?.total_tokens ?? 0;
    one.cost_usd += row.data.cost_usd ?? 0;
  }

  // Reads what the stream does not tell, soon, and once for many reasons.
  reread(afterMs: number): void {
    this.timer ??= setTimeout(() => {
      this.timer = undefined;
      void this.read();
    }, afterMs);
  }

  private async read(): Promise<void> {
    const at = `jobs/${this.id}`;
    try {
      const [job, attempts, changes] = await Promise.all([
        get<Job>(at),
        get<Attempt[]>(`${at}/attempts`),
        get<Change[]>(`${at}/history`),
      ]);
      this.flow ??= await get<DrawnFlow>(`${at}/graph`);
      if (job.status === "completed") this.outputs = (await get<{ outputs: unknown }>(`${at}/outputs`)).outputs;
      this.job = job;
      this.changes = changes;
      for (const one of attempts) this.merge(one);
      for (const one of new Map(attempts.map((each) => [each.path, each])).values()) this.settle(one);
      this.problem = undefined;
      this.isRead = true;
    } catch (error) {
      this.problem = error as Error;
    }
    this.changed();
  }

  private merge(one: Attempt): void {
    this.places.set(one.run_id, one.path.slice(0, one.path.length - one.step.length));
    const key = `${one.path}#${one.attempt}.${one.tries}`;
    const known = this.attempts.get(key);
    if (known?.ended && !one.ended) return; // the stream was quicker
    this.attempts.set(key, one);
  }

  // A step as its last attempt says, unless more is known: what the stream told of it may have had no place yet.
  private settle(last: Attempt): void {
    const before = this.steps.get(last.path);
    if (before && (before.attempt > last.attempt || before.status === "skipped" || (before.ended && !last.ended))) return;
    this.steps.set(last.path, {
      path: last.path,
      executor: before?.executor ?? "",
      status: last.status as StepStatus,
      attempt: last.attempt,
      reason: last.error,
      started: last.started,
      ended: last.ended,
      outputs: last.status === "completed" ? last.result : (before?.outputs ?? null),
    });
  }
}
