// What came of a run, beside what the served graph makes of the same.

import type { JSX } from "preact";
import { Waterfall } from "../graph/waterfall";
import { Problem } from "../ui/note";
import { Rich } from "../ui/rich";
import { outcome, type Ran } from "./store";

export function Result(): JSX.Element | null {
  const shown = outcome.value;
  if (!shown) return <p class="hint">Run the graph: its outputs and what each node did appear here.</p>;
  if (shown.problem) {
    return (
      <Problem>
        <Rich text={shown.problem} />
      </Problem>
    );
  }
  const { edited, served } = shown;
  const same = edited && served && written(edited) === written(served);
  return (
    <div class="results">
      {served && <p role="status">{same ? "Both graphs put out the same." : "The graphs put out different packets."}</p>}
      {edited && <Run title={served ? "This text" : "Outputs"} ran={edited} />}
      {served && <Run title="The served graph" ran={served} />}
    </div>
  );
}

/** What is compared: not the times, and not the ids that each answer has. */
function written(ran: Ran): string {
  return JSON.stringify(ran.outputs, (key, value: unknown) => (key === "id" || key === "created" ? undefined : value));
}

function Run({ title, ran }: { title: string; ran: Ran }): JSX.Element {
  return (
    <section>
      <h2>{title}</h2>
      {ran.error && (
        <Problem>
          <Rich text={ran.error.message ?? JSON.stringify(ran.error)} />
        </Problem>
      )}
      {ran.outputs.length === 0 && !ran.error && <p class="hint">Nothing was put out.</p>}
      <ol class="packets">
        {ran.outputs.map((output, index) => (
          <li key={index}>
            <header>
              <strong>{output.stream}</strong> <span>at {output.timestamp}</span>
            </header>
            <pre tabIndex={0}>{JSON.stringify(output.payload, null, 1)}</pre>
          </li>
        ))}
      </ol>
      <Waterfall events={ran.events} />
    </section>
  );
}
