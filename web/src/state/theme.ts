// Light or dark: as the system has it, or as the reader chose.

import { effect } from "@preact/signals";
import { stored } from "./stored";

export type Theme = "system" | "light" | "dark";

export const theme = stored<Theme>(() => localStorage, "theme", "system");

effect(() => {
  document.documentElement.dataset["theme"] = theme.value;
});

/** Goes on to the next theme. */
export function switchTheme(): void {
  const order: Record<Theme, Theme> = { system: "light", light: "dark", dark: "system" };
  theme.value = order[theme.value];
}
