import { useState } from "preact/hooks";
import { Icon, Json } from "../parts";
import { plural, timeOfDay } from "../words";
import type { Told } from "./types";

const SHOWN = 300;

// Events as they were told, newest first.
export function Events(props: { events: Told[]; count: number }) {
  const [text, setText] = useState("");
  const wanted = text.trim().toLowerCase();
  const found = wanted ? props.events.filter((one) => `${one.type} ${subject(one)}`.toLowerCase().includes(wanted)) : props.events;
  const shown = found.slice(-SHOWN).reverse();
  return (
    <div class="stack tight">
      <div class="row">
        <div class="filter">
          <Icon name="search" />
          <input data-filter type="search" aria-label="Search events" placeholder="Search events" value={text} onInput={(event) => setText(event.currentTarget.value)} />
        </div>
        <span class="quiet">{found.length > SHOWN ? `the last ${SHOWN} of ${plural(props.count, "event")}` : plural(found.length, "event")}</span>
      </div>
      <ul class="events" aria-label="Events, newest first">
        {shown.map((one) => (
          <li key={one.id || `${one.at} ${one.type}`}>
            <details>
              <summary>
                <time class="quiet number" dateTime={one.at}>
                  {timeOfDay(one.at)}
                </time>
                <code>{one.type}</code>
                <span class="clip">{subject(one)}</span>
              </summary>
              <Json value={one.data} label={`the event ${one.type}`} />
            </details>
          </li>
        ))}
      </ul>
    </div>
  );
}

function subject(one: Told): string {
  const { data } = one;
  const named = data.method_name || data.step || data.tool_name || data.name || data.model || data.flow_name || data.crew_name || data.resource || data.message || data.error || "";
  return String(named || one.task_name || one.agent_role || "");
}
