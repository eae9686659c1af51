import { useEffect } from "preact/hooks";
import { type Loaded, useGet } from "./hooks";

// What a GET answers, asked again every so often while somebody looks.
export function usePolled<T>(path: string | null, everyMs: number): Loaded<T> {
  const loaded = useGet<T>(path);
  useEffect(() => {
    const timer = setInterval(() => document.hidden || loaded.reload(), everyMs);
    return () => clearInterval(timer);
  }, [path, everyMs]);
  return loaded;
}
