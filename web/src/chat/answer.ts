// Asks a model and builds the answer as it comes.

import { Refused, request, words } from "../api/client";
import { events } from "../api/sse";
import type { ChatChunk, Timings, ToolCallDelta } from "../api/types";
import type { Message, Stats, ToolCall } from "./tree";

/** How often a growing answer is shown at most, in milliseconds: a fast model gives more tokens than a screen has frames. */
const SHOW_EVERY_MS = 50;

/** How long the server may take to end an answer that was stopped, in milliseconds. */
const LAST_WORDS_MS = 2000;

/**
 * Streams the answer to `body` into copies of `message`, each of which `show` gets. Ends with the
 * answer, its failure or soon after `signal`; never throws.
 */
export async function answer(body: unknown, message: Message, signal: AbortSignal, show: (message: Message) => void): Promise<void> {
  let now = message;
  const stats: Stats = { timings: null, usage: null, finish: null, requestId: null, ignored: null };
  const leaving = new AbortController();
  let timer = 0;
  const shown = (): void => {
    clearTimeout(timer);
    timer = 0;
    show(now);
  };
  const change = (changes: Partial<Message>): void => {
    now = { ...now, ...changes, stats: { ...stats } };
    if (timer === 0) timer = window.setTimeout(shown, SHOW_EVERY_MS);
  };
  // A server that cancels the request itself still tells what it took.
  const stop = (): void => {
    if (stats.requestId === null) return leaving.abort();
    request(`/v3/requests/${encodeURIComponent(stats.requestId)}`, "client", { method: "DELETE" }).catch(() => leaving.abort());
    setTimeout(() => leaving.abort(), LAST_WORDS_MS);
  };
  signal.addEventListener("abort", stop, { once: true });
  try {
    const init = { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body), signal: leaving.signal };
    const response = await request("/v3/chat/completions?timings=1", "client", init);
    stats.requestId = response.headers.get("x-request-id");
    stats.ignored = response.headers.get("x-ignored-fields");
    let ended = false;
    for await (const event of events(response)) {
      if (event.event === "timings") {
        stats.timings = JSON.parse(event.data) as Timings;
        change({});
        continue;
      }
      if (event.data === "[DONE]") continue;
      const chunk = JSON.parse(event.data) as ChatChunk;
      if (chunk.error) {
        ended = true;
        change(signal.aborted ? { stopped: true } : { error: chunk.error.message });
        continue;
      }
      if (chunk.usage) stats.usage = chunk.usage;
      const choice = chunk.choices.find((each) => each.index === 0);
      if (!choice) {
        change({});
        continue;
      }
      const { delta } = choice;
      stats.finish = choice.finish_reason ?? stats.finish;
      change({
        content: now.content + (delta.content ?? ""),
        reasoning: now.reasoning + (delta.reasoning_content ?? ""),
        toolCalls: delta.tool_calls ? delta.tool_calls.reduce(withDelta, now.toolCalls) : now.toolCalls,
        logprobs: choice.logprobs?.content ? [...now.logprobs, ...choice.logprobs.content] : now.logprobs,
      });
    }
    if (stats.finish === null && !ended) change({ error: "The answer ended before it was complete." });
  } catch (error) {
    if (signal.aborted) return change({ stopped: true });
    if (error instanceof Refused) stats.requestId = error.requestId;
    change({ error: words(error) });
  } finally {
    signal.removeEventListener("abort", stop);
    shown();
  }
}

function withDelta(calls: ToolCall[], delta: ToolCallDelta): ToolCall[] {
  const old = calls[delta.index] ?? { id: "", name: "", arguments: "" };
  const next = [...calls];
  next[delta.index] = {
    id: delta.id ?? old.id,
    name: old.name + (delta.function?.name ?? ""),
    arguments: old.arguments + (delta.function?.arguments ?? ""),
  };
  return next;
}
