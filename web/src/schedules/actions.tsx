import { useState } from "preact/hooks";
import { post, remove } from "../api";
import { ConfirmButton, say, sayProblem } from "../parts";
import { go, link } from "../router";
import { useMay } from "../session";
import { ScheduleForm } from "./form";
import type { Schedule, Tick } from "./types";

// What may be done with a schedule: fire and steer it with the role operate, change and remove it with admin.
export function ScheduleActions(props: { schedule: Schedule; changed: () => void; isWhole?: boolean }) {
  const { schedule } = props;
  const mayOperate = useMay("operate");
  const mayChange = useMay("admin");
  const [isChanging, setChanging] = useState(false);
  const path = `schedules/${encodeURIComponent(schedule.id)}`;

  const act = (what: () => Promise<unknown>) => () => void what().then(props.changed, sayProblem);
  async function fire() {
    const tick = await post<Tick>(`${path}/fire`);
    say(tick.job_id ? `${schedule.name} fired` : `${tick.outcome}: ${tick.reason}`);
  }

  if (!mayOperate) return null;
  return (
    <div class="row">
      {schedule.status === "paused" ? (
        <button type="button" aria-label={`Resume ${schedule.name}`} onClick={act(() => post(`${path}/resume`))}>
          Resume
        </button>
      ) : (
        <button type="button" aria-label={`Pause ${schedule.name}`} onClick={act(() => post(`${path}/pause`))}>
          Pause
        </button>
      )}
      <button type="button" aria-label={`Fire ${schedule.name} now`} onClick={act(fire)}>
        Fire now
      </button>
      {props.isWhole && mayChange ? (
        <>
          <button type="button" onClick={() => setChanging(true)}>
            Change
          </button>
          <ConfirmButton
            label="Remove"
            question={`Remove ${schedule.name}?`}
            isDangerous
            act={async () => {
              await remove(path);
              say(`${schedule.name} was removed`);
              go(link("schedules"));
            }}
          >
            It is due no more, and its ticks are forgotten. Jobs that it made stay.
          </ConfirmButton>
        </>
      ) : null}
      {isChanging ? (
        <ScheduleForm
          schedule={schedule}
          close={() => setChanging(false)}
          done={() => {
            setChanging(false);
            props.changed();
          }}
        />
      ) : null}
    </div>
  );
}
