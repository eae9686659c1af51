import { useState } from "preact/hooks";
import { Refused } from "../api";
import { Badge, type Column, Empty, Icon, Json, Page, Problem, Table, Time } from "../parts";
import { Back } from "../parts/back";
import { Facts } from "../parts/facts";
import { Section } from "../parts/section";
import { usePolled } from "../polling";
import { ask, link } from "../router";
import type { PageProps } from "../routes";
import { ScheduleActions } from "../schedules/actions";
import { typed } from "../schedules/durations";
import { ScheduleForm } from "../schedules/form";
import { inZone } from "../schedules/preview";
import "../schedules/schedules.css";
import { Outcome, Ticks } from "../schedules/ticks";
import type { Schedule } from "../schedules/types";
import { useMay } from "../session";
import "../settings/settings.css";
import "../start/start.css";

const EVERY_MS = 3000;

export function SchedulesPage(props: PageProps) {
  const id = props.query.get("id");
  return id ? <SchedulePage key={id} id={id} /> : <AllSchedules flow={props.query.get("new") ?? undefined} />;
}

function AllSchedules(props: { flow: string | undefined }) {
  const { data, problem, reload } = usePolled<Schedule[]>("schedules", EVERY_MS);
  const mayAdd = useMay("admin");
  const mayAct = useMay("operate");
  const [isAdding, setAdding] = useState(props.flow !== undefined);
  const columns: Column<Schedule>[] = [
    { head: "Schedule", class: "roomy", cell: (one) => <a href={link("schedules", { id: one.id })}>{one.name}</a> },
    { head: "Flow", class: "roomy", cell: (one) => <a href={link("flows", one.flow)}>{one.flow}</a> },
    { head: "When", cell: (one) => <When schedule={one} /> },
    { head: "Status", class: "fit", cell: (one) => <Status schedule={one} /> },
    { head: "Next", class: "fit", cell: (one) => <Time at={one.status === "active" ? one.next_at : null} /> },
    { head: "Last", class: "fit", cell: (one) => <Last schedule={one} /> },
    ...(mayAct ? [{ head: "", class: "fit", cell: (one: Schedule) => <ScheduleActions schedule={one} changed={reload} /> }] : []),
  ];
  const add = (
    <button type="button" class="primary" onClick={() => setAdding(true)}>
      <Icon name="plus" /> New schedule
    </button>
  );
  const isWithout = problem instanceof Refused && problem.status === 404;
  return (
    <Page title="Schedules" actions={mayAdd && !isWithout ? add : null}>
      {isWithout ? <Empty title="This server has no schedules" /> : <Problem error={problem} retry={reload} />}
      {data === undefined ? null : data.length > 0 ? (
        <Table label="Schedules" columns={columns} rows={data} keyOf={(one) => one.id} />
      ) : (
        <Empty title="Nothing is scheduled">
          <p>A schedule starts a flow at certain times, or when a check says so.</p>
        </Empty>
      )}
      {isAdding ? (
        <ScheduleForm
          {...(props.flow ? { flow: props.flow } : {})}
          close={() => {
            setAdding(false);
            ask({ new: "" });
          }}
          done={() => {
            setAdding(false);
            reload();
          }}
        />
      ) : null}
    </Page>
  );
}

function When(props: { schedule: Schedule }) {
  const { schedule } = props;
  if (schedule.kind === "poll") return <span>checks every {typed(schedule.every_seconds)}</span>;
  return (
    <span>
      <code>{schedule.cron}</code> <span class="quiet">{schedule.timezone}</span>
    </span>
  );
}

function Status(props: { schedule: Schedule }) {
  const { status, reason } = props.schedule;
  return <Badge status={status === "active" ? "ok" : "paused"} label={status} title={reason} />;
}

function Last(props: { schedule: Schedule }) {
  const tick = props.schedule.last_tick;
  if (tick === null) return <span class="quiet">–</span>;
  return (
    <span class="row">
      <Outcome tick={tick} /> <Time at={tick.at} />
    </span>
  );
}

function SchedulePage(props: { id: string }) {
  const { data, problem, reload } = usePolled<Schedule>(`schedules/${encodeURIComponent(props.id)}`, EVERY_MS);
  const [version, setVersion] = useState(0);
  const changed = () => {
    reload();
    setVersion(version + 1);
  };
  return (
    <Page title={data?.name ?? "Schedule"} before={<Back to="schedules" label="All schedules" />} actions={data ? <ScheduleActions schedule={data} changed={changed} isWhole /> : null}>
      <Problem error={problem} retry={reload} />
      {data ? (
        <>
          <div class="card">
            <Facts label="About this schedule" of={factsOf(data)} />
          </div>
          {Object.keys(data.inputs).length > 0 ? (
            <Section title="Inputs">
              <Json value={data.inputs} label="the inputs" />
            </Section>
          ) : null}
          <Ticks id={props.id} version={`${version}`} />
        </>
      ) : null}
    </Page>
  );
}

function factsOf(one: Schedule) {
  const check = one.call || (typeof one.command === "string" ? one.command : one.command.join(" "));
  const overlap: Record<string, string> = { skip: "the next is left out", queue: "the next waits its turn", allow: "the next runs beside it" };
  return {
    Status: (
      <>
        <Status schedule={one} /> {one.reason}
      </>
    ),
    Flow: <a href={link("flows", one.flow)}>{one.flow}</a>,
    When: <When schedule={one} />,
    Check: check ? <code>{check}</code> : undefined,
    Next: one.next_at && one.status === "active" ? `${inZone(one.next_at, one.timezone)}` : "–",
    "While a job of it runs": overlap[one.overlap] ?? one.overlap,
    "Missed times": one.catch_up === "once" ? "are made up for once" : "are left out",
    "At least between two jobs": one.cooldown_seconds ? typed(one.cooldown_seconds) : undefined,
    "Pauses after": one.pause_after_errors ? `${one.pause_after_errors} errors in a row (${one.errors} now)` : "never",
    Cursor: one.cursor === null ? undefined : <code>{JSON.stringify(one.cursor)}</code>,
    Labels: Object.keys(one.labels).length > 0 ? Object.entries(one.labels).map(([key, value]) => `${key}=${value}`).join(", ") : undefined,
    Made: <Time at={one.created} />,
  };
}
