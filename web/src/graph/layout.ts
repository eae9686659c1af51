// Where boxes go: in rows, each below what it comes after, with few crossings and lines that go round other boxes.

export interface Item {
  id: string;
  w: number;
  h: number;
  after: string[]; // ids; what closes a circle is left out by whoever asks
}

export interface Line {
  from: string;
  to: string;
  points: [number, number][];
}

export interface Layout {
  at: Map<string, { x: number; y: number }>;
  lines: Line[];
  w: number;
  h: number;
}

interface Cell {
  id: string;
  w: number;
  h: number;
  x: number; // of its middle
  up: Cell[];
  down: Cell[];
}

const GAP_X = 28;
const GAP_Y = 46;
const SWEEPS = 8;

export function layered(items: Item[]): Layout {
  const rank = ranksOf(items);
  const rows: Cell[][] = Array.from({ length: Math.max(0, ...rank.values()) + 1 }, () => []);
  const cells = new Map<string, Cell>();
  for (const { id, w, h } of items) {
    const cell = { id, w, h, x: 0, up: [], down: [] };
    cells.set(id, cell);
    rows[rank.get(id)!]!.push(cell);
  }
  const chains = items.flatMap((item) =>
    item.after
      .filter((before) => cells.has(before) && rank.get(before)! < rank.get(item.id)!)
      .map((before) => chain(cells.get(before)!, cells.get(item.id)!, rank.get(before)!, rank.get(item.id)!, rows)),
  );
  untangle(rows);
  for (let turn = 0; turn < SWEEPS; turn += 1) straighten(rows, turn % 2 === 0);
  straighten(rows, true);
  return finished(rows, chains);
}

function ranksOf(items: Item[]): Map<string, number> {
  const byId = new Map(items.map((item) => [item.id, item]));
  const rank = new Map<string, number>();
  const open = new Set<string>();
  const visit = (id: string): number => {
    const known = rank.get(id);
    if (known !== undefined) return known;
    if (open.has(id)) return -1; // a circle that nobody told of: cut it here
    open.add(id);
    const before = byId
      .get(id)!
      .after.filter((one) => byId.has(one))
      .map(visit);
    open.delete(id);
    rank.set(id, Math.max(-1, ...before) + 1);
    return rank.get(id)!;
  };
  for (const item of items) visit(item.id);
  return rank;
}

// A line over several rows keeps a narrow place free in each of them.
function chain(from: Cell, to: Cell, first: number, last: number, rows: Cell[][]): Cell[] {
  const cells = [from];
  for (let row = first + 1; row < last; row += 1) {
    const between = { id: "", w: 10, h: 0, x: 0, up: [], down: [] };
    rows[row]!.push(between);
    cells.push(between);
  }
  cells.push(to);
  for (let index = 1; index < cells.length; index += 1) {
    cells[index - 1]!.down.push(cells[index]!);
    cells[index]!.up.push(cells[index - 1]!);
  }
  return cells;
}

// Tries orders of each row, and keeps the one with the fewest crossings; the first is that of the file.
function untangle(rows: Cell[][]): void {
  let best = rows.map((row) => [...row]);
  let fewest = crossings(rows);
  for (let turn = 0; turn < SWEEPS && fewest > 0; turn += 1) {
    sweep(rows, turn % 2 === 0);
    const now = crossings(rows);
    if (now < fewest) [best, fewest] = [rows.map((row) => [...row]), now];
  }
  best.forEach((row, index) => {
    rows[index] = row;
    row.forEach((cell, place) => {
      cell.x = place * 10; // only to begin with
    });
  });
}

function crossings(rows: Cell[][]): number {
  let sum = 0;
  for (const row of rows) {
    const below = rows[rows.indexOf(row) + 1] ?? [];
    const place = new Map(below.map((cell, index) => [cell, index]));
    const ends = row.flatMap((cell) => cell.down.map((one) => place.get(one) ?? 0).sort((a, b) => a - b));
    const seen = new Uint32Array(below.length + 1); // a Fenwick tree: how many ends so far lie at or before a place
    ends.forEach((end, index) => {
      let before = 0;
      for (let at = end + 1; at > 0; at -= at & -at) before += seen[at]!;
      sum += index - before;
      for (let at = end + 1; at < seen.length; at += at & -at) seen[at]! += 1;
    });
  }
  return sum;
}

