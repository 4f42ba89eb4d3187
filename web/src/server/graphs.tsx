// The graphs that are served, and the configuration that is read again.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { Refused, request, words } from "../api/client";
import type { ServedGraph } from "../api/types";
import { readModels } from "../state/models";
import { address } from "../state/route";
import { disabledBy } from "../ui/disabled";
import { Icon } from "../ui/icons";
import { count } from "../ui/numbers";
import { Rich } from "../ui/rich";
import { State } from "./engines";
import { look } from "./watch";

export function Graphs({ graphs }: { graphs: ServedGraph[] }): JSX.Element {
  return (
    <section class="card">
      <header>
        <h2>Graphs</h2>
        <Reload />
      </header>
      <div class="scroll stacked" tabIndex={0} role="group" aria-label="Table of graphs">
        <table>
          <thead>
            <tr>
              <th scope="col">Graph</th>
              <th scope="col">State</th>
              <th scope="col" class="number">
                Sessions
              </th>
              <th scope="col" class="number">
                Jobs waiting
              </th>
              <th scope="col" class="number">
                Refused
              </th>
              <th scope="col">Note</th>
            </tr>
          </thead>
          <tbody>
            {graphs.map((graph) => (
              <tr key={graph.name}>
                <th scope="row">
                  <a href={address("graph", graph.name)}>{graph.name}</a>
                </th>
                <td>
                  <State of={stateOf(graph)} />
                </td>
                <td class="number" data-label="Sessions">
                  {count(graph.open_sessions)}
                </td>
                <td class="number" data-label="Jobs waiting">
                  {count(graph.jobs_waiting)}
                </td>
                <td class="number" data-label="Refused">
                  {count(graph.refused)}
                </td>
                <td class="note">
                  <Rich text={note(graph)} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

/** The states in the words of the other tabs. */
function stateOf({ state, ready }: ServedGraph): string {
  if (state === "END" && !ready) return "FAILED";
  return state === "START" || state === "END" ? "UNLOADED" : state;
}

function note(graph: ServedGraph): string {
  const { loading } = graph;
  if (loading) return `${loading.stage}${loading.percent === undefined ? "" : ` ${Math.round(loading.percent)} %`}, ${Math.round(loading.seconds)} s`;
  return graph.reason ?? "";
}

type Outcome = { text: string; bad: boolean; diagnostics: string[] };

function Reload(): JSX.Element {
  const [outcome, tell] = useState<Outcome | null>(null);
  const [busy, setBusy] = useState(false);
  const reload = async (): Promise<void> => {
    setBusy(true);
    try {
      const answer = await request("/v1/config/reload", "operator", { method: "POST" });
      tell({ text: answer.status === 201 ? "Read again: the new configuration is served." : "Read again: nothing has changed.", bad: false, diagnostics: [] });
      await Promise.all([look(), readModels()]);
    } catch (error) {
      tell({ text: words(error), bad: true, diagnostics: diagnosticsOf(error) });
    }
    setBusy(false);
  };
  return (
    <div class="reload">
      <button type="button" class="quiet" {...disabledBy(busy ? "It is being read" : null)} onClick={() => void reload()}>
        <Icon name="again" size={16} /> Read the configuration again
      </button>
      <div role="status">
        {outcome && <p class={outcome.bad ? "bad" : "hint"}>
            <Rich text={outcome.text} />
          </p>}
        {outcome && outcome.diagnostics.length > 0 && (
          <ul class="diagnostics">
            {outcome.diagnostics.map((each, index) => (
              <li key={index}>
                <pre tabIndex={0}>{each}</pre>
              </li>
            ))}
          </ul>
        )}
      </div>
    </div>
  );
}

/** The diagnostics as the command line prints them. */
function diagnosticsOf(error: unknown): string[] {
  const body = error instanceof Refused ? error.body : null;
  if (typeof body !== "object" || body === null || !("diagnostics" in body) || !Array.isArray(body.diagnostics)) return [];
  return body.diagnostics.map(String);
}
