import { useEffect, useRef, useState } from "preact/hooks";
import { get } from "../api";
import { follow } from "../stream";
import type { Change, Job } from "../types";
import { listed } from "./filters";

const PAGE = 50;
const MOST = 200;

interface Found {
  jobs: Job[];
  next: string | null;
}

export interface List {
  found: Found | undefined;
  problem: Error | undefined;
  counts: Record<string, number>; // of jobs that have not ended
  more: () => void;
  refresh: () => void;
}

// Jobs as the address asks for them. What changes is seen at once; new ones come with the next look, which is soon.
export function useJobs(asked: URLSearchParams): List {
  const [found, setFound] = useState<Found>();
  const [problem, setProblem] = useState<Error>();
  const [counts, setCounts] = useState<Record<string, number>>({});
  const shown = useRef(0);
  const latest = useRef<() => void>(() => {});
  shown.current = found?.jobs.length ?? 0;

  const refresh = () => {
    const limit = Math.min(MOST, Math.max(PAGE, shown.current));
    get<Found>(listed(asked, { limit })).then((page) => {
      setProblem(undefined);
      setFound((before) => withRest(page, before));
    }, setProblem);
  };
  latest.current = refresh;

  useEffect(() => {
    shown.current = 0;
    setFound(undefined);
    refresh();
  }, [asked.toString()]);

  useEffect(() => {
    let soon: ReturnType<typeof setTimeout> | undefined; // many changes at once are one reason to look
    const look = () => {
      soon ??= setTimeout(() => {
        soon = undefined;
        latest.current();
      }, 300);
    };
    const begin = (told: { counts: Record<string, number> }) => {
      setCounts(told.counts);
      look();
    };
    const leave = follow("stream", {
      on: {
        snapshot: begin,
        resync: begin,
        change: (one: Change) => {
          setCounts((before) => counted(before, one));
          setFound((before) => before && { ...before, jobs: before.jobs.map((job) => changed(job, one)) });
          look();
        },
      },
    });
    return () => {
      clearTimeout(soon);
      leave();
    };
  }, []);

  async function more() {
    if (!found?.next) return;
    try {
      const page = await get<Found>(listed(asked, { limit: PAGE, before: found.next }));
      setFound({ jobs: [...found.jobs, ...page.jobs], next: page.next });
    } catch (error) {
      setProblem(error as Error);
    }
  }

  return { found, problem, counts, more, refresh };
}

// A page that was read again, with what had been read beyond it.
function withRest(page: Found, before: Found | undefined): Found {
  const last = page.jobs[page.jobs.length - 1];
  if (before === undefined || last === undefined || page.next === null) return page;
  const rest = before.jobs.filter((job) => job.id < last.id);
  return rest.length > 0 ? { jobs: [...page.jobs, ...rest], next: before.next } : page;
}

function changed(job: Job, change: Change): Job {
  return job.id === change.job_id ? { ...job, status: change.target, reason: change.reason } : job;
}

function counted(before: Record<string, number>, change: Change): Record<string, number> {
  const after = { ...before };
  if (change.source) after[change.source] = Math.max(0, (after[change.source] ?? 0) - 1);
  if (!["completed", "failed", "cancelled"].includes(change.target))
    after[change.target] = (after[change.target] ?? 0) + 1;
  return after;
}
