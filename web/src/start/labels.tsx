import { Icon } from "../parts";

export interface Label {
  key: string;
  value: string;
}

export function labelsOf(rows: Label[]): Record<string, string> {
  return Object.fromEntries(rows.filter((row) => row.key.trim()).map((row) => [row.key.trim(), row.value.trim()]));
}

export function labelRows(labels: Record<string, string>): Label[] {
  return Object.entries(labels).map(([key, value]) => ({ key, value }));
}

// Labels as rows of names and values.
export function Labels(props: { rows: Label[]; set: (rows: Label[]) => void }) {
  const change = (index: number, part: Partial<Label>) => props.set(props.rows.map((row, at) => (at === index ? { ...row, ...part } : row)));
  return (
    <fieldset class="plain stack tight">
      <legend>Labels</legend>
      {props.rows.map((row, index) => (
        <div class="pair" key={index}>
          <input aria-label={`Name of label ${index + 1}`} placeholder="team" value={row.key} maxLength={200} onInput={(event) => change(index, { key: event.currentTarget.value })} />
          <input aria-label={`Value of label ${index + 1}`} placeholder="web" value={row.value} maxLength={200} onInput={(event) => change(index, { value: event.currentTarget.value })} />
          <button type="button" class="bare" aria-label={`Remove label ${row.key || index + 1}`} onClick={() => props.set(props.rows.filter((_, at) => at !== index))}>
            <Icon name="close" />
          </button>
        </div>
      ))}
      <div>
        <button type="button" onClick={() => props.set([...props.rows, { key: "", value: "" }])}>
          <Icon name="plus" /> Add a label
        </button>
      </div>
    </fieldset>
  );
}
