import type { Run } from "../runs/types";
import type { Job } from "../types";

export interface Checkpoint {
  id: string;
  run_id: string;
  run: string;
  branch: string;
  trigger: string;
  subject: string;
  position: number;
  size: number;
  at: string;
  parent_id: string | null;
}

export interface Branch {
  name: string;
  parent: string | null;
  fork: number;
  head: number;
  created: string;
  is_current: boolean;
}

export interface Tree {
  run: Run;
  branches: Branch[];
  checkpoints: Checkpoint[];
  job: Job | null;
}

export interface RecordedStep {
  step: string;
  status: string;
  attempts: number | null;
  result: unknown;
  route: string | null;
  error: string;
}

export interface Details {
  id: string;
  run_id: string;
  branch: string;
  position: number;
  head: number;
  program: string;
  state: Record<string, unknown>;
  steps: RecordedStep[];
  usage: Record<string, number>;
}

export interface Difference {
  a: string;
  b: string;
  state: { kind: string; path: string; before: unknown; after: unknown }[];
  only_a: string[];
  only_b: string[];
  results: { step: string; before: unknown; after: unknown }[];
}

// What made a checkpoint, in words.
export function reasonOf(one: Checkpoint): string {
  if (one.trigger === "checkpoint_forked") return `${one.branch} begins`;
  const said = one.trigger.replaceAll("_", " ");
  return one.subject ? `${one.subject} · ${said}` : said;
}
