// What a session did when: a row for each node, with its calls and the packets that it put out.

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { get, isMissing, words } from "../api/client";
import { save } from "../api/save";
import { Dialog } from "../ui/dialog";
import { Problem } from "../ui/note";
import { count, duration } from "../ui/numbers";

export interface TraceEvent {
  t_us: number;
  dur_us?: number;
  node?: string;
  kind: "call" | "packet";
  stream?: string;
  timestamp?: number | string;
}

interface Trace {
  id: string;
  state: "open" | "ended";
  events: TraceEvent[];
  dropped: number;
}

/** The most events that are drawn. */
const MAX_DRAWN = 5000;

export function WaterfallDialog({ session, close }: { session: string; close: () => void }): JSX.Element {
  const [trace, setTrace] = useState<Trace | null>(null);
  const [problem, setProblem] = useState("");
  const path = `/v3/sessions/${encodeURIComponent(session)}/trace`;
  useEffect(() => {
    get<Trace>(path, "operator").then(setTrace, (error: unknown) => setProblem(isMissing(error) ? `Nothing was recorded of this session. ${words(error)}` : words(error)));
  }, [path]);
  return (
    <Dialog title={`Session ${session}`} close={close} wide>
      {problem && <Problem>{problem}</Problem>}
      {trace && (
        <>
          <p class="hint">
            {count(trace.events.length)} events, {trace.state}
            {trace.dropped > 0 && `; ${count(trace.dropped)} more did not fit`}.{" "}
            <button type="button" class="quiet small" onClick={() => void save(`${path}?format=chrome`, `${session}.trace.json`).catch((error: unknown) => setProblem(words(error)))}>
              Save for Perfetto
            </button>
          </p>
          <Waterfall events={trace.events} />
        </>
      )}
    </Dialog>
  );
}

export function Waterfall({ events }: { events: TraceEvent[] }): JSX.Element {
  const calls = events.filter((event) => event.kind === "call" && event.node !== undefined).slice(0, MAX_DRAWN);
  const rows = new Map<string, TraceEvent[]>();
  for (const call of calls) rows.set(call.node ?? "", [...(rows.get(call.node ?? "") ?? []), call]);
  const end = Math.max(1, ...events.map((event) => event.t_us + (event.dur_us ?? 0)));
  if (rows.size === 0) return <p class="hint">No node was called.</p>;
  return (
    <div class="waterfall scroll" tabIndex={0} role="group" aria-label="Waterfall">
      <table>
        <thead>
          <tr>
            <th scope="col">Node</th>
            <th scope="col" class="number">
              Calls
            </th>
            <th scope="col" class="number">
              Busy
            </th>
            <th scope="col" class="time">
              <span>0</span>
              <span>{duration(end / 1000)}</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {[...rows].map(([node, own]) => (
            <tr key={node}>
              <th scope="row" title={node}>
                {node.split("__").at(-1)}
              </th>
              <td class="number">{count(own.length)}</td>
              <td class="number">{duration(own.reduce((sum, call) => sum + (call.dur_us ?? 0), 0) / 1000)}</td>
              <td>
                <svg viewBox="0 0 1000 16" preserveAspectRatio="none" aria-hidden="true">
                  {own.map((call, index) => (
                    <rect key={index} x={(1000 * call.t_us) / end} y="2" width={Math.max(1.5, (1000 * (call.dur_us ?? 0)) / end)} height="12">
                      <title>
                        {duration(call.t_us / 1000)}, for {duration((call.dur_us ?? 0) / 1000)}
                      </title>
                    </rect>
                  ))}
                </svg>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
