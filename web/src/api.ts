// What the server says, and how it is asked. Shapes follow /openapi.json.

export interface Ask {
  id: string;
  step: string;
  message: string;
  fields: Record<string, { type?: string; description?: string; options?: unknown[]; default?: unknown; required?: boolean }>;
  expires: string | null;
}

export interface Job {
  id: string;
  flow: string;
  name: string;
  status: string;
  reason: string;
  asks: Ask[];
  inputs: unknown;
  archived: boolean;
  created: string;
  started: string | null;
  ended: string | null;
}

export interface Step {
  path: string;
  status: string;
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
  source: string | null;
  target: string;
  reason: string;
  at: string;
}

export type Condition = { type: "source"; label: string } | { type: "all" | "any"; parts: Condition[] };
export interface GraphNode {
  name: string;
  trigger: Condition | null;
  routes?: string[];
}

export class Refused extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
  ) {
    super(message);
  }
}

export async function call<T>(method: string, path: string, body?: unknown): Promise<T> {
  const answer = await fetch(`api/v1/${path}`, {
    method,
    ...(body === undefined ? {} : { body: JSON.stringify(body), headers: { "Content-Type": "application/json" } }),
  });
  if (answer.status === 204) return undefined as T;
  const said = await answer.json();
  if (!answer.ok) throw new Refused(answer.status, said.error, said.message);
  return said as T;
}

// The token of the first link is behind the #, which no server sees; it is exchanged for a cookie that no script sees.
export async function signInFromLink(): Promise<void> {
  const asked = new URLSearchParams(location.hash.slice(1));
  const token = asked.get("token");
  if (token === null) return;
  asked.delete("token"); // it must not stay in the address, nor in the history
  history.replaceState(null, "", `${location.pathname}#${asked}`);
  await call("POST", "session", { token });
}

export type Handlers = Record<string, (data: never) => void>;

// Follows a stream. The browser comes back by itself with the last id; only an end or a refusal stops it.
export function follow(path: string, handlers: Handlers, lost: (isLost: boolean) => void): () => void {
  const source = new EventSource(`api/v1/${path}`);
  for (const [event, handle] of Object.entries(handlers)) {
    source.addEventListener(event, (frame) => handle(JSON.parse((frame as MessageEvent<string>).data) as never));
  }
  source.addEventListener("open", () => lost(false));
  source.addEventListener("error", () => lost(true));
  source.addEventListener("end", () => source.close());
  return () => source.close();
}
