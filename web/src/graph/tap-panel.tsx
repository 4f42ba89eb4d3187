// A tapped stream: its packets as they pass. Tapping slows nothing: what does not fit is dropped,
// and counted.

import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { follow, type Following } from "../api/follow";
import { Icon } from "../ui/icons";
import { Problem } from "../ui/note";
import { count } from "../ui/numbers";
import { chosen } from "./sessions";

interface Packet {
  key: number;
  session: string;
  stream: string;
  timestamp: number | string;
  type: string;
  payload: unknown;
  truncated: boolean;
}

/** How many packets are shown: more than anybody reads, and few enough to draw at once. */
const MAX_SHOWN = 200;

export function TapPanel({ graph, stream }: { graph: string; stream: string }): JSX.Element {
  const [packets, setPackets] = useState<Packet[]>([]);
  const [seen, setSeen] = useState(0);
  const [dropped, setDropped] = useState(0);
  const [paused, pause] = useState(false);
  const [now, setNow] = useState<Following>({ state: "opening" });
  const isPaused = useRef(false);
  isPaused.current = paused;
  const session = chosen.value;
  useEffect(() => {
    let key = 0;
    setPackets([]);
    setSeen(0);
    setDropped(0);
    const query = new URLSearchParams({ stream, ...(session ? { session } : {}) });
    return follow(
      `/v3/graphs/${encodeURIComponent(graph)}/tap?${query}`,
      "operator",
      ({ event, data }) => {
        if (event === "dropped") setDropped((before) => before + (JSON.parse(data) as { count: number }).count);
        if (event !== "packet") return;
        setSeen((before) => before + 1);
        if (isPaused.current) return;
        const packet = { ...(JSON.parse(data) as Packet), key: key++ };
        setPackets((before) => [packet, ...before].slice(0, MAX_SHOWN));
      },
      setNow,
    );
  }, [graph, stream, session]);
  return (
    <div class="panel-body">
      <div class="tap-bar">
        <button type="button" class="quiet small" aria-pressed={paused} onClick={() => pause(!paused)}>
          <Icon name={paused ? "play" : "pause"} size={14} /> {paused ? "Go on" : "Pause"}
        </button>
        <button type="button" class="quiet small" onClick={() => setPackets([])}>
          Clear
        </button>
        <p class="hint" role="status">
          {count(seen)} passed, {count(dropped)} dropped
          {session && `, of session ${session} alone`}
        </p>
      </div>
      {now.state === "refused" && <Problem>{now.missing ? `The stream cannot be tapped: ${now.why}` : now.why}</Problem>}
      {now.state === "broken" && <p class="hint">{now.why}</p>}
      {packets.length === 0 && now.state === "open" && <p class="hint">Nothing has passed yet. Send a request to the graph: its packets appear here.</p>}
      <ol class="packets" aria-label={`Packets of ${stream}`}>
        {packets.map((packet) => (
          <li key={packet.key}>
            <header>
              <strong>{packet.timestamp}</strong> <span>{packet.type}</span>
            </header>
            <pre tabIndex={0}>{packet.payload === null ? "(not shown)" : shown(packet.payload)}</pre>
            {packet.truncated && <small>cut: the packet is longer</small>}
          </li>
        ))}
      </ol>
    </div>
  );
}

function shown(payload: unknown): string {
  return typeof payload === "string" ? payload : JSON.stringify(payload, null, 1);
}
