import { useId } from "preact/hooks";
import type { Field } from "../types";
import { asText } from "./fields";

interface Props {
  name: string;
  field: Field;
  value: string;
  problem: string;
  change: (value: string) => void;
}

const FEW = 6;

// One field of a form, with its description and what is wrong with it.
export function FieldInput(props: Props) {
  const id = useId();
  const { name, field, problem } = props;
  const options = field.type === "bool" ? ["true", "false"] : (field.options?.map(asText) ?? []);
  const isOptional = field.required === false || field.default !== undefined;
  const notes = [field.description ? `${id}-hint` : "", problem ? `${id}-wrong` : ""].filter(Boolean).join(" ");
  const told = { "aria-describedby": notes || undefined, "aria-invalid": problem !== "" };
  const label = (
    <>
      {name}
      {isOptional ? <span class="hint"> (optional)</span> : null}
    </>
  );
  const rest = (
    <>
      {field.description ? (
        <span class="hint" id={`${id}-hint`}>
          {field.description}
        </span>
      ) : null}
      {problem ? (
        <span class="wrong" id={`${id}-wrong`}>
          {problem}
        </span>
      ) : null}
    </>
  );
  if (options.length > 0 && options.length <= FEW)
    return (
      <fieldset class="field choices" {...told}>
        <legend>{label}</legend>
        <div class="row">
          {options.map((one) => (
            <label key={one} class="choice">
              <input
                type="radio"
                name={`${id}-${name}`}
                value={one}
                checked={props.value === one}
                onChange={() => props.change(one)}
              />
              {field.type === "bool" ? (one === "true" ? "Yes" : "No") : one}
            </label>
          ))}
        </div>
        {rest}
      </fieldset>
    );
  return (
    <div class="field">
      <label for={id}>{label}</label>
      {options.length > 0 ? (
        <select id={id} value={props.value} {...told} onChange={(event) => props.change(event.currentTarget.value)}>
          <option value="">Choose…</option>
          {options.map((one) => (
            <option key={one}>{one}</option>
          ))}
        </select>
      ) : (
        <TextInput {...props} id={id} told={told} />
      )}
      {rest}
    </div>
  );
}

function TextInput(props: Props & { id: string; told: object }) {
  const { field } = props;
  const common = {
    id: props.id,
    value: props.value,
    ...props.told,
    onInput: (event: { currentTarget: { value: string } }) => props.change(event.currentTarget.value),
  };
  const isLong = field.type === "text" || field.type === "list" || field.type === "object";
  if (!isLong) {
    const isNumber = field.type === "number";
    return (
      <input
        type={field.sensitive ? "password" : "text"}
        inputMode={isNumber ? "decimal" : "text"}
        autocomplete="off"
        {...common}
      />
    );
  }
  return (
    <>
      <textarea
        rows={field.type === "text" ? 5 : 4}
        class={field.type === "text" ? "" : "mono"}
        placeholder={HINTS[field.type ?? ""]}
        {...common}
      />
      <label class="file">
        <span>Take it from a file</span>
        <input type="file" onChange={(event) => void event.currentTarget.files?.[0]?.text().then(props.change)} />
      </label>
    </>
  );
}

const HINTS: Record<string, string> = { list: 'one item a line, or ["JSON"]', object: '{"name": "value"}' };
