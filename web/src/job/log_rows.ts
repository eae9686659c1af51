// Live output as lines: pieces of one line that came one after another are put together.

import type { LogLine } from "../types";

export interface LogRow {
  number: number;
  step: string;
  channel: string;
  at: string;
  text: string;
}

const MOST = 50_000;

export class Log {
  rows: LogRow[] = [];
  version = 0;
  isCut = false; // whether older lines are not here
  private open = new Map<string, LogRow>();
  private last = "";
  private count = 0;

  begin(lines: LogLine[]): void {
    this.rows = [];
    this.open.clear();
    this.last = "";
    this.isCut = lines.length > 0 && JSON.stringify(lines).length > 200_000;
    for (const line of lines) this.add(line);
  }

  // The whole of it, read page by page. What came meanwhile stays.
  replace(lines: LogLine[]): void {
    const until = lines[lines.length - 1]?.at ?? "";
    const newer = this.rows.filter((row) => row.at > until);
    this.begin(lines);
    this.isCut = false;
    this.rows.push(...newer);
    this.version += 1;
  }

  add(line: LogLine): void {
    this.version += 1;
    this.last = line.at;
    if (line.channel === "step" || line.channel === "human") return this.push(line, line.text);
    const key = `${line.step} ${line.channel}`;
    const parts = line.text.split("\n");
    const open = this.open.get(key);
    if (open !== undefined) open.text += parts.shift()!;
    for (const [index, part] of parts.entries()) {
      if (index < parts.length - 1 || part !== "") this.push(line, part);
    }
    const ended = line.text.endsWith("\n");
    const newest = this.rows[this.rows.length - 1];
    if (ended) this.open.delete(key);
    else if (parts.length > 0 && newest !== undefined) this.open.set(key, newest);
  }

  private push(line: LogLine, text: string): void {
    this.rows.push({ number: this.count++, step: line.step, channel: line.channel, at: line.at, text });
    if (this.rows.length > MOST) {
      this.rows.splice(0, MOST / 10);
      this.isCut = true;
    }
  }

  get lastAt(): string {
    return this.last;
  }
}

// What a step's model or agent has said so far, in its last attempt.
export function spoken(rows: LogRow[], path: string): { thinking: string; text: string } {
  const said = { thinking: [] as string[], text: [] as string[] };
  for (let index = rows.length - 1; index >= 0; index -= 1) {
    const row = rows[index]!;
    if (row.step !== path) continue;
    if (row.channel === "step" && row.text.startsWith("started")) break;
    if (row.channel === "thinking" || row.channel === "text") said[row.channel].push(row.text);
  }
  return { thinking: said.thinking.reverse().join("\n"), text: said.text.reverse().join("\n") };
}
