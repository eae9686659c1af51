import { useState } from "preact/hooks";
import type { Ask } from "../types";
import { plural } from "../words";
import { AskForm } from "./ask_form";

const SHOWN = 5;

// What a job waits for. Of many questions a few are shown, that of the chosen step first: what is below must stay in reach.
export function Asks(props: { jobId: string; asks: Ask[]; chosen: string }) {
  const [isAll, setAll] = useState(false);
  const isChosen = (one: Ask) => one.step === props.chosen;
  const ordered = [...props.asks.filter(isChosen), ...props.asks.filter((one) => !isChosen(one))];
  const shown = isAll ? ordered : ordered.slice(0, SHOWN);
  const hidden = ordered.length - shown.length;
  return (
    <>
      {shown.map((one) => (
        <AskForm key={one.id} jobId={props.jobId} ask={one} />
      ))}
      {hidden > 0 ? (
        <button type="button" class="more-asks" onClick={() => setAll(true)}>
          Show {plural(hidden, "more question")}
        </button>
      ) : null}
    </>
  );
}
