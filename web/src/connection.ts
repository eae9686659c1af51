// Whether the streams of this page are up. The frame shows it, once for all of them.

import { useEffect, useState } from "preact/hooks";

export interface Connection {
  isLost: boolean;
  retryAt: number; // when the next attempt begins, in ms; 0 while one is under way
}

const lost = new Map<object, { retryAt: number; retry: () => void }>();
const listeners = new Set<() => void>();

export function noteLost(stream: object, retryAt: number, retry: () => void): void {
  lost.set(stream, { retryAt, retry });
  for (const tell of listeners) tell();
}

export function noteUp(stream: object): void {
  if (lost.delete(stream)) for (const tell of listeners) tell();
}

export function retryNow(): void {
  for (const one of [...lost.values()]) one.retry();
}

export function useConnection(): Connection {
  const [, again] = useState(0);
  useEffect(() => {
    const tell = () => again((n) => n + 1);
    listeners.add(tell);
    return () => void listeners.delete(tell);
  }, []);
  const times = [...lost.values()].map((one) => one.retryAt);
  return { isLost: lost.size > 0, retryAt: times.length > 0 ? Math.min(...times) : 0 };
}
