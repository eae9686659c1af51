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
  | "awaiting_approval"
  | "queued"
  | "running"
  | "waiting"
  | "paused"
  | "completed"
  | "failed"
  | "cancelled";

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
