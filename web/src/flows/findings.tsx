import { Badge, Icon } from "../parts";
import { plural } from "../words";
import type { Checked, Finding } from "./types";

// What a check says about a flow file, each with its place.
export function Findings(props: { checked: Checked; isHere: (finding: Finding) => boolean; choose: (line: number) => void }) {
  const { findings, valid } = props.checked;
  if (findings.length === 0) {
    return (
      <p class="row">
        <Badge status="completed" label="valid" /> <span class="quiet">The check found nothing to say.</span>
      </p>
    );
  }
  const errors = findings.filter((one) => one.severity === "error").length;
  return (
    <div class="card stack tight">
      <p class="row">
        <Badge status={valid ? "warning" : "failed"} label={valid ? "valid" : "cannot be used"} />
        <span class="quiet">{errors > 0 ? plural(errors, "error") : plural(findings.length, "note")}</span>
      </p>
      <ul class="findings" aria-label="Findings">
        {findings.map((one) => (
          <li key={`${one.file} ${one.line} ${one.column} ${one.message}`} class={`is-${one.severity === "error" ? "problem" : "warning"}`}>
            <Icon name="warning" />
            <span>
              {props.isHere(one) ? (
                <button type="button" class="bare place" onClick={() => props.choose(one.line)}>
                  line {one.line}, column {one.column}
                </button>
              ) : (
                <code>
                  {one.file}:{one.line}
                </code>
              )}{" "}
              {one.message}
              {one.fix ? <span class="quiet">; {one.fix}</span> : null}
            </span>
          </li>
        ))}
      </ul>
    </div>
  );
}
