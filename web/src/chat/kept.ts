// Conversations, kept in this browser's IndexedDB and nowhere else.

import type { Conversation } from "./tree";

const STORE = "conversations";

let opened: Promise<IDBDatabase> | null = null;

function database(): Promise<IDBDatabase> {
  opened ??= new Promise((done, failed) => {
    const opening = indexedDB.open("graphmill", 1);
    opening.onupgradeneeded = () => opening.result.createObjectStore(STORE, { keyPath: "id" });
    opening.onsuccess = () => done(opening.result);
    opening.onerror = () => failed(opening.error ?? new Error("IndexedDB cannot be opened"));
  });
  return opened;
}

async function within<T>(mode: IDBTransactionMode, ask: (store: IDBObjectStore) => IDBRequest<T>): Promise<T> {
  const store = (await database()).transaction(STORE, mode).objectStore(STORE);
  return new Promise((done, failed) => {
    const asked = ask(store);
    asked.onsuccess = () => done(asked.result);
    asked.onerror = () => failed(asked.error ?? new Error("IndexedDB failed"));
  });
}

/** All conversations, the newest first. */
export async function all(): Promise<Conversation[]> {
  const kept = await within("readonly", (store) => store.getAll() as IDBRequest<Conversation[]>);
  return kept.sort((one, other) => other.changed - one.changed);
}

export async function keep(conversation: Conversation): Promise<void> {
  await within("readwrite", (store) => store.put(conversation));
}

export async function forget(id: string): Promise<void> {
  await within("readwrite", (store) => store.delete(id));
}
