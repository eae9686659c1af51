import { useState } from "preact/hooks";
import { post } from "../api";
import { Dialog, Problem, say } from "../parts";
import { go, link } from "../router";
import type { Job } from "../types";
import type { Checkpoint, Details } from "./types";

const GOES_ON = ["completed", "failed", "paused", "waiting"];

interface Forked {
  id: string;
  branch: string;
}

export function ForkButton(props: { details: Details; chosen: Checkpoint; taken: string[]; job: Job | null; done: (id: string) => void }) {
  const [isOpen, setOpen] = useState(false);
  return (
    <>
      <button type="button" onClick={() => setOpen(true)}>
        Fork
      </button>
      {isOpen ? <ForkDialog {...props} close={() => setOpen(false)} /> : null}
    </>
  );
}

// A branch that begins at a checkpoint, with its state changed if somebody wants that.
function ForkDialog(props: { details: Details; chosen: Checkpoint; taken: string[]; job: Job | null; done: (id: string) => void; close: () => void }) {
  const before = JSON.stringify(props.details.state, null, 2);
  const [branch, setBranch] = useState(freeName(props.taken));
  const [text, setText] = useState(before);
  const [goesOn, setGoesOn] = useState(true);
  const [problem, setProblem] = useState<Error | null>(null);
  const [isBusy, setBusy] = useState(false);
  const isTaken = props.taken.includes(branch.trim());
  const edited = parsed(text);
  const mayGoOn = props.job !== null && GOES_ON.includes(props.job.status);

  async function fork(event: SubmitEvent) {
    event.preventDefault();
    if (typeof edited === "string" || isTaken) return;
    setBusy(true);
    try {
      const made = await post<Forked>(`checkpoints/${props.chosen.id}/fork`, { branch: branch.trim(), state: changesOf(props.details.state, edited) });
      if (mayGoOn && goesOn) {
        await post(`checkpoints/${made.id}/resume`);
        go(link("jobs", props.job!.id));
      }
      say(`Branch ${made.branch} begins here`);
      props.close();
      props.done(made.id);
    } catch (error) {
      setProblem(error as Error);
      setBusy(false);
    }
  }

  return (
    <Dialog title="Fork this checkpoint" close={props.close} isWide>
      <form class="stack" onSubmit={fork}>
        <label class="field">
          Name of the branch
          <input value={branch} required maxLength={100} autocomplete="off" aria-invalid={isTaken} onInput={(event) => setBranch(event.currentTarget.value)} />
          {isTaken ? <span class="wrong">There is a branch of this name already.</span> : null}
        </label>
        {before === "{}" ? (
          <p class="quiet">What steps gave up to here counts on the new branch; what came later is done anew.</p>
        ) : (
          <label class="field">
            State
            <textarea class="mono" rows={12} spellcheck={false} value={text} aria-invalid={typeof edited === "string"} onInput={(event) => setText(event.currentTarget.value)} />
            {typeof edited === "string" ? (
              <span class="wrong">{edited}</span>
            ) : (
              <span class="hint">JSON. Fields that you change or add count on the new branch; fields that you take out stay as they are.</span>
            )}
          </label>
        )}
        {mayGoOn ? (
          <label class="choice">
            <input type="checkbox" checked={goesOn} onChange={(event) => setGoesOn(event.currentTarget.checked)} />
            <span>Go on with the job on this branch at once</span>
          </label>
        ) : null}
        <Problem error={problem} />
        <div class="row end">
          {text !== before ? (
            <button type="button" class="bare" onClick={() => setText(before)}>
              Undo the changes
            </button>
          ) : null}
          <button type="button" onClick={props.close}>
            Cancel
          </button>
          <button type="submit" class="primary" disabled={isBusy || isTaken || typeof edited === "string"}>
            Fork
          </button>
        </div>
      </form>
    </Dialog>
  );
}

function freeName(taken: string[]): string {
  for (let number = 1; ; number++) if (!taken.includes(`branch-${number}`)) return `branch-${number}`;
}

// The state that was typed, or what is wrong with it.
function parsed(text: string): Record<string, unknown> | string {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : "This must be an object: { … }";
  } catch (error) {
    return `This is no JSON: ${(error as Error).message}`;
  }
}

function changesOf(before: Record<string, unknown>, after: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(after).filter(([name, value]) => !(name in before) || JSON.stringify(before[name]) !== JSON.stringify(value)));
}
