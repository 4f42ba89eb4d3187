// The graphs that can be looked at, and the plan of the one that is.

import { signal } from "@preact/signals";
import { get, isLost, isMissing, post, words } from "../api/client";
import type { Residence } from "../api/types";
import type { Plan } from "./plan";

export interface GraphEntry {
  name: string;
  version?: string | null;
  state: string;
  /** Absent in answers of older servers. */
  status?: Residence;
  /** Why it is not in memory, if that is known. */
  reason?: string | null;
  sessions: number;
}

export interface GraphFile {
  name: string;
  version?: string | null;
  file?: string | null;
  plan: Plan | null;
}

export const graphs = signal<GraphEntry[]>([]);

/** Why there is no list; null where there is one. */
export const graphsProblem = signal<{ why: string; missing: boolean } | null>(null);
export const graphsRead = signal(false);

export async function readGraphs(): Promise<void> {
  try {
    graphs.value = (await get<{ graphs: GraphEntry[] }>("/v3/graphs", "operator")).graphs;
    graphsProblem.value = null;
  } catch (error) {
    graphsProblem.value = isLost(error) ? null : { why: words(error), missing: isMissing(error) };
    if (isLost(error)) return;
  }
  graphsRead.value = true;
}

/** The name under which the server is asked for a graph. */
export function fullName(graph: GraphEntry): string {
  return graph.version && !graph.name.includes("@") ? `${graph.name}@${graph.version}` : graph.name;
}

/** What is known of a graph, if anything. */
export function entryOf(name: string): GraphEntry | undefined {
  return graphs.value.find((graph) => fullName(graph) === name);
}

/** Whether a graph is in memory, as far as is known. */
export function isLoaded(name: string): boolean {
  return (entryOf(name)?.status?.value ?? "loaded") === "loaded";
}

/** How often is looked which graphs are in memory, in milliseconds. */
const EVERY_MS = 2000;

/** Looks at the list until it is told to end. */
export function watchGraphs(): () => void {
  void readGraphs();
  const timer = setInterval(() => {
    if (!document.hidden && !graphsProblem.value) void readGraphs();
  }, EVERY_MS);
  return () => clearInterval(timer);
}

/** Has a graph loaded. A load that takes long goes on after the answer. */
export async function load(name: string): Promise<void> {
  await post("/models/load", "operator", { model: name });
  await readGraphs();
}

export function readGraph(name: string): Promise<GraphFile> {
  return get<GraphFile>(`/v3/graphs/${encodeURIComponent(name)}`, "operator");
}
