// The button that goes from one theme to the next.

import type { JSX } from "preact";
import { switchTheme, theme } from "../state/theme";
import { IconButton, type IconName } from "./icons";

const THEMES: Record<typeof theme.value, [icon: IconName, name: string]> = { system: ["half", "as the system"], light: ["sun", "light"], dark: ["moon", "dark"] };

export function ThemeButton(): JSX.Element {
  const [icon, name] = THEMES[theme.value];
  return <IconButton icon={icon} label={`Colors: ${name}`} onClick={switchTheme} />;
}
