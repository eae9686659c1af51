import { useState } from "preact/hooks";
import { post } from "../api";
import { Icon, Problem, Time } from "../parts";
import { useMay } from "../session";
import type { Ask } from "../types";
import { FieldInput } from "./field";
import { initial, meant, type Typed } from "./fields";

// What was typed, by question: it outlives a lost connection, another tab and a look at another page.
const typed = new Map<string, Typed>();

// What a waiting step asks for.
export function AskForm(props: { jobId: string; ask: Ask }) {
  const { ask } = props;
  const may = useMay("operate");
  const names = Object.keys(ask.fields);
  const [values, setValues] = useState<Typed>(
    () => typed.get(ask.id) ?? Object.fromEntries(names.map((name) => [name, initial(ask.fields[name]!)])),
  );
  const [problems, setProblems] = useState<Typed>({});
  const [refusal, setRefusal] = useState("");
  const [state, setState] = useState<"open" | "sending" | "sent">("open");

  function change(name: string, value: string) {
    const next = { ...values, [name]: value };
    typed.set(ask.id, next);
    setValues(next);
    setProblems({ ...problems, [name]: "" });
  }

  async function send(event: SubmitEvent) {
    event.preventDefault();
    const given: Record<string, unknown> = {};
    const wrong: Typed = {};
    for (const name of names) {
      try {
        const value = meant(ask.fields[name]!, values[name] ?? "");
        if (value !== undefined) given[name] = value;
      } catch (error) {
        wrong[name] = (error as Error).message;
      }
    }
    setProblems(wrong);
    setRefusal("");
    if (Object.keys(wrong).length > 0) {
      const form = event.target as HTMLFormElement;
      setTimeout(() => form.querySelector<HTMLElement>("[aria-invalid=true], [aria-invalid=true] input")?.focus());
      return;
    }
    setState("sending");
    try {
      await post(`jobs/${props.jobId}/answer`, { step: ask.id, values: given });
      typed.delete(ask.id);
      setState("sent");
    } catch (error) {
      const said = (error as Error).message;
      const name = names.find((one) => new RegExp(`\\b${one.replace(/[^\w]/g, ".")}\\b`).test(said));
      name === undefined ? setRefusal(said) : setProblems({ [name]: said });
      setState("open");
    }
  }

  return (
    <form class="card ask" aria-label={`Answer ${ask.step}`} onSubmit={send} noValidate>
      <h2>
        <Icon name="waiting" /> {ask.step} waits for an answer
      </h2>
      {ask.message ? <p class="ask-message">{ask.message}</p> : null}
      {ask.expires ? (
        <p class="quiet small">
          Until <Time at={ask.expires} />
        </p>
      ) : null}
      {state === "sent" ? (
        <p role="status">Answered. It goes on.</p>
      ) : may ? (
        <>
          {names.map((name) => (
            <FieldInput
              key={name}
              name={name}
              field={ask.fields[name]!}
              value={values[name] ?? ""}
              problem={problems[name] ?? ""}
              change={(value) => change(name, value)}
            />
          ))}
          <Problem error={refusal} />
          <div class="row">
            <button type="submit" class="primary" disabled={state === "sending"}>
              {names.length === 0 ? "Go on" : "Answer"}
            </button>
          </div>
        </>
      ) : (
        <p class="quiet">Your token may only read; someone with the role operate can answer.</p>
      )}
    </form>
  );
}
