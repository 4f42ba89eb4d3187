// The state of the chat: the conversation that is shown, those that are kept, and the answer that
// is coming.

import { computed, signal } from "@preact/signals";
import { words } from "../api/client";
import { chatModels, readModels } from "../state/models";
import { stored } from "../state/stored";
import { answer } from "./answer";
import { body, WrongParameter } from "./body";
import * as kept from "./kept";
import { newConversation, newMessage, path, withMessage, type Conversation, type Message } from "./tree";

export const conversation = signal<Conversation>(newConversation(""));
export const conversations = signal<Conversation[]>([]);

/** Why conversations are not kept; null where they are. */
export const keepingFails = signal<string | null>(null);

/** Why nothing was sent; null where something was. */
export const refusal = signal<string | null>(null);

/** The model that was chosen last. */
const lastModel = stored(() => localStorage, "model", "");

/** The model that the conversation asks. */
export const model = computed(() => {
  const names = chatModels.value.map((each) => each.id);
  const wanted = [conversation.value.model, lastModel.value];
  return wanted.find((name) => names.includes(name)) ?? names[0] ?? "";
});

/** Ends the answer that is coming; null where none is. */
const coming = signal<AbortController | null>(null);
export const answering = computed(() => coming.value !== null);

/** Reads the conversations that this browser keeps. */
export async function open(): Promise<void> {
  await kept.all().then(
    (all) => (conversations.value = all),
    (error: unknown) => (keepingFails.value = words(error)),
  );
}

export function choose(name: string): void {
  lastModel.value = name;
  change({ model: name });
}

/** Changes what is not a message. */
export function change(changes: Partial<Pick<Conversation, "model" | "system" | "parameters" | "shown">>): void {
  conversation.value = { ...conversation.value, ...changes };
  if (Object.keys(conversation.value.messages).length > 0) keep();
}

export function begin(): void {
  stop();
  const { system, parameters } = conversation.value;
  conversation.value = { ...newConversation(model.value), system, parameters };
}

export function show(chosen: Conversation): void {
  stop();
  conversation.value = chosen;
}

export async function remove(id: string): Promise<void> {
  conversations.value = conversations.value.filter((each) => each.id !== id);
  if (conversation.value.id === id) begin();
  await kept.forget(id).catch((error: unknown) => (keepingFails.value = words(error)));
}

/** Asks a question after the last message, or beside the one that it takes the place of. */
export async function ask(text: string, images: string[], edited?: Message): Promise<void> {
  const parent = edited ? edited.parent : (path(conversation.value).at(-1)?.id ?? null);
  const question = { ...newMessage("user", parent, model.value), content: text, images };
  conversation.value = withMessage(conversation.value, question);
  await answerTo(question.id);
}

/** Asks for another answer beside this one. */
export async function again(message: Message): Promise<void> {
  await answerTo(message.parent);
}

/** Ends the answer that is coming. What came of it stays. */
export function stop(): void {
  coming.value?.abort();
}

async function answerTo(parent: string | null): Promise<void> {
  stop();
  const asked = { ...conversation.value, model: model.value };
  const until = path(asked).findIndex((message) => message.id === parent) + 1;
  let fields: Record<string, unknown>;
  try {
    fields = body(asked, path(asked).slice(0, until));
  } catch (error) {
    if (!(error instanceof WrongParameter)) throw error;
    refusal.value = error.message;
    return;
  }
  refusal.value = null;
  const reply = newMessage("assistant", parent, asked.model);
  const ending = new AbortController();
  coming.value = ending;
  conversation.value = withMessage(asked, reply);
  const { id } = asked;
  let last = conversation.value;
  await answer(fields, reply, ending.signal, (message) => {
    // The reader may look at another conversation meanwhile.
    last = withMessage(conversation.value.id === id ? conversation.value : last, message);
    if (conversation.value.id === id) conversation.value = last;
  });
  if (coming.value === ending) coming.value = null;
  keep(last);
  const of = chatModels.value.find((each) => each.id === asked.model);
  // The question has had it loaded, perhaps in the place of another one.
  if (of?.status && of.status.value !== "loaded") void readModels();
}

function keep(changed = conversation.value): void {
  conversations.value = [changed, ...conversations.value.filter((each) => each.id !== changed.id)];
  kept.keep(changed).then(
    () => (keepingFails.value = null),
    (error: unknown) => (keepingFails.value = words(error)),
  );
}
