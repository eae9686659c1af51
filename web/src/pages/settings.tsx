import { useGet } from "../hooks";
import { Page, Problem, Tabs } from "../parts";
import { Facts } from "../parts/facts";
import { Section } from "../parts/section";
import { ask } from "../router";
import type { PageProps } from "../routes";
import { useMay } from "../session";
import { DeliveriesPart } from "../settings/deliveries";
import { QueuePart } from "../settings/queue";
import "../settings/settings.css";
import { TokensPart } from "../settings/tokens";
import type { ServerSettings } from "../settings/types";
import { bytes, count } from "../words";

export function SettingsPage(props: PageProps) {
  const isAdmin = useMay("admin");
  const names: Record<string, string> = { server: "Server", ...(isAdmin ? { tokens: "Tokens" } : {}), deliveries: "Deliveries" };
  const asked = props.query.get("tab") ?? "server";
  const tab = asked in names ? asked : "server";
  return (
    <Page title="Settings">
      <Tabs label="Settings" names={names} chosen={tab} choose={(name) => ask({ tab: name })} />
      {tab === "server" ? <ServerPart /> : tab === "tokens" ? <TokensPart /> : <DeliveriesPart status={props.query.get("status") ?? ""} job={props.query.get("job") ?? ""} />}
    </Page>
  );
}

function ServerPart() {
  const { data, problem, reload } = useGet<ServerSettings>("settings");
  return (
    <>
      <Problem error={problem} retry={reload} />
      {data?.queue ? <QueuePart queue={data.queue} changed={reload} /> : null}
      {data ? (
        <>
          <Section title="This server">
            <div class="card">
              <Facts
                label="This server"
                of={{ Version: data.version, Project: data.project ?? "none", "Queue of jobs": data.has_queue ? "yes" : "no: it shows the runs of its process" }}
              />
            </div>
          </Section>
          <Section title="Limits" hint="Said when the server starts; they stay until the next start.">
            <div class="card">
              <Facts label="Limits" of={Object.fromEntries(Object.entries(data.limits).map(([name, value]) => [labelOf(name), shown(name, value)]))} />
            </div>
          </Section>
        </>
      ) : null}
    </>
  );
}

const LABELS: Record<string, string> = {
  hosts: "Names it may be called by",
  origins: "Other pages that may call",
  max_body: "Largest request",
  body_seconds: "Time for a request to arrive",
  call_seconds: "Time for an answer",
  calls_per_second: "Calls of a token per second",
  burst: "Calls of a token at once",
  failures_per_minute: "Wrong tokens of an address per minute",
  max_streams: "Streams at once",
  heartbeat_seconds: "Sign of life in streams",
  stuck_seconds: "Patience with a stuck client",
  kept_frames: "Frames kept of a stream",
  poll_seconds: "Looks for news",
};

function labelOf(name: string): string {
  return LABELS[name] ?? name.replaceAll("_", " ");
}

function shown(name: string, value: unknown): string {
  if (Array.isArray(value)) return [...new Set(value)].join(", ") || "none";
  if (name === "max_body" && typeof value === "number") return bytes(value);
  if (name === "poll_seconds" && typeof value === "number") return `every ${value} s`;
  if (name.endsWith("_seconds")) return `${value} s`;
  return typeof value === "number" ? count(value) : String(value);
}
