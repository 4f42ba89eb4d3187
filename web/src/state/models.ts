// The models that can be asked.

import { computed, signal } from "@preact/signals";
import { get, isLost, words } from "../api/client";
import type { Model } from "../api/types";

export const models = signal<Model[]>([]);

/** Why the list could not be read; null where it could. */
export const modelsError = signal<string | null>(null);
export const modelsLoaded = signal(false);

/** Those that a chat can ask. */
export const chatModels = computed(() => models.value.filter((model) => model.endpoints?.includes("chat/completions") ?? model.status?.value !== "failed"));

/** Reads the list again. */
export async function readModels(): Promise<void> {
  try {
    models.value = (await get<{ data: Model[] }>("/v3/models", "client")).data;
    modelsError.value = null;
  } catch (error) {
    modelsError.value = isLost(error) ? null : words(error);
  }
  modelsLoaded.value = true;
}
