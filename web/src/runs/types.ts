export interface Run {
  id: string;
  kind: string;
  name: string;
  status: string;
  incarnation: number;
  is_live: boolean;
  created: string | null;
  updated: string | null;
}

// An event, as a journal has it or as it was told live.
export interface Told {
  id: string;
  type: string;
  run_id: string;
  at: string;
  data: Record<string, any>;
  path?: string[]; // live only: the names of the runs around it
  parent_id?: string | null; // of journals only
  task_name?: string | null;
  agent_role?: string | null;
}

export interface EventPage {
  events: Told[];
  next: number | null;
}

// Something that a run does, from its beginning to its end.
export interface Act {
  key: string;
  kind: string;
  name: string;
  depth: number;
  status: string;
  started: string | null; // null if nobody saw it begin
  ended: string | null;
  text: string; // what came in pieces
  thinking: string;
  given: unknown;
  result: unknown;
  error: string;
  tokens: number;
  run_id: string;
}
