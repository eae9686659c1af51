// What the server says. Shapes follow /openapi.json.

export type Role = "read" | "operate" | "admin";

export interface Me {
  name: string;
  role: Role;
}

export interface Field {
  type?: string;
  description?: string;
  options?: unknown[];
  default?: unknown;
  required?: boolean;
  min?: number;
  max?: number;
  sensitive?: boolean;
}

export interface Ask {
  id: string;
  step: string;
  message: string;
  fields: Record<string, Field>;
  expires: string | null;
}

export type JobStatus =
  "awaiting_approval" | "queued" | "running" | "waiting" | "paused" | "completed" | "failed" | "cancelled";

export type StepStatus = "pending" | "running" | "waiting" | "completed" | "failed" | "skipped" | "cancelled";

export interface Job {
  id: string;
  flow: string;
  name: string;
  status: JobStatus;
  reason: string;
  labels: Record<string, string>;
  priority: number;
  needs: string[];
  asks: Ask[];
  inputs: unknown;
  worker: string;
  claims: number;
  archived: boolean;
  created: string;
  updated: string;
  started: string | null;
  ended: string | null;
  wakes: string | null;
}

export interface Step {
  path: string;
  status: StepStatus;
  executor: string;
  attempt: number;
  reason: string;
  started: string | null;
  ended: string | null;
  outputs: unknown;
}

export interface LogLine {
  step: string;
  channel: string;
  text: string;
  attempt: number;
  at: string;
}

export interface Change {
  seq: number;
  job_id: string;
  source: JobStatus | null;
  target: JobStatus;
  reason: string;
  by: string;
  at: string;
}

export interface Attempt {
  step: string;
  path: string;
  run_id: string;
  attempt: number;
  tries: number;
  is_fallback: boolean;
  status: StepStatus;
  started: string | null;
  ended: string | null;
  error: string;
  rule: string;
  action: string;
  result: unknown;
  tokens: number;
  cost_usd: number;
}

export interface DrawnRule {
  name: string;
  action: string;
  target: string | null;
  max_iterations: number | null;
}

export interface DrawnStep {
  name: string;
  kind: string;
  description: string;
  after: string[];
  may_follow: string[];
  inputs: { name: string; sources: string[][] }[];
  rules: DrawnRule[];
  items: string[] | null;
  item_name: string;
  flow: DrawnFlow | null;
}

export interface DrawnFlow {
  name: string;
  nodes: DrawnStep[];
}

// An event of a journal.
export interface Row {
  seq: number;
  type: string;
  id: string;
  run_id: string;
  parent_id: string | null;
  at: string;
  data: Record<string, any>;
}

export const OVER: readonly string[] = ["completed", "failed", "cancelled"];
