export interface Held {
  kind: string;
  name: string;
  runs: string[];
  state: string;
  pid: number | null;
  processes: number;
  memory: number | null;
  since: string | null;
}

export interface Agent {
  name: string;
  title: string;
  installed: boolean;
  install: string;
  source: string;
}

export interface Worker {
  id: string;
  pid: number;
  serving: boolean;
  started: string;
  held_until: string;
}
