// The models that can be asked.

import { computed, signal } from "@preact/signals";
import { get, words } from "../api/client";
import type { Model, Status } from "../api/types";

export const models = signal<Model[]>([]);

/** Why the list could not be read; null where it could. */
export const modelsError = signal<string | null>(null);
export const modelsLoaded = signal(false);

/** Names of graphs that only embed or rank, where the server tells. */
const embedding = signal<ReadonlySet<string>>(new Set());

/** Those that a chat can ask. */
export const chatModels = computed(() => models.value.filter((model) => !embedding.value.has(model.id)));

/** Reads the list again. */
export async function readModels(): Promise<void> {
  try {
    models.value = (await get<{ data: Model[] }>("/v3/models", "client")).data;
    modelsError.value = null;
  } catch (error) {
    modelsError.value = words(error);
  }
  modelsLoaded.value = true;
  try {
    const status = await get<Status>("/v3/status", "operator");
    embedding.value = new Set(status.embedding_engines.map((engine) => engine.graph));
  } catch {
    // Who may not read the status sees all models.
  }
}
