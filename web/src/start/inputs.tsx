import { useId } from "preact/hooks";
import type { Variable } from "./types";
import { asTyped, type Values } from "./values";

interface InputsProps {
  variables: Variable[];
  values: Values;
  problems: Record<string, string>;
  change: (name: string, value: string) => void;
}

// The typed inputs of a flow as fields; its settings come after, folded.
export function Inputs(props: InputsProps) {
  const inputs = props.variables.filter((one) => !one.setting);
  const settings = props.variables.filter((one) => one.setting);
  const needed = settings.some((one) => one.name in props.problems || (one.required && asTyped(one.default) === "" && !one.sensitive));
  return (
    <>
      {inputs.length === 0 ? <p class="quiet">This flow takes no inputs.</p> : null}
      {inputs.map((one) => (
        <VariableField key={one.name} {...props} variable={one} />
      ))}
      {settings.length > 0 ? (
        <details class="fold" open={needed}>
          <summary>Settings of the flow</summary>
          <div class="stack">
            {settings.map((one) => (
              <VariableField key={one.name} {...props} variable={one} />
            ))}
          </div>
        </details>
      ) : null}
    </>
  );
}

function VariableField(props: InputsProps & { variable: Variable }) {
  const { variable } = props;
  const id = useId();
  const problem = props.problems[variable.name];
  const isNeeded = variable.required && asTyped(variable.default) === "";
  return (
    <div class="field">
      <label for={id}>
        {variable.name}
        {isNeeded || variable.sensitive || asTyped(variable.default) !== "" ? null : <span class="hint"> optional</span>}
      </label>
      {variable.sensitive ? <Secret name={variable.name} id={id} /> : <Control {...props} id={id} isNeeded={isNeeded} />}
      {problem ? (
        <span class="wrong" id={`${id}-wrong`}>
          {problem}
        </span>
      ) : null}
      <span class="hint" id={`${id}-hint`}>
        {hintOf(variable)}
      </span>
    </div>
  );
}

function hintOf(one: Variable): string {
  const bounds = one.min !== null && one.max !== null ? `${one.min} to ${one.max}` : one.min !== null ? `${one.min} or more` : one.max !== null ? `${one.max} or less` : "";
  const example = one.example && !one.sensitive ? `as in ${one.example}` : "";
  return [one.description, bounds, example].filter(Boolean).join(" · ");
}

function Secret(props: { name: string; id: string }) {
  return (
    <input
      id={props.id}
      disabled
      value=""
      placeholder={`secret: read from HOLDFAST_VAR_${props.name.toUpperCase()} where the job runs`}
    />
  );
}

function Control(props: InputsProps & { variable: Variable; id: string; isNeeded: boolean }) {
  const { variable, id } = props;
  const value = props.values[variable.name] ?? "";
  const set = (event: { currentTarget: { value: string } }) => props.change(variable.name, event.currentTarget.value);
  const common = { id, name: variable.name, value, "aria-invalid": variable.name in props.problems, "aria-describedby": `${id}-wrong ${id}-hint`, "aria-required": props.isNeeded };
  if (variable.type === "bool" || variable.type === "choice") {
    const options = variable.type === "bool" ? ["true", "false"] : variable.options.map(asTyped);
    return (
      <select {...common} onChange={set}>
        {asTyped(variable.default) === "" ? <option value="">{props.isNeeded ? "choose" : "none"}</option> : null}
        {options.map((option) => (
          <option key={option} value={option}>
            {variable.type === "bool" ? { true: "yes", false: "no" }[option] : option}
          </option>
        ))}
      </select>
    );
  }
  if (variable.type === "text" || value.includes("\n")) return <textarea {...common} rows={5} onInput={set} />;
  if (variable.type === "number") return <input {...common} type="text" inputMode="decimal" autocomplete="off" onInput={set} />;
  return <input {...common} autocomplete="off" placeholder={variable.example} onInput={set} />;
}
