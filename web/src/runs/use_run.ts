import { useEffect, useRef, useState } from "preact/hooks";
import { get, type Refused } from "../api";
import { follow } from "../stream";
import { RunModel } from "./model";
import type { EventPage, Told } from "./types";

export interface Followed {
  model: RunModel;
  version: number;
  isOver: boolean;
  isPartial: boolean; // pieces were missed that nobody kept
  refused: Refused | undefined;
}

// Follows a run from its beginning, as far as that is written down.
export function useRun(id: string): Followed {
  const model = useRef(new RunModel(id));
  const [version, setVersion] = useState(0);
  const [isOver, setOver] = useState(false);
  const [isPartial, setPartial] = useState(false);
  const [refused, setRefused] = useState<Refused>();
  useEffect(() => {
    const draw = () => setVersion((n) => n + 1);
    const take = (told: Told) => model.current.take(told);
    async function again() {
      setPartial(true);
      await readJournal(id, take);
      draw();
    }
    return follow(`runs/${encodeURIComponent(id)}/stream?after=start`, {
      on: { event: take, frame: take, resync: () => void again().catch(() => {}), missed: () => setPartial(true) },
      batch: draw,
      ended: () => {
        setOver(true);
        draw();
      },
      refused: setRefused,
    });
  }, [id]);
  return { model: model.current, version, isOver, isPartial, refused };
}

async function readJournal(id: string, take: (told: Told) => void): Promise<void> {
  for (let after: number | null = 0; after !== null; ) {
    const page: EventPage = await get<EventPage>(`runs/${encodeURIComponent(id)}/events?after=${after}&limit=500`);
    page.events.forEach(take);
    after = page.next;
  }
}
