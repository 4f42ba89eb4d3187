// Asks a model and builds the answer as it comes.

import { Refused, request, words } from "../api/client";
import { events } from "../api/sse";
import type { ChatChunk, ToolCallDelta } from "../api/types";
import type { Message, Stats, ToolCall } from "./tree";

/** How often a growing answer is shown at most, in milliseconds: a fast model gives more tokens than a screen has frames. */
const SHOW_EVERY_MS = 50;

/**
 * Streams the answer to `body` into copies of `message`, each of which `show` gets. Ends with the
 * answer, its failure or `signal`; never throws.
 */
export async function answer(body: unknown, message: Message, signal: AbortSignal, show: (message: Message) => void): Promise<void> {
  const began = performance.now();
  let now = message;
  const stats: Stats = { firstMs: null, totalMs: 0, usage: null, finish: null, requestId: null };
  let timer = 0;
  const shown = (): void => {
    clearTimeout(timer);
    timer = 0;
    show(now);
  };
  const change = (changes: Partial<Message>): void => {
    stats.totalMs = performance.now() - began;
    now = { ...now, ...changes, stats: { ...stats } };
    if (timer === 0) timer = window.setTimeout(shown, SHOW_EVERY_MS);
  };
  try {
    const init = { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body), signal };
    const response = await request("/v3/chat/completions", "client", init);
    stats.requestId = response.headers.get("x-request-id");
    for await (const event of events(response)) {
      if (event.data === "[DONE]") continue;
      const chunk = JSON.parse(event.data) as ChatChunk;
      if (chunk.error) return change({ error: chunk.error.message });
      if (chunk.usage) stats.usage = chunk.usage;
      const choice = chunk.choices[0];
      if (!choice) {
        change({});
        continue;
      }
      const { delta } = choice;
      if (stats.firstMs === null && (delta.content || delta.reasoning_content || delta.tool_calls)) stats.firstMs = performance.now() - began;
      stats.finish = choice.finish_reason ?? stats.finish;
      change({
        content: now.content + (delta.content ?? ""),
        reasoning: now.reasoning + (delta.reasoning_content ?? ""),
        toolCalls: delta.tool_calls ? delta.tool_calls.reduce(withDelta, now.toolCalls) : now.toolCalls,
        logprobs: choice.logprobs?.content ? [...now.logprobs, ...choice.logprobs.content] : now.logprobs,
      });
    }
    if (stats.finish === null) change({ error: "The answer ended before it was complete." });
  } catch (error) {
    if (signal.aborted) return change({ stopped: true });
    if (error instanceof Refused) stats.requestId = error.requestId;
    change({ error: words(error) });
  } finally {
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
