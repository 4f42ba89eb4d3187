// The sessions of a graph, which of them stand still, and why.

import { computed, signal } from "@preact/signals";
import { get, isMissing, words } from "../api/client";

export interface Session {
  id: string;
  graph: string;
  request_id?: string | null;
  label?: string | null;
  age_ms: number;
  stalled: boolean;
  why: string;
}

export interface Why {
  id: string;
  text: string;
  waits: { node: string; reason: string; root: boolean }[];
}

export const sessions = signal<Session[]>([]);
export const sessionsProblem = signal<string | null>(null);

/** The session that is looked at alone; empty for all. */
export const chosen = signal("");

/** Why the chosen session, or else the first of all, stands still; null where none does. */
export const why = signal<Why | null>(null);

/** The nodes that everything waits for, with the reason. */
export const roots = computed(() => new Map((why.value?.waits ?? []).filter((wait) => wait.root).map((wait) => [wait.node, wait.reason])));

/** How often is looked, in milliseconds. */
const EVERY_MS = 2000;

/** Looks at the sessions of a graph until it is told to end. */
export function watchSessions(graph: string): () => void {
  let ended = false;
  let timer = 0;
  sessions.value = [];
  chosen.value = "";
  why.value = null;
  const next = async (): Promise<void> => {
    if (!document.hidden) await look(graph);
    if (!ended) timer = window.setTimeout(() => void next(), EVERY_MS);
  };
  void next();
  return () => {
    ended = true;
    clearTimeout(timer);
  };
}

async function look(graph: string): Promise<void> {
  try {
    const all = (await get<{ sessions: Session[] }>("/v3/sessions", "operator")).sessions;
    sessions.value = all.filter((session) => session.graph === graph || graph.startsWith(`${session.graph}@`));
    sessionsProblem.value = null;
    const stalled = sessions.value.filter((session) => session.stalled);
    const alone = sessions.value.find((session) => session.id === chosen.value);
    if (!alone) chosen.value = "";
    const asked = alone ? stalled.find((session) => session === alone) : stalled[0];
    why.value = asked ? await get<Why>(`/v3/sessions/${encodeURIComponent(asked.id)}/why`, "operator") : null;
  } catch (error) {
    // A session can end between the two questions.
    if (isMissing(error) && sessions.value.length > 0) why.value = null;
    else sessionsProblem.value = isMissing(error) ? "This server does not list its sessions." : words(error);
  }
}
