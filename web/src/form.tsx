import { useState } from "preact/hooks";
import { type Ask, call } from "./api";

// What a waiting step asks for, as a form. Text goes as it is typed: the server makes numbers and truths of it.
export function AskForm(props: { jobId: string; ask: Ask }) {
  const [problem, setProblem] = useState("");
  const [isSent, setSent] = useState(false);
  const names = Object.keys(props.ask.fields);

  async function send(event: SubmitEvent) {
    event.preventDefault();
    const given = new FormData(event.target as HTMLFormElement);
    const values = Object.fromEntries([...given.entries()].filter(([, value]) => value !== ""));
    try {
      await call("POST", `jobs/${props.jobId}/answer`, { step: props.ask.id, values });
      setSent(true);
      setProblem("");
    } catch (error) {
      setProblem((error as Error).message);
    }
  }

  if (isSent) return <p class="ask">Answered. It goes on.</p>;
  return (
    <form class="ask" onSubmit={send}>
      <h3>
        {props.ask.step} waits{props.ask.message ? `: ${props.ask.message}` : ""}
      </h3>
      {names.map((name) => {
        const field = props.ask.fields[name]!;
        const options = field.type === "bool" ? ["true", "false"] : field.options?.map(String);
        return (
          <label key={name}>
            {name}
            {options !== undefined ? (
              <select name={name}>
                {options.map((option) => (
                  <option key={option}>{option}</option>
                ))}
              </select>
            ) : field.type === "text" ? (
              <textarea name={name} rows={4} />
            ) : (
              <input name={name} inputMode={field.type === "number" ? "decimal" : "text"} />
            )}
            {field.description ? <small>{field.description}</small> : null}
          </label>
        );
      })}
      <button type="submit">Answer</button>
      {problem ? <p class="problem">{problem}</p> : null}
    </form>
  );
}
