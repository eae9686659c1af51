import { useEffect, useRef, useState } from "preact/hooks";
import { post, query, Refused } from "../api";
import { useGet } from "../hooks";
import { Empty, Icon, Page, Problem, say } from "../parts";
import { ask, go, link } from "../router";
import type { PageProps } from "../routes";
import { useMay } from "../session";
import "../settings/settings.css";
import { Inputs } from "../start/inputs";
import { labelsOf, type Label, Labels, labelRows } from "../start/labels";
import "../start/start.css";
import type { FlowEntry, FlowFile } from "../start/types";
import { fieldOf, initialValues, problemsOf, type Values, valuesToSend } from "../start/values";
import type { Job } from "../types";

// Starts a job: the form is made from the flow's typed inputs. `?flow=` chooses one, `?like=` (or `?from=`) takes over the inputs of a job.
export function StartPage(props: PageProps) {
  const flows = useGet<FlowEntry[]>("flows");
  const likened = props.query.get("like") ?? props.query.get("from");
  const like = useGet<Job>(likened ? `jobs/${encodeURIComponent(likened)}` : null);
  const asked = props.query.get("flow") ?? like.data?.flow ?? "";
  const chosen = flows.data?.find((one) => one.flow === asked || one.name === asked)?.flow ?? asked;
  const flow = useGet<FlowFile>(chosen ? `flows/file${query({ flow: chosen })}` : null);
  const mayStart = useMay("operate");
  const usable = (flows.data ?? []).filter((one) => one.valid);
  const known = flow.data && (flow.data.flow === chosen || flow.data.name === chosen) ? flow.data : undefined;
  const isReady = known !== undefined && (!likened || like.data !== undefined || like.problem !== undefined);

  if (!mayStart) {
    return (
      <Page title="Start a job">
        <Empty title="Your token may look, and not start jobs" />
      </Page>
    );
  }
  return (
    <Page title="Start a job" class="narrow">
      <Problem error={flows.problem ?? like.problem} retry={flows.reload} />
      {flows.data && usable.length === 0 ? (
        <Empty title="The project has no flows">
          <p>
            Put a file called <code>NAME.flow.yaml</code> into it; <code>holdfast new</code> makes one.
          </p>
        </Empty>
      ) : (
        <label class="field">
          Flow
          <select value={chosen} onChange={(event) => ask({ flow: event.currentTarget.value, from: "", like: "" })}>
            <option value="">choose a flow</option>
            {usable.map((one) => (
              <option key={one.flow} value={one.flow}>
                {one.name} ({one.flow})
              </option>
            ))}
          </select>
        </label>
      )}
      <Problem error={chosen ? flow.problem : null} retry={flow.reload} />
      {isReady ? <StartForm key={known.flow + (like.data?.id ?? "")} flow={known} like={like.data} /> : null}
    </Page>
  );
}

function StartForm(props: { flow: FlowFile; like: Job | undefined }) {
  const { flow, like } = props;
  const [values, setValues] = useState<Values>(() => initialValues(flow.inputs, (like?.inputs ?? {}) as Record<string, unknown>));
  const [labels, setLabels] = useState<Label[]>(() => labelRows(like?.labels ?? {}));
  const [problems, setProblems] = useState<Record<string, string>>({});
  const [problem, setProblem] = useState<Error | null>(null);
  const [isBusy, setBusy] = useState(false);
  const [tries, setTries] = useState(0);
  const form = useRef<HTMLFormElement>(null);

  useEffect(() => {
    if (tries > 0) form.current?.querySelector<HTMLElement>("[aria-invalid='true']")?.focus();
  }, [tries]); // and not when a problem goes away: somebody is typing

  async function send(event: SubmitEvent) {
    event.preventDefault();
    const wrong = problemsOf(flow.inputs, values);
    setProblems(wrong);
    setProblem(null);
    setTries(tries + 1);
    if (Object.keys(wrong).length > 0) return;
    const given = new FormData(event.target as HTMLFormElement);
    const webhook = String(given.get("job-webhook")).trim();
    setBusy(true);
    try {
      const job = await post<Job>("jobs", {
        flow: flow.flow,
        inputs: valuesToSend(flow.inputs, values),
        name: String(given.get("job-name")).trim(),
        labels: labelsOf(labels),
        priority: Number(given.get("job-priority")) || 0,
        needs_approval: given.get("job-approval") !== null,
        ...(webhook ? { webhook } : {}),
      });
      say(`${job.name || job.flow} was submitted`);
      go(link("jobs", job.id));
    } catch (error) {
      setBusy(false);
      const about = error instanceof Refused && error.code === "flow_input" ? fieldOf(error.message, flow.inputs) : undefined;
      if (about) {
        setProblems({ [about]: (error as Error).message });
        setTries(tries + 2);
      } else setProblem(error as Error);
    }
  }

  const change = (name: string, value: string) => {
    setValues({ ...values, [name]: value });
    const { [name]: _, ...rest } = problems;
    if (name in problems) setProblems(rest);
  };
  return (
    <form class="card stack" onSubmit={send} ref={form} noValidate aria-label={`Start ${flow.name}`}>
      <p>
        {flow.description || <span class="quiet">No description.</span>} <a href={link("flows", flow.flow)}>The file</a>
      </p>
      <Inputs variables={flow.inputs} values={values} problems={problems} change={change} />
      <details class="fold">
        <summary>Name, labels, approval, webhook</summary>
        <div class="stack">
          <label class="field">
            Name <input name="job-name" maxLength={200} autocomplete="off" defaultValue={like?.name ?? ""} placeholder="how it is called in the list" />
          </label>
          <Labels rows={labels} set={setLabels} />
          <label class="field">
            Priority
            <input name="job-priority" type="number" defaultValue={String(like?.priority ?? 0)} min={-1000000} max={1000000} />
            <span class="hint">Higher goes first.</span>
          </label>
          <label class="field">
            Webhook
            <input name="job-webhook" type="url" maxLength={2000} autocomplete="off" placeholder="https://example.org/told" />
            <span class="hint">Told, with a signature, when the job waits, is paused or ends.</span>
          </label>
          <label class="choice">
            <input name="job-approval" type="checkbox" />
            <span>Somebody must approve it before it may run</span>
          </label>
        </div>
      </details>
      <Problem error={problem} />
      <div class="row end">
        <button type="submit" class="primary" disabled={isBusy}>
          <Icon name="play" /> Start
        </button>
      </div>
    </form>
  );
}
