// YAML in colours, line by line. It need not understand everything: what it does not know stays plain.

export interface Piece {
  kind: "plain" | "key" | "text" | "number" | "word" | "mark" | "comment" | "reference";
  text: string;
}

const KEY = /^(\s*(?:- +)*)("[^"]*"|'[^']*'|[^\s#'"{}[\],&*!|>%@`-][^#:]*?|-[^\s#:][^#:]*?)(:)(?=\s|$)/;
const VALUE =
  /(#.*$)|("(?:[^"\\]|\\.)*"|'[^']*')|([\w-]+)(?=:\s)|(\$\{?[\w.]+\}?)|([{}[\],:]|^\s*- )|(?<![\w.-])(-?\d+(?:\.\d+)?)(?![\w.-])|\b(true|false|null|yes|no)\b(?=\s*(?:[,}\]#]|$))/g;
const KINDS: Piece["kind"][] = ["comment", "text", "key", "reference", "mark", "number", "word"];

export function coloured(text: string): Piece[][] {
  let block: number | null = null; // how far the key is indented whose text goes on over several lines
  return text.split("\n").map((line) => {
    const indent = line.length - line.trimStart().length;
    if (block !== null && (line.trim() === "" || indent > block)) return [{ kind: "text", text: line }];
    block = /(?::|-)\s+[|>][+-]?\d*\s*(?:#.*)?$/.test(line) ? indent : null;
    const found = KEY.exec(line);
    if (found === null) return pieces(line);
    const [, before = "", key = "", colon = ""] = found;
    return [{ kind: "mark", text: before }, { kind: "key", text: key }, { kind: "mark", text: colon }, ...pieces(line.slice(found[0].length))];
  });
}

function pieces(text: string): Piece[] {
  const made: Piece[] = [];
  const isPlain = !/^\s*(?:- +)*[[{]/.test(text); // in a sentence, commas and colons are nothing special
  let at = 0;
  for (const found of text.matchAll(VALUE)) {
    if (found[1] !== undefined && found.index > 0 && !/\s/.test(text[found.index - 1]!)) continue; // a # inside a word
    if (found.index > at) made.push({ kind: "plain", text: text.slice(at, found.index) });
    const kind = KINDS[found.slice(1).findIndex((group) => group !== undefined)]!;
    made.push({ kind: isPlain && (kind === "key" || (kind === "mark" && found.index > 0)) ? "plain" : kind, text: found[0] });
    at = found.index + found[0].length;
  }
  if (at < text.length) made.push({ kind: "plain", text: text.slice(at) });
  return made;
}
