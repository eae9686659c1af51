// Follows a stream of the server, for as long as there is something to come, over lost connections and restarted servers.

import { reach, Refused, refusalOf } from "./api";
import { noteLost, noteUp } from "./connection";

export interface Following {
  on: Record<string, (data: never) => void>; // by the event's name; `snapshot` and `resync` carry everything anew
  batch?: () => void; // after each piece that arrived: many events, one reason to draw
  ended?: () => void; // its subject is over
  refused?: (why: Refused) => void; // it will never come: the subject is not there, or not for this token
}

const SILENCE = 45_000; // the server gives a sign of life every 15 s
const FIRST_WAIT = 500;
const LONGEST_WAIT = 15_000;

// Begins to follow; returns what ends it.
export function follow(path: string, following: Following): () => void {
  const stream = new Stream(path, following);
  void stream.run();
  return () => stream.leave();
}

class Stream {
  private last = "";
  private wait = FIRST_WAIT;
  private isOver = false;
  private cut = new AbortController();
  private wake: () => void = () => {};

  constructor(
    private readonly path: string,
    private readonly following: Following,
  ) {}

  leave(): void {
    this.isOver = true;
    noteUp(this);
    this.cut.abort();
    this.wake();
  }

  async run(): Promise<void> {
    while (!this.isOver) {
      try {
        await this.connect();
      } catch (error) {
        if (error instanceof Refused && [400, 401, 403, 404].includes(error.status)) {
          this.leave();
          this.following.refused?.(error);
        }
      }
      if (!this.isOver) await this.pause();
    }
  }

  private async connect(): Promise<void> {
    this.cut = new AbortController();
    let silent = setTimeout(() => this.cut.abort(), SILENCE);
    try {
      const headers = this.last ? { "Last-Event-ID": this.last } : undefined;
      const answer = await reach(`api/v1/${this.path}`, { signal: this.cut.signal, ...(headers && { headers }) });
      if (!answer.ok || answer.body === null) throw await refusalOf(answer);
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = "";
      for (let piece = await reader.read(); !piece.done && !this.isOver; piece = await reader.read()) {
        noteUp(this);
        this.wait = FIRST_WAIT;
        clearTimeout(silent);
        silent = setTimeout(() => this.cut.abort(), SILENCE);
        const frames = (rest + piece.value).split("\n\n");
        rest = frames.pop() ?? "";
        for (const frame of frames) this.take(frame);
        this.following.batch?.();
      }
    } finally {
      clearTimeout(silent);
    }
  }

  private take(frame: string): void {
    const told: Record<string, string> = {};
    for (const line of frame.split("\n")) {
      const colon = line.indexOf(": ");
      if (colon > 0) told[line.slice(0, colon)] = line.slice(colon + 2);
    }
    if (told.id !== undefined) this.last = told.id;
    if (told.event === "end") {
      this.leave();
      this.following.ended?.();
    } else if (told.event !== undefined && told.data !== undefined) {
      this.following.on[told.event]?.(JSON.parse(told.data) as never);
    }
  }

  private async pause(): Promise<void> {
    const wait = this.wait * (0.8 + 0.4 * Math.random()); // pages that lost one server do not come back all at once
    this.wait = Math.min(this.wait * 2, LONGEST_WAIT);
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, wait);
      this.wake = () => {
        clearTimeout(timer);
        resolve();
      };
      noteLost(this, Date.now() + wait, this.wake);
      addEventListener("online", this.wake, { once: true });
    });
    removeEventListener("online", this.wake);
    if (!this.isOver) noteLost(this, 0, () => {});
  }
}
