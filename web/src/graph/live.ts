// What the nodes and wires of a graph do now, from its events.

import { signal } from "@preact/signals";
import { follow, type Following } from "../api/follow";
import { edgeKey } from "./plan";

export interface LiveNode {
  name: string;
  calls: number;
  errors: number;
  busy_us: number;
  states: Record<string, number>;
}

export interface LiveEdge {
  stream: string;
  node: string;
  input: string;
  queued: number;
  bound: number | null;
  packets: number;
}

interface Told {
  seq: number;
  at_ms: number;
  nodes: LiveNode[];
  edges: LiveEdge[];
}

export const nodes = signal<ReadonlyMap<string, LiveNode>>(new Map());
export const edges = signal<ReadonlyMap<string, LiveEdge>>(new Map());
export const following = signal<Following>({ state: "opening" });

/** Packets a second of each edge, over the last moments. */
export const rates = signal<ReadonlyMap<string, number>>(new Map());

/** Over how long packets are counted for a rate, and how often it is made, in milliseconds. */
const WINDOW_MS = 2000;
const TICK_MS = 500;

/** Follows a graph, or one session of it. Returns what ends it. */
export function watch(graph: string, session: string): () => void {
  let seen: { at: number; packets: Map<string, number> }[] = [];
  nodes.value = new Map();
  edges.value = new Map();
  rates.value = new Map();
  const query = session ? `?session=${encodeURIComponent(session)}` : "";
  const end = follow(
    `/v3/graphs/${encodeURIComponent(graph)}/events${query}`,
    "operator",
    ({ event, data }) => {
      if (event !== "snapshot" && event !== "delta") return;
      const told = JSON.parse(data) as Told;
      const whole = event === "snapshot";
      const nextNodes = new Map(whole ? [] : nodes.value);
      for (const node of told.nodes) nextNodes.set(node.name, node);
      const nextEdges = new Map(whole ? [] : edges.value);
      for (const edge of told.edges) nextEdges.set(edgeKey(edge.stream, edge.node, edge.input), edge);
      nodes.value = nextNodes;
      edges.value = nextEdges;
      if (whole) seen = [];
    },
    (now) => (following.value = now),
  );
  const tick = (): void => {
    const now = Date.now();
    seen = [...seen.filter(({ at }) => now - at <= WINDOW_MS), { at: now, packets: new Map([...edges.value].map(([key, edge]) => [key, edge.packets])) }];
    const first = seen[0];
    if (!first || first.at === now) return;
    const seconds = (now - first.at) / 1000;
    const next = new Map<string, number>();
    for (const [key, edge] of edges.value) {
      const more = edge.packets - (first.packets.get(key) ?? edge.packets);
      if (more > 0) next.set(key, more / seconds);
    }
    if (next.size > 0 || rates.value.size > 0) rates.value = next;
  };
  const timer = setInterval(tick, TICK_MS);
  return () => {
    end();
    clearInterval(timer);
  };
}

/** The states in the order of how much they matter. */
const ORDER = ["failed", "blocked", "running", "waiting", "ready", "idle", "closed"];

/** The state that a box shows: the one that matters most. */
export function stateOf(names: string[]): string {
  const found = new Set(names.flatMap((name) => Object.entries(nodes.value.get(name)?.states ?? {}).flatMap(([state, count]) => (count > 0 ? [state] : []))));
  return ORDER.find((state) => found.has(state)) ?? "idle";
}
