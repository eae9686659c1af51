import { post, remove } from "../api";
import { ConfirmButton, Icon, say, sayProblem } from "../parts";
import { go, link } from "../router";
import { useMay } from "../session";
import { useShortcuts } from "../keys";
import { type Job, OVER } from "../types";

const GOING = ["queued", "running", "waiting"];

// What may be done to a job as it stands now, by whoever looks.
export function Actions(props: { job: Job; followAgain: () => void; changed: () => void }) {
  const { job } = props;
  const may = useMay("operate");
  const mayDelete = useMay("admin");
  const isOver = OVER.includes(job.status);

  async function act(name: string, said: string, body: object = {}) {
    await post(`jobs/${job.id}/${name}`, body);
    say(said);
    if (isOver) props.followAgain(); // its stream had ended with it
    props.changed();
  }
  const tried = (name: string, said: string) => () => act(name, said).catch(sayProblem);

  useShortcuts(
    may
      ? [
          ...(GOING.includes(job.status) ? [{ keys: "p", does: "Pause the job", run: tried("pause", "Pausing") }] : []),
          ...(job.status === "paused" ? [{ keys: "p", does: "Resume the job", run: tried("resume", "Going on") }] : []),
        ]
      : [],
  );

  if (!may) return null;
  return (
    <div class="row" role="group" aria-label="Actions">
      {job.status === "awaiting_approval" ? (
        <button type="button" class="primary" onClick={tried("approve", "Approved")}>
          <Icon name="completed" /> Approve
        </button>
      ) : null}
      {GOING.includes(job.status) ? (
        <button type="button" onClick={tried("pause", "Pausing: running steps finish, none start")}>
          <Icon name="paused" /> Pause
        </button>
      ) : null}
      {job.status === "paused" ? (
        <button type="button" class="primary" onClick={tried("resume", "Going on")}>
          <Icon name="play" /> Resume
        </button>
      ) : null}
      {job.status === "failed" ? (
        <button type="button" class="primary" onClick={tried("retry", "Taken up at the steps that failed")}>
          <Icon name="loop" /> Retry
        </button>
      ) : null}
      {isOver ? null : (
        <ConfirmButton
          label="Cancel"
          confirm="Cancel the job"
          question="Cancel this job?"
          asksReason
          isDangerous
          act={(reason) => act("cancel", "Cancelling", { reason })}
        >
          Its running steps are stopped, and everything it holds is released.
        </ConfirmButton>
      )}
      {isOver && !job.archived ? (
        <button type="button" onClick={tried("archive", "Archived")}>
          Archive
        </button>
      ) : null}
      {isOver && job.archived ? (
        <button type="button" onClick={tried("unarchive", "Back in the list")}>
          Unarchive
        </button>
      ) : null}
      <a class="button" href={link("start", { flow: job.flow, from: job.id })}>
        Start again
      </a>
      {isOver && mayDelete ? (
        <ConfirmButton
          label="Delete"
          confirm="Delete the job"
          question="Delete this job for good?"
          isDangerous
          act={async () => {
            await remove(`jobs/${job.id}`);
            say("Deleted");
            go(link("jobs"));
          }}
        >
          Its history, log, outputs and workspace are deleted. This cannot be undone.
        </ConfirmButton>
      ) : null}
    </div>
  );
}
