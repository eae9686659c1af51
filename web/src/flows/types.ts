export interface Finding {
  severity: string;
  code: string;
  file: string;
  line: number;
  column: number;
  message: string;
  fix: string;
}

export interface Checked {
  valid: boolean;
  findings: Finding[];
}
