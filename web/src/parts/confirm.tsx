import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { Dialog } from "./dialog";
import { sayProblem } from "./toast";

export interface ConfirmProps {
  label: string;
  confirm?: string; // on the button in the dialog that does it; the label, if left out
  question: string;
  children?: ComponentChildren; // what it means, in a sentence or two
  asksReason?: boolean;
  isDangerous?: boolean;
  class?: string;
  act: (reason: string) => Promise<unknown> | void; // what it raises is shown
}

// A button that asks before it acts.
export function ConfirmButton(props: ConfirmProps) {
  const [isOpen, setOpen] = useState(false);
  const [isBusy, setBusy] = useState(false);

  async function act(event: SubmitEvent) {
    event.preventDefault();
    const reason = String(new FormData(event.target as HTMLFormElement).get("reason") ?? "");
    setBusy(true);
    try {
      await props.act(reason);
      setOpen(false);
    } catch (error) {
      sayProblem(error);
    }
    setBusy(false);
  }

  const kind = props.isDangerous ? "danger" : "primary";
  return (
    <>
      <button
        type="button"
        class={props.class ?? (props.isDangerous ? "danger-quiet" : "")}
        onClick={() => setOpen(true)}
      >
        {props.label}
      </button>
      {isOpen ? (
        <Dialog title={props.question} close={() => setOpen(false)}>
          <form class="stack" onSubmit={act}>
            {props.children ? <div class="quiet">{props.children}</div> : null}
            {props.asksReason ? (
              <label class="field">
                Reason{" "}
                <input name="reason" maxLength={400} autocomplete="off" placeholder="optional; kept in the history" />
              </label>
            ) : null}
            <div class="row end">
              <button type="button" onClick={() => setOpen(false)}>
                Keep it
              </button>
              <button type="submit" class={kind} disabled={isBusy}>
                {props.confirm ?? props.label}
              </button>
            </div>
          </form>
        </Dialog>
      ) : null}
    </>
  );
}
