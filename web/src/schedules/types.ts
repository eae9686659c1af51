export interface Tick {
  id: number;
  due: string;
  at: string;
  outcome: string;
  reason: string;
  job_id: string | null;
}

export interface TickPage {
  ticks: Tick[];
  next: number | null;
}

export interface Schedule {
  id: string;
  name: string;
  flow: string;
  kind: "cron" | "poll";
  cron: string;
  timezone: string;
  every_seconds: number;
  command: string | string[];
  call: string;
  inputs: Record<string, unknown>;
  labels: Record<string, string>;
  overlap: string;
  cooldown_seconds: number;
  catch_up: string;
  pause_after_errors: number;
  status: "active" | "paused";
  reason: string;
  errors: number;
  cursor: unknown;
  next_at: string | null;
  last_tick: Tick | null;
  created: string;
}

export const OUTCOMES: Record<string, [string, string]> = {
  fired: ["completed", "A job was submitted"],
  queued: ["queued", "It waits for the job before it to end"],
  skipped: ["skipped", "Left out, for the reason given"],
  missed: ["warning", "Nobody was there when it was due"],
  failed: ["failed", "It ended in an error"],
  nothing: ["idle", "The check found no reason to fire"],
};
