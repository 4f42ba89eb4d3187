// Icons, drawn with lines of the text's color. They say nothing to a screen reader: what they are
// on does.

import type { JSX } from "preact";
import { disabledBy } from "./disabled";

const PATHS = {
  chat: "M4 5h16v11H9l-5 4z",
  graph: "M4 4h6v5H4zM14 15h6v5h-6zM7 9v3a3 3 0 0 0 3 3h4M17 15V9M14 4h6v5h-6z",
  playground: "M5 4v16l14-8z",
  server: "M4 4h16v6H4zM4 14h16v6H4zM8 7h.01M8 17h.01",
  send: "M5 12h14M13 6l6 6-6 6",
  stop: "M7 7h10v10H7z",
  plus: "M12 5v14M5 12h14",
  copy: "M9 9h10v10H9zM5 15V5h10",
  done: "M5 12l5 5L19 7",
  edit: "M4 20h4L19 9l-4-4L4 16zM13 7l4 4",
  again: "M19 12a7 7 0 1 1-2-5l2 2M19 4v5h-5",
  left: "M14 6l-6 6 6 6",
  right: "M10 6l6 6-6 6",
  down: "M6 10l6 6 6-6",
  close: "M6 6l12 12M18 6L6 18",
  image: "M4 5h16v14H4zM4 16l5-5 4 4 3-3 4 4M15 9h.01",
  settings: "M4 7h10M18 7h2M4 17h2M10 17h10M16 5v4M8 15v4",
  key: "M11.5 12a3.5 3.5 0 1 1-7 0 3.5 3.5 0 0 1 7 0M11.5 12H20v3M16.5 12v2.5",
  sun: "M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM12 3v2M12 19v2M3 12h2M19 12h2M5.6 5.600L7 7M17 17l1.4 1.400M5.6 18.400L7 17M17 7l1.4-1.4",
  moon: "M19 14a8 8 0 0 1-9-10 8 8 0 1 0 9 10z",
  half: "M12 4a8 8 0 1 0 0 16zM12 4a8 8 0 0 1 0 16",
  trash: "M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13",
  code: "M9 8l-4 4 4 4M15 8l4 4-4 4",
  pause: "M9 6v12M15 6v12",
  play: "M8 5v14l11-7z",
  history: "M4 6h16M4 12h16M4 18h10",
  tool: "M14 7a4 4 0 0 0 5 5l-8 8-4-4 8-8zM14 7l3-3a4 4 0 0 1 3 3l-3 3",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name, size = 18 }: { name: IconName; size?: number }): JSX.Element {
  return (
    <svg class="icon" width={size} height={size} viewBox="0 0 24 24" fill="none" stroke="currentColor" stroke-width="1.7" stroke-linecap="round" stroke-linejoin="round" aria-hidden="true">
      <path d={PATHS[name]} />
    </svg>
  );
}

/** A button with an icon alone, which `label` names. `disabled` says why it is. */
export function IconButton(props: { icon: IconName; label: string; onClick: () => void; disabled?: string | null; pressed?: boolean; size?: number }): JSX.Element {
  return (
    <button type="button" class="icon-button" aria-label={props.label} aria-pressed={props.pressed} {...disabledBy(props.disabled ?? null, props.label)} onClick={props.onClick}>
      <Icon name={props.icon} size={props.size ?? 18} />
    </button>
  );
}
