// Small pictures, 16 × 16, drawn in the colour of the text around them.

const PATHS: Record<string, string> = {
  // statuses: each has its own shape, so that none is known by its colour alone
  pending: "M8 2.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11Z",
  queued: "M3 8h.01M8 8h.01M13 8h.01",
  awaiting_approval: "M6 6.2a2 2 0 1 1 2.8 1.9c-.5.2-.8.6-.8 1.1v.3M8 12h.01",
  running: "M8 2a6 6 0 1 1-6 6",
  waiting: "M8 4.5V8l2.3 1.6M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2Z",
  paused: "M5.5 3.5v9M10.5 3.5v9",
  completed: "m3 8.5 3.3 3.3L13 4.7",
  failed: "m4 4 8 8M12 4l-8 8",
  cancelled: "M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2ZM4 12l8-8",
  skipped: "m3 4 5 4-5 4ZM12.5 4v8",
  idle: "M4 8h8",
  warning: "M8 2.5 14 13H2ZM8 6.5v3M8 11.3h.01",
  info: "M8 7.5V12M8 4.5h.01",
  // navigation
  jobs: "M2.5 4h11M2.5 8h11M2.5 12h7",
  flows: "M5 2.5H2.5V5H5ZM13.5 6.7H11v2.6h2.5ZM5 11H2.5v2.5H5ZM5 3.8h2.5V8H11M5 12.2h2.5V8",
  schedules: "M2.5 4.5h11v9h-11ZM2.5 7.5h11M5.5 2.5v3M10.5 2.5v3",
  runs: "M4.5 3v10l8-5Z",
  checkpoints: "M4 3v10M4 8h4.5a3 3 0 0 0 3-3V3M2.6 3h2.8M2.6 13h2.8M10 3h3",
  resources: "M3 3.5h10v3.7H3ZM3 8.8h10v3.7H3ZM5.3 5.4h.01M5.3 10.7h.01",
  settings: "M2.5 5h6M11.5 5h2M2.5 11h2M7.5 11h6M10 3.3v3.4M6 9.3v3.4",
  // things to do
  plus: "M8 3v10M3 8h10",
  minus: "M3 8h10",
  search: "M7 2.5a4.5 4.5 0 1 0 0 9 4.5 4.5 0 0 0 0-9ZM10.3 10.3l3.2 3.2",
  close: "m4 4 8 8M12 4l-8 8",
  copy: "M5.5 5.5h8v8h-8ZM10.5 5.5v-3h-8v8h3",
  menu: "M2.5 4h11M2.5 8h11M2.5 12h11",
  help: "M6 6.2a2 2 0 1 1 2.8 1.9c-.5.2-.8.6-.8 1.1v.3M8 12h.01",
  auto: "M8 2a6 6 0 1 0 0 12ZM8 2a6 6 0 1 1 0 12",
  light:
    "M8 5.2a2.8 2.8 0 1 0 0 5.6 2.8 2.8 0 0 0 0-5.6ZM8 1.5V3M8 13v1.5M1.5 8H3M13 8h1.5M3.4 3.4l1 1M11.6 11.6l1 1M3.4 12.6l1-1M11.6 4.4l1-1",
  dark: "M13.3 9.6A5.8 5.8 0 0 1 6.4 2.7a5.8 5.8 0 1 0 6.9 6.9Z",
  leave: "M6 2.5H3v11h3M7 8h6.5M10.7 5.2 13.5 8l-2.8 2.8",
  down: "m4 6 4 4 4-4",
  right: "m6 4 4 4-4 4",
  left: "m10 4-4 4 4 4",
  fit: "M2.5 5.5v-3h3M10.5 2.5h3v3M13.5 10.5v3h-3M5.5 13.5h-3v-3",
  loop: "M3 8a5 5 0 0 1 8.6-3.5L13 6M13 3v3h-3M13 8a5 5 0 0 1-8.6 3.5L3 10M3 13v-3h3",
  play: "M4.5 3v10l8-5Z",
  link: "M6.5 9.5l3-3M7 4.8l1.4-1.4a3 3 0 0 1 4.2 4.2L11.2 9M9 11.2l-1.4 1.4a3 3 0 0 1-4.2-4.2L4.8 7",
};

export function Icon(props: { name: string; class?: string }) {
  return (
    <svg
      class={`icon ${props.class ?? ""}`}
      viewBox="0 0 16 16"
      width="16"
      height="16"
      aria-hidden="true"
      focusable="false"
    >
      <path d={PATHS[props.name] ?? PATHS.pending} />
    </svg>
  );
}

export function iconPath(name: string): string {
  return PATHS[name] ?? PATHS.pending!;
}
