export interface Variable {
  name: string;
  type: string;
  description: string;
  required: boolean;
  sensitive: boolean;
  default: unknown;
  options: unknown[];
  example: string;
  min: number | null;
  max: number | null;
  setting: boolean;
}

export interface FlowEntry {
  flow: string;
  name: string;
  description: string;
  valid: boolean;
  steps: number;
  inputs: number;
}

export interface FlowStep {
  name: string;
  executor: string;
  description: string;
  line: number;
  column: number;
}

export interface FlowFile {
  flow: string;
  name: string;
  description: string;
  version: string;
  author: string;
  text: string;
  inputs: Variable[];
  steps: FlowStep[];
}
