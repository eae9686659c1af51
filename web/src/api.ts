// How the server is asked.

export class Refused extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly findings: { severity: string; message: string; line: number; column: number; fix: string }[] = [],
  ) {
    super(message);
  }
}

// What a server says that is away, or on its way: it cannot be reached, or cannot work yet.
export const AWAY = [0, 503];

type Ask = "GET" | "POST" | "PUT" | "PATCH" | "DELETE";

let signedOut: () => void = () => {};

// Whoever shows the sign-in form is told when a call is refused for want of a token.
export function onSignedOut(tell: () => void): void {
  signedOut = tell;
}

// Calls the API. Raises Refused with the server's own sentence, or with one that says that it cannot be reached.
export async function call<T>(method: Ask, path: string, body?: unknown, signal?: AbortSignal): Promise<T> {
  const answer = await reach(`api/v1/${path}`, {
    method,
    signal: signal ?? null,
    ...(body === undefined ? {} : { body: JSON.stringify(body), headers: { "Content-Type": "application/json" } }),
  });
  if (!answer.ok) throw await refusalOf(answer);
  return (answer.status === 204 ? undefined : await answer.json()) as T;
}

export const get = <T>(path: string, signal?: AbortSignal) => call<T>("GET", path, undefined, signal);
export const post = <T>(path: string, body: unknown = {}) => call<T>("POST", path, body);
export const remove = (path: string) => call<void>("DELETE", path);

export async function reach(address: string, how: RequestInit): Promise<Response> {
  try {
    return await fetch(address, how);
  } catch (error) {
    if ((error as Error).name === "AbortError") throw error;
    throw new Refused(0, "unreachable", "The server cannot be reached.");
  }
}

export async function refusalOf(answer: Response): Promise<Refused> {
  const said = await answer.json().catch(() => ({}));
  const refused = new Refused(
    answer.status,
    said.error ?? "",
    said.message ?? `The server says ${answer.status}.`,
    said.findings ?? [],
  );
  if (answer.status === 401) signedOut();
  return refused;
}

// A query string of what is not empty; a list gives its name several times.
export function query(asked: Record<string, string | number | readonly string[] | undefined>): string {
  const given = new URLSearchParams();
  for (const [name, value] of Object.entries(asked)) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== undefined && one !== "") given.append(name, String(one));
    }
  }
  const text = given.toString();
  return text && `?${text}`;
}

// The token of the first link is behind the #, which no server sees; it is exchanged for a cookie that no script sees.
export async function signInFromLink(): Promise<void> {
  const asked = new URLSearchParams(location.hash.slice(1));
  const token = asked.get("token");
  if (token === null) return;
  asked.delete("token"); // it must not stay in the address, nor in the history
  history.replaceState(null, "", `${location.pathname}#${asked}`);
  await signIn(token);
}

export async function signIn(token: string): Promise<void> {
  await post("session", { token });
}

export async function signOut(): Promise<void> {
  await remove("session");
  signedOut();
}
