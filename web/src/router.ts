// Addresses are behind the #: `#/jobs/ID?tab=log`. No server sees them, and the page works under any path.

import { useEffect, useState } from "preact/hooks";

export interface Place {
  path: string[];
  query: URLSearchParams;
}

export function placeOf(hash: string): Place {
  const [path = "", asked = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  return { path: path.split("/").filter(Boolean).map(decoded), query: new URLSearchParams(asked) };
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part; // typed by hand
  }
}

// The address of a page: `link("jobs", id)`, `link("start", {flow: "hello"})`.
export function link(...parts: (string | Record<string, string>)[]): string {
  const last = parts[parts.length - 1];
  const asked = typeof last === "object" ? new URLSearchParams(last).toString() : "";
  const path = parts.filter((part) => typeof part === "string").map((part) => encodeURIComponent(part));
  return `#/${path.join("/")}${asked && `?${asked}`}`;
}

export function go(address: string): void {
  location.hash = address;
}

// Changes what is asked behind the ?, without a new entry in the history. An empty value takes it away.
export function ask(changes: Record<string, string>): void {
  const [path = "#/", asked = ""] = location.hash.split("?", 2);
  const given = new URLSearchParams(asked);
  for (const [name, value] of Object.entries(changes)) value ? given.set(name, value) : given.delete(name);
  const text = given.toString();
  history.replaceState(null, "", `${location.pathname}${path}${text && `?${text}`}`);
  dispatchEvent(new HashChangeEvent("hashchange"));
}

export function usePlace(): Place {
  const [hash, setHash] = useState(location.hash);
  useEffect(() => {
    const changed = () => setHash(location.hash);
    changed();
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  return placeOf(hash);
}
