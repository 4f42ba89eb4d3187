// Requests of this page that failed, kept from when it is opened.

import { signal } from "@preact/signals";
import { onFailure, type Failed } from "../api/client";

/** How many are kept. */
const MAX_KEPT = 50;

/** The last ones, the newest first. */
export const failed = signal<Failed[]>([]);

/** Begins to keep them. */
export function keepFailures(): void {
  onFailure((one) => {
    failed.value = [one, ...failed.value].slice(0, MAX_KEPT);
  });
}
