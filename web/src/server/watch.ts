// Looks at `/v3/status` and `/metrics` as long as somebody looks at the tab, and keeps the last
// minutes.

import { signal } from "@preact/signals";
import { get, isLost, isMissing, request, words } from "../api/client";
import type { Engine, Status } from "../api/types";
import { samples, type Sample } from "./prometheus";

/** How often is looked, in milliseconds. */
const EVERY_MS = 2000;

/** How many looks are kept: ten minutes. */
const MAX_KEPT = 300;

export const status = signal<Status | null>(null);
export const metrics = signal<Sample[]>([]);

/** Why nothing can be shown; null where it can. */
export const problem = signal<{ why: string; missing: boolean } | null>(null);

/** What an engine did at a time. */
export interface Point {
  /** In seconds since 1970. */
  at: number;
  tokens: number;
  prompt: number;
  running: number;
  waiting: number;
  cells: number;
}

interface Seen {
  atMs: number;
  generated: number;
  prompt: number;
}

/** The last minutes of each engine, by the name of its graph and its model. */
export const courses = signal<Record<string, Point[]>>({});
const seen = new Map<string, Seen>();

export function nameOf(engine: { graph: string; model: string }): string {
  return `${engine.graph} ${engine.model}`;
}

/** Looks until it is told to end. */
export function watch(): () => void {
  let timer = 0;
  let ended = false;
  const next = async (): Promise<void> => {
    if (!document.hidden) await look();
    if (!ended) timer = window.setTimeout(() => void next(), EVERY_MS);
  };
  void next();
  return () => {
    ended = true;
    clearTimeout(timer);
  };
}

/** Looks once. */
export async function look(): Promise<void> {
  try {
    const now = await get<Status>("/v3/status", "operator");
    status.value = now;
    for (const engine of now.engines) course(engine);
    const text = await (await request("/metrics", "operator")).text();
    metrics.value = samples(text);
    problem.value = null;
  } catch (error) {
    problem.value = isLost(error) ? null : { why: words(error), missing: isMissing(error) };
  }
}

function course(engine: Engine): void {
  const name = nameOf(engine);
  const atMs = Date.now();
  const before = seen.get(name);
  seen.set(name, { atMs, generated: engine.generated_tokens, prompt: engine.prompt_tokens });
  const seconds = before ? (atMs - before.atMs) / 1000 : 0;
  // An engine that was replaced counts from 0 again.
  const rate = (now: number, then: number): number => (seconds > 0 && now >= then ? (now - then) / seconds : 0);
  const point: Point = {
    at: atMs / 1000,
    tokens: before ? rate(engine.generated_tokens, before.generated) : 0,
    prompt: before ? rate(engine.prompt_tokens, before.prompt) : 0,
    running: engine.sequences_running,
    waiting: engine.sequences_waiting,
    cells: engine.kv_cells_total > 0 ? engine.kv_cells_used / engine.kv_cells_total : 0,
  };
  courses.value = { ...courses.value, [name]: [...(courses.value[name] ?? []), point].slice(-MAX_KEPT) };
}
