// Light or dark: as the system says, or as the reader chose.

export type Theme = "auto" | "light" | "dark";

const THEMES: Theme[] = ["auto", "light", "dark"];
const KEPT = "holdfast.theme";

export function theme(): Theme {
  const kept = localStorage.getItem(KEPT) as Theme;
  return THEMES.includes(kept) ? kept : "auto";
}

export function setTheme(chosen: Theme): void {
  localStorage.setItem(KEPT, chosen);
  applyTheme();
}

export function applyTheme(): void {
  document.documentElement.dataset.theme = theme();
}

export function nextTheme(): Theme {
  return THEMES[(THEMES.indexOf(theme()) + 1) % THEMES.length]!;
}
