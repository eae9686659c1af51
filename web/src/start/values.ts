// What is typed into a form, as texts, and what of it is sent.

import type { Variable } from "./types";

export type Values = Record<string, string>;

export function asTyped(value: unknown): string {
  if (value === null || value === undefined) return "";
  return typeof value === "object" ? JSON.stringify(value, null, 2) : String(value);
}

// What the form begins with: what is given, else what each variable is by itself.
export function initialValues(variables: Variable[], given: Record<string, unknown> = {}): Values {
  return Object.fromEntries(variables.filter((one) => !one.sensitive).map((one) => [one.name, asTyped(one.name in given ? given[one.name] : one.default)]));
}

// What was changed; the rest is the server's to fill in. Texts go as they are typed: it makes numbers and truths of them.
export function valuesToSend(variables: Variable[], values: Values): Record<string, unknown> {
  const sent: Record<string, unknown> = {};
  for (const one of variables) {
    const typed = values[one.name];
    if (one.sensitive || typed === undefined || typed === asTyped(one.default)) continue;
    if (typed === "" && !["str", "text"].includes(one.type)) continue;
    sent[one.name] = typed;
  }
  return sent;
}

// What is wrong with what was typed, by name; empty if nothing is.
export function problemsOf(variables: Variable[], values: Values): Record<string, string> {
  const found: Record<string, string> = {};
  for (const one of variables) {
    const problem = one.sensitive ? "" : problemOf(one, values[one.name] ?? "");
    if (problem) found[one.name] = problem;
  }
  return found;
}

function problemOf(one: Variable, typed: string): string {
  if (typed === "") return one.required && asTyped(one.default) === "" ? "This is needed." : "";
  if (one.type === "number") {
    const number = Number(typed);
    if (typed.trim() === "" || Number.isNaN(number)) return "This must be a number.";
    if (one.min !== null && number < one.min) return `This must be ${one.min} at least.`;
    if (one.max !== null && number > one.max) return `This must be ${one.max} at most.`;
  }
  if (one.type === "any" && /^\s*[[{]/.test(typed)) {
    try {
      JSON.parse(typed);
    } catch (error) {
      return `This looks like JSON, but is none: ${(error as Error).message}`;
    }
  }
  return "";
}

// The field that a refusal of the server is about.
export function fieldOf(message: string, variables: Variable[]): string | undefined {
  return variables.find((one) => message.startsWith(`the input ${one.name} `))?.name;
}
