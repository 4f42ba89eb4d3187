// How the server is.

import type { JSX } from "preact";
import { useEffect } from "preact/hooks";
import { asksForKeys } from "../state/keys";
import { Empty, Problem } from "../ui/note";
import { duration, plural } from "../ui/numbers";
import { EmbeddingView, EngineView } from "./engines";
import { Errors } from "./errors";
import { Graphs } from "./graphs";
import { Histograms } from "./histograms";
import { look, metrics, nameOf, problem, status, watch } from "./watch";

export default function Server(): JSX.Element {
  useEffect(watch, []);
  const now = status.value;
  if (problem.value && !now) {
    return (
      <Empty title="The server's state cannot be shown">
        {problem.value.missing ? (
          <p>This port does not serve it. A server with a management port answers there: open this page at that port.</p>
        ) : (
          <>
            <p>{problem.value.why}</p>
            <div class="suggestions">
              <button type="button" onClick={() => (asksForKeys.value = true)}>
                Enter a key
              </button>
              <button type="button" onClick={() => void look()}>
                Try again
              </button>
            </div>
          </>
        )}
      </Empty>
    );
  }
  if (!now) return <p class="loading">Reading the status …</p>;
  // The request that asked for the metrics is one of them.
  const open = Math.max(0, (metrics.value.find((sample) => sample.name === "graphmill_requests_open")?.value ?? 0) - 1);
  return (
    <div class="page">
      <header class="page-head">
        <h1>Server</h1>
        <p class="hint">
          Graphmill {now.version}, up {duration(now.uptime_seconds * 1000)}, {plural(open, "request")} open. <a href="/metrics">Metrics</a>
        </p>
      </header>
      {problem.value && <Problem again={() => void look()}>{problem.value.why} What is shown is older.</Problem>}
      <Graphs graphs={now.graphs} />
      <h2>Engines</h2>
      {now.engines.length + now.embedding_engines.length === 0 && <p class="hint">No graph that is loaded has a model.</p>}
      {now.engines.map((engine) => (
        <EngineView key={nameOf(engine)} engine={engine} />
      ))}
      <div class="columns">
        {now.embedding_engines.map((engine) => (
          <EmbeddingView key={nameOf(engine)} engine={engine} />
        ))}
      </div>
      <h2>Latency</h2>
      <Histograms />
      <Errors />
    </div>
  );
}
