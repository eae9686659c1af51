// A form's fields: what is typed, and what it means. The server decides again.

import type { Field } from "../types";

export type Typed = Record<string, string>;

// What a field shows at first.
export function initial(field: Field): string {
  if (field.default === undefined || field.default === null) return "";
  return typeof field.default === "string" ? field.default : JSON.stringify(field.default);
}

// The value that a text stands for; undefined leaves it out. Throws an Error that says what is wrong, for people.
export function meant(field: Field, text: string): unknown {
  const given = text.trim();
  if (given === "") {
    if (field.required !== false && field.default === undefined) throw new Error("This is needed.");
    return undefined;
  }
  if (field.type === "number") return number(field, given);
  if (field.type === "bool") return given === "true";
  if (field.type === "choice") return (field.options ?? []).find((one) => asText(one) === text) ?? text;
  if (field.type === "list" || field.type === "object") return container(field.type, given);
  if (field.type === "any" || field.type === undefined) return anything(given, text);
  return text;
}

export function asText(option: unknown): string {
  return typeof option === "string" ? option : JSON.stringify(option);
}

function number(field: Field, given: string): number {
  const value = Number(given.replace(",", "."));
  if (!Number.isFinite(value)) throw new Error("This is not a number.");
  if (field.min !== undefined && value < field.min) throw new Error(`At least ${field.min}.`);
  if (field.max !== undefined && value > field.max) throw new Error(`At most ${field.max}.`);
  return value;
}

function container(type: "list" | "object", given: string): unknown {
  let value: unknown;
  try {
    value = JSON.parse(given);
  } catch (error) {
    if (type === "list" && !given.startsWith("["))
      return given
        .split("\n")
        .map((line) => line.trim())
        .filter(Boolean);
    throw new Error(`This is not JSON: ${(error as Error).message}`);
  }
  if (type === "list" && !Array.isArray(value)) throw new Error("A list is wanted: one item a line, or JSON in [ ].");
  if (type === "object" && (value === null || typeof value !== "object" || Array.isArray(value)))
    throw new Error("An object is wanted: JSON in { }.");
  return value;
}

function anything(given: string, text: string): unknown {
  if (!/^[[{"\d-]|^(true|false|null)$/.test(given)) return text;
  try {
    return JSON.parse(given);
  } catch {
    return text;
  }
}
