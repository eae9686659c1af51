import { useEffect, useState } from "preact/hooks";
import { AWAY, get, Refused } from "./api";

export interface Loaded<T> {
  data: T | undefined;
  problem: Error | undefined;
  isLoading: boolean;
  reload: () => void;
}

const AGAIN_MS = 2000;

// What a GET answers. What is shown stays while it is asked again; null asks for nothing. A server that is away is asked again.
export function useGet<T>(path: string | null): Loaded<T> {
  const [times, setTimes] = useState(0);
  const [found, setFound] = useState<{ path: string; data?: T; problem?: Error } | null>(null);
  const [isLoading, setLoading] = useState(false);
  useEffect(() => {
    if (path === null) return;
    const cut = new AbortController();
    let again = 0;
    setLoading(true);
    get<T>(path, cut.signal).then(
      (data) => {
        setLoading(false);
        setFound({ path, data });
      },
      (problem: Error) => {
        if (cut.signal.aborted) return;
        if (problem instanceof Refused && AWAY.includes(problem.status)) {
          again = window.setTimeout(() => setTimes((n) => n + 1), AGAIN_MS);
        }
        setLoading(false);
        setFound((before) => ({
          path,
          problem,
          ...(before?.path === path && "data" in before ? { data: before.data as T } : {}),
        }));
      },
    );
    return () => {
      clearTimeout(again);
      cut.abort();
    };
  }, [path, times]);
  return { data: found?.data, problem: found?.problem, isLoading, reload: () => setTimes((n) => n + 1) };
}

// Draws again every so often, while something counts.
export function useTick(everyMs: number, isOn = true): number {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    if (!isOn) return;
    setNow(Date.now());
    const timer = setInterval(() => setNow(Date.now()), everyMs);
    return () => clearInterval(timer);
  }, [everyMs, isOn]);
  return isOn ? now : Date.now();
}

// A value that is kept in this browser.
export function useKept(name: string, initial: string): [string, (value: string) => void] {
  const key = `holdfast.${name}`;
  const [value, setValue] = useState(() => localStorage.getItem(key) ?? initial);
  return [
    value,
    (next) => {
      localStorage.setItem(key, next);
      setValue(next);
    },
  ];
}
