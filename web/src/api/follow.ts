// A stream of events that is opened again when it breaks, until nobody follows it any more.

import { isMissing, Refused, request, words, type Side } from "./client";
import { events, type Event } from "./sse";

/** How a stream is. */
export type Following = { state: "opening" | "open" } | { state: "broken"; why: string } | { state: "refused"; why: string; missing: boolean };

/** The first pause before a stream is opened again, in milliseconds; it doubles up to the last. */
const FIRST_PAUSE_MS = 500;
const LAST_PAUSE_MS = 15_000;

/** Follows the events of a path. Returns what ends it. */
export function follow(path: string, side: Side, each: (event: Event) => void, told: (now: Following) => void): () => void {
  const ending = new AbortController();
  void (async () => {
    let pause = FIRST_PAUSE_MS;
    while (!ending.signal.aborted) {
      try {
        told({ state: "opening" });
        const answer = await request(path, side, { signal: ending.signal, headers: { accept: "text/event-stream" } });
        told({ state: "open" });
        pause = FIRST_PAUSE_MS;
        for await (const event of events(answer)) each(event);
        told({ state: "broken", why: "The stream has ended. It is opened again." });
      } catch (error) {
        if (ending.signal.aborted) return;
        const final = error instanceof Refused && error.status >= 400 && error.status < 500;
        if (final) {
          told({ state: "refused", why: words(error), missing: isMissing(error) });
          return;
        }
        told({ state: "broken", why: words(error) });
      }
      await new Promise((done) => setTimeout(done, pause));
      pause = Math.min(2 * pause, LAST_PAUSE_MS);
    }
  })();
  return () => ending.abort();
}
