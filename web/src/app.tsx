import { useEffect, useState } from "preact/hooks";
import { get, onSignedOut, signIn, signInFromLink } from "./api";
import { Frame, Logo } from "./frame";
import { Problem } from "./parts";
import { Session } from "./session";
import type { Me } from "./types";

function SignIn(props: { done: () => void; problem: string }) {
  const [problem, setProblem] = useState("");
  async function send(event: SubmitEvent) {
    event.preventDefault();
    const token = String(new FormData(event.target as HTMLFormElement).get("token")).trim();
    try {
      await signIn(token);
      props.done();
    } catch (error) {
      setProblem((error as Error).message);
    }
  }
  return (
    <main class="sign-in">
      <form class="card stack" onSubmit={send}>
        <h1>
          <Logo /> Holdfast
        </h1>
        <label class="field">
          Token <input name="token" type="password" autocomplete="off" required autofocus />
        </label>
        <button type="submit" class="primary">
          Sign in
        </button>
        <Problem error={problem || props.problem} />
        <p class="quiet">
          The first start of the server shows a link that lets you in. <code>holdfast token new NAME</code> makes a
          token.
        </p>
      </form>
    </main>
  );
}

type Known = { me: Me } | { me: null; problem: string };

export function App() {
  const [known, setKnown] = useState<Known | undefined>(undefined);
  const check = () =>
    get<Me>("me").then(
      (me) => setKnown({ me }),
      (error) => setKnown({ me: null, problem: error.status === 401 ? "" : error.message }),
    );

  useEffect(() => {
    onSignedOut(() => setKnown({ me: null, problem: "" }));
    signInFromLink().then(check, (error) => setKnown({ me: null, problem: error.message }));
  }, []);

  if (known === undefined) return null;
  if (known.me === null) return <SignIn done={check} problem={known.problem} />;
  return (
    <Session.Provider value={known.me}>
      <Frame />
    </Session.Provider>
  );
}
