// A graph that is not in memory, and what brings it there.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { isLost, words } from "../api/client";
import { disabledBy } from "../ui/disabled";
import { Rich } from "../ui/rich";
import { entryOf, load } from "./graphs";

const SAID: Record<string, string> = {
  unloaded: "This graph is not loaded.",
  failed: "This graph could not be loaded.",
  loading: "This graph is being loaded …",
  unloading: "This graph is being unloaded …",
};

export function Unloaded({ name }: { name: string }): JSX.Element | null {
  const [problem, setProblem] = useState("");
  const [busy, setBusy] = useState(false);
  const entry = entryOf(name);
  const status = entry?.status;
  if (!status || status.value === "loaded") return null;
  const begin = async (): Promise<void> => {
    setProblem("");
    setBusy(true);
    await load(name).catch((error: unknown) => setProblem(isLost(error) ? "" : words(error)));
    setBusy(false);
  };
  return (
    <div class="unloaded">
      <p role="status">
        {SAID[status.value] ?? status.value} <Rich text={problem || (status.reason ?? entry?.reason ?? "")} />
      </p>
      {["unloaded", "failed"].includes(status.value) && (
        <button type="button" class="quiet small" {...disabledBy(busy ? "It is being loaded" : null)} onClick={() => void begin()}>
          Load it
        </button>
      )}
    </div>
  );
}
