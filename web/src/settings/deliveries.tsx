import { post, query, Refused } from "../api";
import { Badge, type Column, Empty, Problem, say, sayProblem, Table, Time } from "../parts";
import { Section } from "../parts/section";
import { usePolled } from "../polling";
import { ask, link } from "../router";
import { useMay } from "../session";

interface Delivery {
  id: string;
  job_id: string;
  event: string;
  target: string;
  status: string;
  attempts: number;
  error: string;
  created: string;
  next: string | null;
  settled: string | null;
}

const LOOKS: Record<string, [string, string]> = {
  pending: ["queued", "to be delivered"],
  delivered: ["completed", "delivered"],
  dead: ["failed", "given up"],
};

// What hooks and webhooks were told of jobs, or could not be.
export function DeliveriesPart(props: { status: string; job: string }) {
  const { data, problem, reload } = usePolled<Delivery[]>(`deliveries${query({ status: props.status, job: props.job, limit: 200 })}`, 3000);
  const mayRetry = useMay("operate");
  const columns: Column<Delivery>[] = [
    {
      head: "To",
      class: "roomy",
      cell: (one) => (
        <div>
          {one.target} <span class="quiet">{one.event.replaceAll("_", " ")}</span>
        </div>
      ),
    },
    { head: "Job", class: "fit", cell: (one) => <a class="mono" href={link("jobs", one.job_id)}>…{one.job_id.slice(-8)}</a> },
    { head: "Status", class: "fit", cell: (one) => <Status of={one} /> },
    { head: "Tries", class: "number", cell: (one) => one.attempts },
    { head: "Last error", class: "roomy", cell: (one) => one.error || null },
    { head: "Made", class: "fit", cell: (one) => <Time at={one.created} /> },
    ...(mayRetry ? [{ head: "", class: "fit", cell: (one: Delivery) => (one.status === "delivered" ? null : <Retry delivery={one} done={reload} />) }] : []),
  ];
  if (problem instanceof Refused && problem.status === 404) return <Empty title="This server delivers nothing" />;
  return (
    <Section
      title="Deliveries"
      hint="What hooks and the webhooks of jobs are told. Each is tried again until it arrives, or was tried too often."
      aside={
        <select aria-label="Status" value={props.status} onChange={(event) => ask({ status: event.currentTarget.value })}>
          <option value="">Every status</option>
          {Object.entries(LOOKS).map(([status, [, label]]) => (
            <option key={status} value={status}>
              {label}
            </option>
          ))}
        </select>
      }
    >
      <Problem error={problem} retry={reload} />
      {data === undefined ? null : data.length > 0 ? (
        <Table label="Deliveries" columns={columns} rows={data} keyOf={(one) => one.id} />
      ) : (
        <Empty title={props.status || props.job ? "No delivery is like that" : "Nothing was delivered yet"} />
      )}
    </Section>
  );
}

function Status(props: { of: Delivery }) {
  const [look, label] = LOOKS[props.of.status] ?? ["info", props.of.status];
  return (
    <>
      <Badge status={look} label={label} />
      {props.of.next ? (
        <div class="quiet small">
          again <Time at={props.of.next} />
        </div>
      ) : null}
    </>
  );
}

function Retry(props: { delivery: Delivery; done: () => void }) {
  const act = () =>
    void post(`deliveries/${encodeURIComponent(props.delivery.id)}/retry`).then(() => {
      say("It is tried again");
      props.done();
    }, sayProblem);
  return (
    <button type="button" aria-label={`Deliver to ${props.delivery.target} again`} onClick={act}>
      Try now
    </button>
  );
}
