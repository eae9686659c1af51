import { useState } from "preact/hooks";
import "../flows/flows.css";
import { useGet } from "../hooks";
import { Badge, type Column, Empty, Icon, Page, Problem, Table } from "../parts";
import { ask, link } from "../router";
import type { PageProps } from "../routes";
import { useMay } from "../session";
import type { FlowEntry } from "../start/types";

// The project's flow files.
export function FlowsPage(props: PageProps) {
  const { data, problem, reload } = useGet<FlowEntry[]>("flows");
  const [text, setText] = useState(props.query.get("text") ?? "");
  const mayStart = useMay("operate");
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const rows = (data ?? []).filter((one) => words.every((word) => `${one.name} ${one.flow} ${one.description}`.toLowerCase().includes(word)));
  const columns: Column<FlowEntry>[] = [
    {
      head: "Flow",
      class: "flow-name",
      cell: (one) => (
        <>
          <a href={link("flows", one.flow)}>{one.name}</a>
          <small class="quiet mono">{one.flow}</small>
        </>
      ),
    },
    { head: "Description", class: "grow", cell: (one) => (one.valid ? one.description : <Badge status="failed" label="cannot be used" />) },
    { head: "Steps", class: "number", cell: (one) => (one.valid ? one.steps : "") },
    { head: "Inputs", class: "number", cell: (one) => (one.valid ? one.inputs : "") },
    ...(mayStart ? [{ head: "", class: "fit", cell: (one: FlowEntry) => (one.valid ? <Start flow={one} /> : null) }] : []),
  ];
  function search(value: string) {
    setText(value);
    ask({ text: value });
  }
  return (
    <Page title="Flows">
      <div class="row" role="search">
        <div class="filter">
          <Icon name="search" />
          <input data-filter type="search" aria-label="Search flows" placeholder="Search names, files, descriptions" value={text} onInput={(event) => search(event.currentTarget.value)} />
        </div>
        <span class="quiet">{data && data.length > 0 ? `${rows.length} of ${data.length}` : ""}</span>
      </div>
      <Problem error={problem} retry={reload} />
      {data === undefined ? null : rows.length > 0 ? (
        <Table label="Flows" columns={columns} rows={rows} keyOf={(one) => one.flow} />
      ) : data.length > 0 ? (
        <Empty title="No flow is like that">
          <button type="button" onClick={() => search("")}>
            Show all
          </button>
        </Empty>
      ) : (
        <Empty title="The project has no flows yet">
          <p>
            Put a file called <code>NAME.flow.yaml</code> into it; <code>holdfast new</code> makes one.
          </p>
        </Empty>
      )}
    </Page>
  );
}

function Start(props: { flow: FlowEntry }) {
  return (
    <a class="button" href={link("start", { flow: props.flow.flow })} aria-label={`Start ${props.flow.name}`}>
      <Icon name="play" /> Start
    </a>
  );
}
