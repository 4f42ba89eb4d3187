// Signals that the browser keeps: `localStorage` until they are cleared, `sessionStorage` as long
// as the tab is open.

import { effect, signal, type Signal } from "@preact/signals";

/** A signal of a value that is kept under a name. A browser that keeps nothing is no error. */
export function stored<T>(storage: () => Storage, name: string, initial: T): Signal<T> {
  const kept = signal(initial);
  const key = `graphmill.${name}`;
  try {
    const text = storage().getItem(key);
    if (text !== null) kept.value = JSON.parse(text) as T;
  } catch {
    return kept;
  }
  effect(() => {
    const text = JSON.stringify(kept.value);
    try {
      storage().setItem(key, text);
    } catch {
      // Private windows and full disks: the value lives as long as the page.
    }
  });
  return kept;
}
