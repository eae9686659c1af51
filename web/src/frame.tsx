import { useEffect, useRef, useState } from "preact/hooks";
import { signOut } from "./api";
import { retryNow, useConnection } from "./connection";
import { useGet, useTick } from "./hooks";
import { type Shortcut, shortcuts, useShortcuts } from "./keys";
import { Dialog, Icon, Toasts } from "./parts";
import { go, link, usePlace } from "./router";
import { type Entry, NAVIGATION, routeOf } from "./routes";
import { useMay, useMe } from "./session";
import { nextTheme, setTheme, theme } from "./theme";

function NotFound() {
  return (
    <div class="empty">
      <h1>There is no such page</h1>
      <p>
        <a href={link("jobs")}>Go to the jobs</a>
      </p>
    </div>
  );
}

export function Frame() {
  const place = usePlace();
  const [isHelp, setHelp] = useState(false);
  const [isMenu, setMenu] = useState(false);
  const route = routeOf(place);
  const address = place.path.join("/");
  const main = useRef<HTMLElement>(null);
  const hasQueue = useGet<{ has_queue: boolean }>("settings").data?.has_queue !== false;
  const may = useMay("operate") && hasQueue;
  const entries = NAVIGATION.filter((entry) => hasQueue || !entry.needsQueue);

  useShortcuts([
    ...entries.map(({ at, title, key }) => ({ keys: `g ${key}`, does: `Go to ${title}`, run: () => go(link(at)) })),
    ...(may ? [{ keys: "n", does: "Start a job", run: () => go(link("start")) }] : []),
    { keys: "/", does: "Go to the filter", run: focusFilter },
    { keys: "?", does: "Show this help", run: () => setHelp(true) },
  ]);
  useEffect(() => setMenu(false), [address]);
  useEffect(() => window.scrollTo(0, 0), [address]);
  useEffect(() => {
    if (!hasQueue && address === "") go(link("runs"));
  }, [hasQueue, address]);

  const Shown = route?.page;
  return (
    <div class="frame">
      <a class="skip" href="#main" onClick={(event) => (event.preventDefault(), main.current?.focus())}>
        Skip to the page
      </a>
      <Side at={place.path[0] ?? "jobs"} entries={entries} mayStart={may} isMenu={isMenu} setMenu={setMenu} help={() => setHelp(true)} />
      <div class="content">
        <ConnectionBar />
        <main id="main" ref={main} tabIndex={-1}>
          {Shown ? <Shown key={address} id={place.path.slice(1).join("/")} query={place.query} /> : <NotFound />}
        </main>
      </div>
      <Toasts />
      {isHelp ? <Help close={() => setHelp(false)} /> : null}
    </div>
  );
}

function focusFilter() {
  const found = document.querySelector<HTMLInputElement>("[data-filter]");
  found?.focus();
  found?.select();
}

function Side(props: { at: string; entries: Entry[]; mayStart: boolean; isMenu: boolean; setMenu: (is: boolean) => void; help: () => void }) {
  const me = useMe();
  const [shade, setShade] = useState(theme());
  const change = () => {
    setTheme(nextTheme());
    setShade(theme());
  };
  return (
    <header class={`side ${props.isMenu ? "is-open" : ""}`}>
      <div class="brand">
        <a href={link(props.entries[0]!.at)}>
          <Logo /> Holdfast
        </a>
        <button
          type="button"
          class="bare menu-button"
          aria-label="Menu"
          aria-expanded={props.isMenu}
          aria-controls="menu"
          onClick={() => props.setMenu(!props.isMenu)}
        >
          <Icon name={props.isMenu ? "close" : "menu"} />
        </button>
      </div>
      <div class="side-body" id="menu">
        {props.mayStart ? (
          <a class="button primary start" href={link("start")}>
            <Icon name="plus" /> Start a job
          </a>
        ) : null}
        <nav aria-label="Pages">
          {props.entries.map((entry) => (
            <a key={entry.at} href={link(entry.at)} aria-current={entry.at === props.at ? "page" : undefined} title={`g ${entry.key}`}>
              <Icon name={entry.icon} /> {entry.title}
            </a>
          ))}
        </nav>
        <div class="side-foot">
          <p class="quiet who" title={`token ${me.name}, role ${me.role}`}>
            {me.name} · {me.role}
          </p>
          <div class="row">
            <button type="button" class="bare" aria-label={`Theme: ${shade}`} title={`Theme: ${shade}`} onClick={change}>
              <Icon name={shade} />
            </button>
            <button type="button" class="bare" aria-label="Keyboard help" title="Keyboard help (?)" onClick={props.help}>
              <Icon name="help" />
            </button>
            <button type="button" class="bare" aria-label="Sign out" title="Sign out" onClick={() => void signOut()}>
              <Icon name="leave" />
            </button>
          </div>
        </div>
      </div>
    </header>
  );
}

export function Logo() {
  return (
    <svg class="logo" viewBox="0 0 24 24" width="22" height="22" aria-hidden="true">
      <path d="M12 2v13M12 6c0 3-5 2-5 6M12 6c0 3 5 2 5 6M12 15c0 3-2 5-5 6M12 15c0 3 2 5 5 6M12 15v7" />
    </svg>
  );
}

function ConnectionBar() {
  const { isLost, retryAt } = useConnection();
  const now = useTick(500, isLost);
  if (!isLost) return null;
  const left = Math.ceil((retryAt - now) / 1000);
  return (
    <div class="connection" role="status">
      <Icon name="warning" />
      <span>Connection lost, {left > 0 ? `coming back in ${left} s` : "coming back now"}</span>
      <button type="button" onClick={retryNow}>
        Now
      </button>
    </div>
  );
}

function Help(props: { close: () => void }) {
  const known: Shortcut[] = shortcuts();
  return (
    <Dialog title="Keyboard" close={props.close}>
      <dl class="keys">
        {known.map((one) => (
          <div key={one.keys}>
            <dt>
              {one.keys.split(" ").map((key) => (
                <kbd key={key}>{key}</kbd>
              ))}
            </dt>
            <dd>{one.does}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}
