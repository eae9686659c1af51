// How times, sizes and amounts are said.

const STEPS: [number, Intl.RelativeTimeFormatUnit][] = [
  [60, "second"],
  [60, "minute"],
  [24, "hour"],
  [7, "day"],
  [4.35, "week"],
  [12, "month"],
  [Infinity, "year"],
];
const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto", style: "short" });
const absolute = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
const clock = new Intl.DateTimeFormat(undefined, {
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  hourCycle: "h23",
});

export function ago(at: string, now = Date.now()): string {
  let value = (Date.parse(at) - now) / 1000;
  if (Math.abs(value) < 5) return "now";
  for (const [size, unit] of STEPS) {
    if (Math.abs(value) < size) return relative.format(Math.round(value), unit);
    value /= size;
  }
  return at;
}

export function exactly(at: string): string {
  return absolute.format(new Date(at));
}

export function timeOfDay(at: string): string {
  return clock.format(new Date(at));
}

// A stretch of time: 40 ms, 3.2 s, 4 m 10 s, 2 h 5 m, 3 d 4 h.
export function stretch(ms: number): string {
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(ms < 10_000 ? 1 : 0)} s`;
  const minutes = Math.floor(ms / 60_000);
  if (minutes < 60) return both(minutes, "m", Math.floor((ms % 60_000) / 1000), "s");
  const hours = Math.floor(minutes / 60);
  return hours < 24 ? both(hours, "h", minutes % 60, "m") : both(Math.floor(hours / 24), "d", hours % 24, "h");
}

function both(large: number, largeUnit: string, small: number, smallUnit: string): string {
  return `${large} ${largeUnit}${small > 0 ? ` ${small} ${smallUnit}` : ""}`;
}

export function between(from: string | null, to: string | null, now = Date.now()): string {
  return from === null ? "" : stretch((to === null ? now : Date.parse(to)) - Date.parse(from));
}

export function bytes(n: number): string {
  if (n < 1000) return `${n} B`;
  const units = ["kB", "MB", "GB", "TB"];
  let size = n;
  let unit = -1;
  while (size >= 1000 && unit < units.length - 1) {
    size /= 1000;
    unit += 1;
  }
  return `${size.toFixed(size < 10 ? 1 : 0)} ${units[unit]}`;
}

export function count(n: number): string {
  return n.toLocaleString("en");
}

export function money(usd: number): string {
  return `$${usd.toFixed(usd < 1 ? 4 : 2)}`;
}

export function plural(n: number, one: string, many = `${one}s`): string {
  return `${count(n)} ${n === 1 ? one : many}`;
}