// Puts each cell of a row near the middle of its neighbours in the row before.
function sweep(rows: Cell[][], isDown: boolean): void {
  for (const row of isDown ? rows : [...rows].reverse()) {
    const wanted = new Map<Cell, number>();
    row.forEach((cell, index) => {
      const near = isDown ? cell.up : cell.down;
      wanted.set(cell, near.length === 0 ? index : mean(near.map((one) => one.x)));
    });
    row.sort((a, b) => wanted.get(a)! - wanted.get(b)!);
    row.forEach((cell, index) => {
      cell.x = index;
    });
  }
}

// Moves the cells of each row towards their neighbours, as far as those beside them allow.
function straighten(rows: Cell[][], isDown: boolean): void {
  for (const row of isDown ? rows : [...rows].reverse()) {
    const near = (cell: Cell) => (isDown ? cell.up : cell.down);
    const wish = row.map((cell) => (near(cell).length === 0 ? cell.x : mean(near(cell).map((one) => one.x))));
    spread(row, wish).forEach((x, index) => {
      row[index]!.x = x;
    });
  }
}

// The places nearest to those wished for that keep order and distance: neighbours that are too close form a block.
function spread(row: Cell[], wish: number[]): number[] {
  const offset: number[] = [];
  row.forEach((cell, index) => {
    const before = row[index - 1];
    offset.push(before === undefined ? 0 : offset[index - 1]! + (before.w + cell.w) / 2 + GAP_X);
  });
  const blocks: { sum: number; n: number }[] = [];
  wish.forEach((one, index) => {
    let block = { sum: one - offset[index]!, n: 1 };
    for (
      let last = blocks[blocks.length - 1];
      last !== undefined && last.sum / last.n > block.sum / block.n;
      last = blocks[blocks.length - 1]
    ) {
      blocks.pop();
      block = { sum: block.sum + last.sum, n: block.n + last.n };
    }
    blocks.push(block);
  });
  return blocks.flatMap(({ sum, n }) => Array<number>(n).fill(sum / n)).map((base, index) => base + offset[index]!);
}

function finished(rows: Cell[][], chains: Cell[][]): Layout {
  const all = rows.flat();
  const left = Math.min(0, ...all.map((cell) => cell.x - cell.w / 2));
  const right = Math.max(0, ...all.map((cell) => cell.x + cell.w / 2));
  const top = new Map<Cell, number>();
  const bottom = new Map<Cell, number>();
  let y = 0;
  for (const row of rows) {
    const height = Math.max(0, ...row.map((cell) => cell.h));
    for (const cell of row) {
      top.set(cell, y);
      bottom.set(cell, y + height);
    }
    y += height + GAP_Y;
  }
  const at = new Map(
    all.filter((cell) => cell.id).map((cell) => [cell.id, { x: cell.x - cell.w / 2 - left, y: top.get(cell)! }]),
  );
  const lines = chains.map((cells): Line => {
    const from = cells[0]!;
    const to = cells[cells.length - 1]!;
    const points: [number, number][] = [[from.x - left, top.get(from)! + from.h]];
    if (from.h < bottom.get(from)! - top.get(from)!) points.push([from.x - left, bottom.get(from)!]);
    for (const cell of cells.slice(1, -1))
      points.push([cell.x - left, top.get(cell)!], [cell.x - left, bottom.get(cell)!]);
    points.push([to.x - left, top.get(to)!]);
    return { from: from.id, to: to.id, points };
  });
  return { at, lines, w: right - left, h: Math.max(0, y - GAP_Y) };
}

function mean(numbers: number[]): number {
  return numbers.reduce((sum, one) => sum + one, 0) / numbers.length;
}

// A line through points: straight where it goes down, bent where it goes aside.
export function curve(points: [number, number][]): string {
  const parts = points.map(([x, y], index) => {
    const before = points[index - 1];
    if (before === undefined) return `M${round(x)} ${round(y)}`;
    if (Math.abs(before[0] - x) < 0.5) return `L${round(x)} ${round(y)}`;
    const middle = (before[1] + y) / 2;
    return `C${round(before[0])} ${round(middle)} ${round(x)} ${round(middle)} ${round(x)} ${round(y)}`;
  });
  return parts.join("");
}

function round(n: number): number {
  return Math.round(n * 10) / 10;
}
