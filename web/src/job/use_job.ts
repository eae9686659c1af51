import { useEffect, useRef, useState } from "preact/hooks";
import type { Refused } from "../api";
import { follow } from "../stream";
import type { Ask, Change, LogLine, Row } from "../types";
import { JobModel, type Told } from "./model";

export interface Followed {
  model: JobModel;
  refused: Refused | undefined;
  followAgain: () => void; // a stream ends with its job; a retry begins it anew
}

const DRAW_MS = 40; // however much arrives; and no animation frame, which a hidden page never gets

// A job, followed.
export function useJob(id: string): Followed {
  const [, draw] = useState(0);
  const [times, setTimes] = useState(0);
  const [refused, setRefused] = useState<Refused>();
  const frame = useRef(0);
  const held = useRef<JobModel>();
  held.current ??= new JobModel(id, () => {
    frame.current ||= window.setTimeout(() => {
      frame.current = 0;
      draw((n) => n + 1);
    }, DRAW_MS);
  });
  const model = held.current;

  useEffect(() => {
    let stopWatching = () => {};
    const leave = follow(`jobs/${id}/stream`, {
      on: {
        snapshot: (told: Told) => model.begin(told),
        resync: (told: Told) => model.begin(told),
        change: (one: Change) => model.change(one),
        asks: (asks: Ask[]) => model.asks(asks),
        event: (row: Row) => model.event(row),
        log: (line: LogLine) => model.log.add(line),
      },
      batch: () => {
        if (model.problem) model.reread(1000); // the server was away, and is back
        model.changed();
      },
      ended: () => {
        model.reread(0);
        stopWatching = watch(id, () => setTimes((n) => n + 1));
      },
      refused: setRefused,
    });
    return () => {
      leave();
      stopWatching();
      model.close();
      clearTimeout(frame.current);
      frame.current = 0;
    };
  }, [id, times]);

  return { model, refused, followAgain: () => setTimes((n) => n + 1) };
}

// Tells when something happens to a job whose own stream has ended: someone retries it, elsewhere.
function watch(id: string, again: () => void): () => void {
  return follow("stream", { on: { change: (one: Change) => one.job_id === id && again() } });
}
