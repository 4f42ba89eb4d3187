// The sessions of a graph, which of them stand still, and why.

import { batch, computed, signal } from "@preact/signals";
import { get, isLost, isMissing, words } from "../api/client";
import { count, plural } from "../ui/numbers";

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

/** Whether the list was read since the graph is looked at. */
const isRead = signal(false);

/** Whether the server has more open sessions than it lists. */
const isCut = signal(false);

/** How many there are, in words; null where that is not known. */
export const openSessions = computed(() => {
  if (!isRead.value || sessionsProblem.value !== null) return null;
  return isCut.value ? `${count(sessions.value.length)} or more sessions` : plural(sessions.value.length, "session");
});

/** The session that is looked at alone; empty for all. */
export const chosen = signal("");

/** Why the chosen session, or else the first of all, stands still; null where none does. */
export const why = signal<Why | null>(null);

/** The nodes that everything waits for, with the reason. */
export const roots = computed(() => new Map((why.value?.waits ?? []).filter((wait) => wait.root).map((wait) => [wait.node, wait.reason])));

/** How often is looked, in milliseconds. */
const EVERY_MS = 1000;

/** Looks at the sessions of a graph until it is told to end. */
export function watchSessions(graph: string): () => void {
  let ended = false;
  let timer = 0;
  sessions.value = [];
  isRead.value = false;
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
    const { sessions: all, total } = await get<{ sessions: Session[]; total?: number }>("/v3/sessions", "operator");
    batch(() => {
      sessions.value = all.filter((session) => session.graph === graph || graph.startsWith(`${session.graph}@`));
      isCut.value = (total ?? 0) > all.length;
      isRead.value = true;
      sessionsProblem.value = null;
    });
    const stalled = sessions.value.filter((session) => session.stalled);
    const alone = sessions.value.find((session) => session.id === chosen.value);
    if (!alone) chosen.value = "";
    const asked = alone ? stalled.find((session) => session === alone) : stalled[0];
    why.value = asked ? await get<Why>(`/v3/sessions/${encodeURIComponent(asked.id)}/why`, "operator") : null;
  } catch (error) {
    // A session can end between the two questions.
    if (isMissing(error) && sessions.value.length > 0) why.value = null;
    else if (!isLost(error)) sessionsProblem.value = isMissing(error) ? "This server does not list its sessions." : words(error);
  }
}
