import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef } from "preact/hooks";
import { Icon } from "./icon";

// A modal dialog, for as long as it is drawn. Escape, the cross and a click beside it close it.
export function Dialog(props: { title: string; close: () => void; children: ComponentChildren; isWide?: boolean }) {
  const here = useRef<HTMLDialogElement>(null);
  const title = useId();
  useEffect(() => {
    const before = document.activeElement;
    here.current?.showModal();
    return () => before instanceof HTMLElement && before.focus();
  }, []);
  return (
    <dialog
      ref={here}
      class={props.isWide ? "wide" : ""}
      aria-labelledby={title}
      onCancel={(event) => {
        event.preventDefault();
        props.close();
      }}
      onClick={(event) => event.target === here.current && props.close()}
    >
      <div class="dialog-body">
        <header>
          <h2 id={title}>{props.title}</h2>
          <button type="button" class="bare" aria-label="Close" onClick={props.close}>
            <Icon name="close" />
          </button>
        </header>
        {props.children}
      </div>
    </dialog>
  );
}
