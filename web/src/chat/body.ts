// The body of a request, which the page sends and which an export shows.

import type { Conversation, Message, Parameters } from "./tree";

/** Why no body could be made: a parameter is not what it should be. */
export class WrongParameter extends Error {}

/** What is wrong with parameters; null where nothing is. */
export function wrongParameter(parameters: Parameters): string | null {
  try {
    fieldsOf(parameters);
    return null;
  } catch (error) {
    if (error instanceof WrongParameter) return error.message;
    throw error;
  }
}

/** The body that asks for the answer to the last of `messages`. */
export function body(conversation: Conversation, messages: Message[]): Record<string, unknown> {
  const { parameters, system, model } = conversation;
  return {
    model,
    messages: [...(system.trim() ? [{ role: "system", content: system }] : []), ...messages.map(sent)],
    stream: true,
    stream_options: { include_usage: true },
    ...fieldsOf(parameters),
  };
}

/** Fields that the page sets itself. It shows one answer at a time. */
const OWN = ["messages", "model", "n", "stream", "stream_options"];

function fieldsOf(parameters: Parameters): Record<string, unknown> {
  const fields: Record<string, unknown> = {};
  for (const name of ["temperature", "top_p", "top_k", "max_tokens", "seed"] as const) {
    const text = parameters[name].trim();
    if (!text) continue;
    const value = Number(text);
    if (!Number.isFinite(value)) throw new WrongParameter(`${name} must be a number: ${text}`);
    fields[name] = value;
  }
  const stop = parameters.stop.split("\n").filter((line) => line !== "");
  if (stop.length > 0) fields["stop"] = stop;
  if (parameters.logprobs) {
    fields["logprobs"] = true;
    fields["top_logprobs"] = 5;
  }
  return { ...fields, ...more(parameters.more) };
}

function more(text: string): Record<string, unknown> {
  if (!text.trim()) return {};
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new WrongParameter(`Further fields are not JSON: ${error instanceof Error ? error.message : ""}`);
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw new WrongParameter("Further fields must be a JSON object, such as {\"min_p\": 0.1}.");
  const own = OWN.filter((name) => name in value);
  if (own.length > 0) throw new WrongParameter(`Further fields cannot have ${own.join(", ")}: the page sets that itself.`);
  return value as Record<string, unknown>;
}

function sent(message: Message): Record<string, unknown> {
  if (message.role === "assistant") {
    const calls = message.toolCalls.map((call) => ({ id: call.id, type: "function", function: { name: call.name, arguments: call.arguments } }));
    return { role: "assistant", content: message.content, ...(calls.length > 0 ? { tool_calls: calls } : {}) };
  }
  if (message.images.length === 0) return { role: "user", content: message.content };
  const images = message.images.map((url) => ({ type: "image_url", image_url: { url } }));
  return { role: "user", content: [...images, { type: "text", text: message.content }] };
}
