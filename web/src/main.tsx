import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import { call, signInFromLink } from "./api";
import { JobPage } from "./job";
import { JobsPage } from "./jobs";
import "./style.css";

function SignIn(props: { done: () => void }) {
  const [problem, setProblem] = useState("");
  async function send(event: SubmitEvent) {
    event.preventDefault();
    const token = String(new FormData(event.target as HTMLFormElement).get("token")).trim();
    try {
      await call("POST", "session", { token });
      props.done();
    } catch (error) {
      setProblem((error as Error).message);
    }
  }
  return (
    <form class="ask" onSubmit={send}>
      <h1>Holdfast</h1>
      <label>
        Token <input name="token" type="password" autocomplete="off" />
      </label>
      <small>holdfast token new NAME makes one.</small>
      <button type="submit">Sign in</button>
      {problem ? <p class="problem">{problem}</p> : null}
    </form>
  );
}

function App() {
  const [who, setWho] = useState<{ name: string; role: string } | null | undefined>(undefined);
  const [hash, setHash] = useState(location.hash);
  const check = () => call<{ name: string; role: string }>("GET", "me").then(setWho, () => setWho(null));

  useEffect(() => {
    signInFromLink().finally(() => setHash(location.hash)).then(check, check);
    const changed = () => setHash(location.hash);
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);

  if (who === undefined) return null;
  if (who === null) return <SignIn done={check} />;
  const job = new URLSearchParams(hash.slice(1)).get("job");
  return job ? <JobPage key={job} id={job} /> : <JobsPage />;
}

render(<App />, document.getElementById("app")!);
