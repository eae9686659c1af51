import { useEffect, useState } from "preact/hooks";
import { get, query } from "../api";
import { Badge, type Column, Empty, Problem, Table, Time } from "../parts";
import { Section } from "../parts/section";
import { usePolled } from "../polling";
import { link } from "../router";
import { exactly } from "../words";
import { OUTCOMES, type Tick, type TickPage } from "./types";

const PAGE = 30;

export function Outcome(props: { tick: Tick }) {
  const [look, meaning] = OUTCOMES[props.tick.outcome] ?? ["info", ""];
  return <Badge status={look} label={props.tick.outcome} title={props.tick.reason || meaning} />;
}

// What came of a schedule's due times, newest first.
export function Ticks(props: { id: string; version: string }) {
  const path = `schedules/${encodeURIComponent(props.id)}/ticks`;
  const newest = usePolled<TickPage>(`${path}?limit=${PAGE}`, 3000);
  const [older, setOlder] = useState<TickPage | null>(null);
  const [problem, setProblem] = useState<Error | null>(null);
  useEffect(() => newest.reload(), [props.version]);

  const first = newest.data?.ticks ?? [];
  const lowest = first[first.length - 1]?.id ?? 0;
  const rows = [...first, ...(older?.ticks.filter((tick) => tick.id < lowest) ?? [])];
  const next = older === null ? newest.data?.next : older.next;

  async function more() {
    try {
      const page = await get<TickPage>(`${path}${query({ before: next ?? 0, limit: PAGE })}`);
      setOlder({ ticks: [...(older?.ticks ?? []), ...page.ticks], next: page.next });
    } catch (error) {
      setProblem(error as Error);
    }
  }

  const columns: Column<Tick>[] = [
    { head: "Due", class: "fit", cell: (one) => <span title={exactly(one.at)}>{exactly(one.due)}</span> },
    { head: "Outcome", class: "fit", cell: (one) => <Outcome tick={one} /> },
    { head: "Why", class: "grow", cell: (one) => one.reason },
    { head: "Job", class: "fit", cell: (one) => (one.job_id ? <a class="mono" href={link("jobs", one.job_id)}>…{one.job_id.slice(-8)}</a> : "") },
    { head: "Seen to", class: "fit", cell: (one) => <Time at={one.at} /> },
  ];
  return (
    <Section title="Ticks">
      <Problem error={problem ?? newest.problem} retry={newest.reload} />
      {newest.data === undefined ? null : rows.length > 0 ? (
        <Table label="Ticks" columns={columns} rows={rows} keyOf={(one) => String(one.id)} />
      ) : (
        <Empty title="It was never due yet" />
      )}
      {next ? (
        <div>
          <button type="button" onClick={more}>
            Older ones
          </button>
        </div>
      ) : null}
    </Section>
  );
}
