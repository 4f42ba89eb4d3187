// The sessions that are open now, and those that were recorded.

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { get, isLost, isMissing, post, request, words } from "../api/client";
import { duration, moment } from "../ui/numbers";
import { Rich } from "../ui/rich";
import { chosen, openSessions, sessions, sessionsProblem } from "./sessions";
import { WaterfallDialog } from "./waterfall";

interface Recordings {
  active: Record<string, unknown> | null;
  recordings: { id: string; started_at_ms: number; duration_ms: number | null; state: string; events: number }[];
}

/** What a press of the button records: as much as somebody looks through. */
const RECORDED = { rate: 1, sessions: 20, payloads: false, seconds: 60 };

export function SessionsPanel({ graph }: { graph: string }): JSX.Element {
  const [shown, show] = useState("");
  return (
    <div class="panel-body">
      <p class="hint">Choose a node for its ports, times and documentation, or a wire to see its packets.</p>
      <h3>Open sessions</h3>
      {sessionsProblem.value && <p class="hint">{sessionsProblem.value}</p>}
      {openSessions.value !== null && sessions.value.length === 0 && <p class="hint">No request is in the graph now.</p>}
      <ul class="sessions">
        {sessions.value.map((session) => (
          <li key={session.id} data-stalled={session.stalled}>
            <div>
              <strong>{session.label || session.request_id || session.id}</strong>
              <small> {duration(session.age_ms)}</small>
              <p class={session.stalled ? "bad" : "hint"}>
                {session.stalled && "Stands still. "}
                <Rich text={session.why} />
              </p>
            </div>
            <button type="button" class="quiet small" aria-pressed={chosen.value === session.id} onClick={() => (chosen.value = chosen.value === session.id ? "" : session.id)}>
              Look at it alone
            </button>
            <button type="button" class="quiet small" onClick={() => show(session.id)}>
              Waterfall
            </button>
          </li>
        ))}
      </ul>
      <RecordingsView graph={graph} show={show} />
      {shown && <WaterfallDialog session={shown} close={() => show("")} />}
    </div>
  );
}

function RecordingsView({ graph, show }: { graph: string; show: (session: string) => void }): JSX.Element | null {
  const [known, setKnown] = useState<Recordings | null>(null);
  const [problem, setProblem] = useState("");
  const path = `/v3/graphs/${encodeURIComponent(graph)}/recording`;
  const look = async (): Promise<void> => {
    try {
      setKnown(await get<Recordings>(path, "operator"));
    } catch (error) {
      if (!isMissing(error) && !isLost(error)) setProblem(words(error));
    }
  };
  useEffect(() => {
    void look();
    const timer = setInterval(() => void look(), 3000);
    return () => clearInterval(timer);
  }, [path]);
  if (!known && !problem) return null;
  const toggle = async (): Promise<void> => {
    try {
      if (known?.active) await request(path, "operator", { method: "DELETE" });
      else await post(path, "operator", RECORDED);
      setProblem("");
    } catch (error) {
      setProblem(words(error));
    }
    await look();
  };
  return (
    <>
      <h3>Recordings</h3>
      <button type="button" class="quiet small" aria-pressed={known?.active !== null} onClick={() => void toggle()}>
        {known?.active ? "Stop recording" : "Record the next 20 sessions"}
      </button>
      {problem && (
        <p class="bad" role="alert">
          {problem}
        </p>
      )}
      <ul class="sessions">
        {known?.recordings.map((recording) => (
          <li key={recording.id}>
            <div>
              <strong>{moment(recording.started_at_ms)}</strong>
              <small> {recording.duration_ms === null ? recording.state : duration(recording.duration_ms)}</small>
            </div>
            <button type="button" class="quiet small" aria-label={`Waterfall of ${recording.id}`} onClick={() => show(recording.id)}>
              Waterfall
            </button>
          </li>
        ))}
      </ul>
    </>
  );
}
