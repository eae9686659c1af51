import type { Role } from "../types";

export interface QueueSettings {
  places: number;
  total: number | null;
  caps: Record<string, number>;
  counts_at_once: boolean;
}

export interface ServerSettings {
  version: string;
  project: string | null;
  has_queue: boolean;
  limits: Record<string, unknown>;
  queue: QueueSettings | null;
}

export interface Token {
  id: string;
  name: string;
  role: Role;
  created: string;
  expires: string | null;
  is_mine: boolean;
}

export interface MadeToken {
  name: string;
  role: Role;
  token: string;
}
