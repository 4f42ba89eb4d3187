// A conversation is a tree: an edited question and an answer that is asked for again are branches
// beside the old ones, which stay.

import type { Timings, TokenLogprob, Usage } from "../api/types";

export interface ToolCall {
  id: string;
  name: string;
  arguments: string;
}

/** How an answer came. */
export interface Stats {
  /** Absent in conversations of older pages; null where the server gave none. */
  timings?: Timings | null;
  usage: Usage | null;
  finish: string | null;
  requestId: string | null;
  /** Fields of the request that had no effect; absent in conversations of older pages. */
  ignored?: string | null;
}

export interface Message {
  id: string;
  parent: string | null;
  role: "user" | "assistant";
  content: string;
  /** Images of a question, as data URLs. */
  images: string[];
  reasoning: string;
  toolCalls: ToolCall[];
  logprobs: TokenLogprob[];
  model: string;
  stats: Stats | null;
  /** Why the answer is not whole, if so. */
  error: string | null;
  stopped: boolean;
}

/** What a request says besides the messages. An empty text leaves a field out. */
export interface Parameters {
  temperature: string;
  top_p: string;
  top_k: string;
  max_tokens: string;
  seed: string;
  stop: string;
  logprobs: boolean;
  /** Further fields of the body, as a JSON object: tools, a response format. */
  more: string;
}

export const NO_PARAMETERS: Parameters = { temperature: "", top_p: "", top_k: "", max_tokens: "", seed: "", stop: "", logprobs: false, more: "" };

export interface Conversation {
  id: string;
  title: string;
  model: string;
  system: string;
  parameters: Parameters;
  messages: Record<string, Message>;
  /** Of the children of a message (of the beginning: ``) the one that is shown. */
  shown: Record<string, string>;
  changed: number;
}

const BEGINNING = "";

/** An id that no other has. `crypto.randomUUID` is only there over TLS and on loopback. */
export function newId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(12));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

export function newConversation(model: string): Conversation {
  return { id: newId(), title: "", model, system: "", parameters: NO_PARAMETERS, messages: {}, shown: {}, changed: Date.now() };
}

export function newMessage(role: Message["role"], parent: string | null, model: string): Message {
  return { id: newId(), parent, role, content: "", images: [], reasoning: "", toolCalls: [], logprobs: [], model, stats: null, error: null, stopped: false };
}

/** The messages with the same parent, in the order in which they were made. */
export function siblings(conversation: Conversation, parent: string | null): Message[] {
  return Object.values(conversation.messages).filter((message) => message.parent === parent);
}

/** The messages from the beginning to the end of the branch that is shown. */
export function path(conversation: Conversation): Message[] {
  const shown: Message[] = [];
  let at: string | undefined = conversation.shown[BEGINNING];
  while (at !== undefined) {
    const message: Message | undefined = conversation.messages[at];
    if (!message) break;
    shown.push(message);
    at = conversation.shown[message.id];
  }
  return shown;
}

/** The same conversation with a message, which is shown. */
export function withMessage(conversation: Conversation, message: Message): Conversation {
  return {
    ...conversation,
    messages: { ...conversation.messages, [message.id]: message },
    shown: { ...conversation.shown, [message.parent ?? BEGINNING]: message.id },
    title: conversation.title || titleOf(message),
    changed: Date.now(),
  };
}

/** The same conversation with another branch shown. */
export function withShown(conversation: Conversation, message: Message): Conversation {
  return { ...conversation, shown: { ...conversation.shown, [message.parent ?? BEGINNING]: message.id } };
}

/** The most characters of a title. */
const MAX_TITLE = 60;

function titleOf(message: Message): string {
  const line = message.content.trim().split("\n")[0] ?? "";
  return line.length > MAX_TITLE ? `${line.slice(0, MAX_TITLE - 1)}…` : line;
}
