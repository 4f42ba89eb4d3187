// Where the reader is: `#/graph/name`. The address can be kept and sent.

import { computed, signal } from "@preact/signals";

export const TABS = ["chat", "graph", "playground", "server"] as const;
export type Tab = (typeof TABS)[number];

const hash = signal(location.hash);
addEventListener("hashchange", () => {
  hash.value = location.hash;
});

const parts = computed(() => hash.value.replace(/^#\/?/, "").split("/").map(decode));

/** A part of an address that somebody typed need not be well encoded. */
function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** The tab that is shown. */
export const tab = computed<Tab>(() => TABS.find((tab) => tab === parts.value[0]) ?? "chat");

/** What of it: a graph, a conversation. */
export const subject = computed(() => parts.value[1] ?? "");

/** Goes to a tab. */
export function go(tab: Tab, subject = ""): void {
  location.hash = address(tab, subject);
}

/** The address of a tab. */
export function address(tab: Tab, subject = ""): string {
  return subject ? `#/${tab}/${encodeURIComponent(subject)}` : `#/${tab}`;
}
