// Whether the server answers. When it stops answering, one banner says so for the whole page; when it
// answers again, what is shown is read again.

import { signal } from "@preact/signals";

/** Whether the server does not answer. */
export const gone = signal(false);

/** How often the server has come back. What is shown is made anew each time. */
export const returns = signal(0);

/** How often a server that does not answer is asked whether it is back, in milliseconds. */
const EVERY_MS = 1000;

let timer = 0;

/** Says that a request had no answer. */
export function lost(): void {
  if (gone.value) return;
  gone.value = true;
  timer = window.setTimeout(() => void ask(), EVERY_MS);
}

/** Says that a request had an answer. */
export function found(): void {
  if (!gone.value) return;
  clearTimeout(timer);
  gone.value = false;
  returns.value += 1;
}

/** Asks whether the server answers, whatever it says. */
export async function ask(): Promise<boolean> {
  try {
    await fetch("/v2/health/live", { cache: "no-store" });
    found();
    return true;
  } catch {
    if (gone.value) timer = window.setTimeout(() => void ask(), EVERY_MS);
    else lost();
    return false;
  }
}
