// Stretches of time as people type them: 90, 90s, 5m, 2h, 1d.

const UNITS: [string, number][] = [
  ["d", 86400],
  ["h", 3600],
  ["m", 60],
  ["s", 1],
];

export function seconds(text: string): number | null {
  const found = /^\s*(\d+(?:\.\d+)?)\s*([smhd]?)\s*$/.exec(text);
  if (found === null) return null;
  const unit = UNITS.find(([name]) => name === found[2])?.[1] ?? 1;
  return Math.round(Number(found[1]) * unit);
}

export function typed(total: number): string {
  const [name, size] = UNITS.find(([, one]) => total >= one && total % one === 0) ?? ["s", 1];
  return total === 0 ? "0" : `${total / size}${name}`;
}
