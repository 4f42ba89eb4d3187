// Copies a text, and says so.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { Icon } from "./icons";

/** How long a button says that it has copied, in milliseconds. */
const SAID_MS = 1500;

export function Copy({ text, label = "Copy" }: { text: () => string; label?: string }): JSX.Element {
  const [said, say] = useState("");
  const copy = async (): Promise<void> => {
    try {
      await navigator.clipboard.writeText(text());
      say("Copied");
    } catch {
      say("Not copied: the browser refused");
    }
    setTimeout(() => say(""), SAID_MS);
  };
  return (
    <button type="button" class="copy" aria-label={label} title={label} onClick={() => void copy()}>
      <Icon name={said === "Copied" ? "done" : "copy"} size={16} />
      <span role="status">{said}</span>
    </button>
  );
}
