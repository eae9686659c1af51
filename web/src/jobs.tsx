import { useEffect, useState } from "preact/hooks";
import { type Change, call, follow, type Job } from "./api";

const STATUSES = ["awaiting_approval", "queued", "running", "waiting", "paused", "completed", "failed", "cancelled"];

export function JobsPage() {
  const [jobs, setJobs] = useState<Job[]>([]);
  const [next, setNext] = useState<string | null>(null);
  const [status, setStatus] = useState("");
  const [text, setText] = useState("");
  const [isLost, setLost] = useState(false);
  const [problem, setProblem] = useState("");

  function query(before = "") {
    const asked = new URLSearchParams({ limit: "50" });
    if (status) asked.set("status", status);
    if (text) asked.set("text", text);
    if (before) asked.set("before", before);
    return call<{ jobs: Job[]; next: string | null }>("GET", `jobs?${asked}`);
  }

  function refresh() {
    query().then(
      (page) => {
        setJobs(page.jobs);
        setNext(page.next);
        setProblem("");
      },
      (error: Error) => setProblem(error.message),
    );
  }

  useEffect(() => {
    refresh();
    let soon: number | undefined; // many changes at once are one reason to look
    const look = () => {
      soon ??= setTimeout(() => {
        soon = undefined;
        refresh();
      }, 200);
    };
    const leave = follow("stream", { resync: refresh, change: (_: Change) => look() }, setLost);
    return () => {
      clearTimeout(soon);
      leave();
    };
  }, [status, text]);

  async function more() {
    const page = await query(next ?? "");
    setJobs([...jobs, ...page.jobs]);
    setNext(page.next);
  }

  return (
    <>
      <h1>Jobs</h1>
      <p class="filters">
        <label>
          Status{" "}
          <select value={status} onChange={(event) => setStatus(event.currentTarget.value)}>
            <option value="">any</option>
            {STATUSES.map((one) => (
              <option key={one}>{one}</option>
            ))}
          </select>
        </label>
        <label>
          Search <input type="search" value={text} onInput={(event) => setText(event.currentTarget.value)} />
        </label>
        {isLost ? <span class="quiet">connection lost, coming back</span> : null}
      </p>
      {problem ? <p class="problem">{problem}</p> : null}
      <div class="scroll">
        <table>
          <thead>
            <tr>
              <th>Job</th>
              <th>Status</th>
              <th>Created</th>
              <th>Why</th>
            </tr>
          </thead>
          <tbody>
            {jobs.map((job) => (
              <tr key={job.id}>
                <td>
                  <a href={`#job=${job.id}`}>{job.name || job.flow}</a> <small>{job.id.slice(-8)}</small>
                </td>
                <td>
                  <span class={`badge ${job.status}`}>{job.status}</span>
                </td>
                <td>{new Date(job.created).toLocaleString()}</td>
                <td>{job.reason}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {next ? <button onClick={more}>More</button> : null}
    </>
  );
}
