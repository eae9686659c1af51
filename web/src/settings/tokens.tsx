import { useState } from "preact/hooks";
import { post, remove } from "../api";
import { useGet } from "../hooks";
import { type Column, ConfirmButton, CopyButton, Dialog, Empty, Icon, Problem, say, Table, Time } from "../parts";
import { Section } from "../parts/section";
import type { MadeToken, Token } from "./types";

const MEANINGS = {
  read: "looks at everything",
  operate: "also submits, answers and steers jobs",
  admin: "also deletes, makes tokens and changes settings",
};
const LIFETIMES: [string, string][] = [
  ["7", "7 days"],
  ["30", "30 days"],
  ["90", "90 days"],
  ["365", "a year"],
  ["", "for ever"],
];

// Who may use the server. What a token is, is shown once, when it is made.
export function TokensPart() {
  const { data, problem, reload } = useGet<Token[]>("tokens");
  const [isMaking, setMaking] = useState(false);
  const [made, setMade] = useState<MadeToken | null>(null);
  const columns: Column<Token>[] = [
    { head: "Name", class: "grow", cell: (one) => (one.is_mine ? `${one.name} (yours)` : one.name) },
    { head: "Role", class: "fit", cell: (one) => <span title={MEANINGS[one.role]}>{one.role}</span> },
    { head: "Id", class: "fit", cell: (one) => <code>{one.id}</code> },
    { head: "Made", class: "fit", cell: (one) => <Time at={one.created} /> },
    { head: "Runs out", class: "fit", cell: (one) => (one.expires ? <Time at={one.expires} /> : "never") },
    { head: "", class: "fit", cell: (one) => (one.is_mine ? null : <Revoke token={one} done={reload} />) },
  ];
  return (
    <Section
      title="Tokens"
      hint="Whoever calls the server needs one. Only its hash is kept."
      aside={
        <button type="button" class="primary" onClick={() => setMaking(true)}>
          <Icon name="plus" /> Make a token
        </button>
      }
    >
      <Problem error={problem} retry={reload} />
      {data === undefined ? null : data.length > 0 ? (
        <Table label="Tokens" columns={columns} rows={data} keyOf={(one) => one.id} />
      ) : (
        <Empty title="There are no tokens" />
      )}
      {isMaking ? (
        <MakeToken
          close={() => setMaking(false)}
          done={(token) => {
            setMaking(false);
            setMade(token);
            reload();
          }}
        />
      ) : null}
      {made ? <ShowToken made={made} close={() => setMade(null)} /> : null}
    </Section>
  );
}

function Revoke(props: { token: Token; done: () => void }) {
  async function act() {
    await remove(`tokens/${encodeURIComponent(props.token.id)}`);
    say(`${props.token.name} counts no more`);
    props.done();
  }
  return (
    <ConfirmButton label="Revoke" question={`Revoke ${props.token.name}?`} isDangerous act={act}>
      Whoever uses it is refused from the next call on. It cannot be brought back.
    </ConfirmButton>
  );
}

function MakeToken(props: { close: () => void; done: (made: MadeToken) => void }) {
  const [problem, setProblem] = useState<Error | null>(null);
  async function send(event: SubmitEvent) {
    event.preventDefault();
    const given = new FormData(event.target as HTMLFormElement);
    const days = String(given.get("days"));
    try {
      props.done(await post<MadeToken>("tokens", { name: given.get("name"), role: given.get("role"), days: days ? Number(days) : null }));
    } catch (error) {
      setProblem(error as Error);
    }
  }
  return (
    <Dialog title="Make a token" close={props.close}>
      <form class="stack" onSubmit={send}>
        <label class="field">
          Name <input name="name" required maxLength={100} autocomplete="off" placeholder="who or what it is for" autofocus />
        </label>
        <fieldset class="plain stack tight">
          <legend>Role</legend>
          {Object.entries(MEANINGS).map(([role, meaning]) => (
            <label class="choice" key={role}>
              <input type="radio" name="role" value={role} defaultChecked={role === "read"} />
              <span>
                <strong>{role}</strong> <span class="quiet">{meaning}</span>
              </span>
            </label>
          ))}
        </fieldset>
        <label class="field">
          Counts for
          <select name="days" defaultValue="30">
            {LIFETIMES.map(([days, label]) => (
              <option key={days} value={days} selected={days === "30"}>
                {label}
              </option>
            ))}
          </select>
        </label>
        <Problem error={problem} />
        <div class="row end">
          <button type="button" onClick={props.close}>
            Cancel
          </button>
          <button type="submit" class="primary">
            Make it
          </button>
        </div>
      </form>
    </Dialog>
  );
}

function ShowToken(props: { made: MadeToken; close: () => void }) {
  const { token, name } = props.made;
  const link = `${location.origin}${location.pathname}#token=${token}`;
  return (
    <Dialog title={`Token ${name}`} close={props.close}>
      <p>It is shown this once. Copy it now: nobody can show it again.</p>
      <div class="secret">
        <code aria-label="Token">{token}</code>
        <CopyButton text={token} label="Copy the token" />
      </div>
      <p class="quiet">This link signs a browser in with it:</p>
      <div class="secret">
        <code aria-label="Link">{link}</code>
        <CopyButton text={link} label="Copy the link" />
      </div>
      <div class="row end">
        <button type="button" class="primary" onClick={props.close}>
          Done
        </button>
      </div>
    </Dialog>
  );
}
