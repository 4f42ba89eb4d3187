// How long things took: a row of bars for each histogram of the server.

import type { JSX } from "preact";
import { Empty } from "../ui/note";
import { count, duration } from "../ui/numbers";
import { histogram, quantile, type Histogram } from "./prometheus";
import { metrics } from "./watch";

const SHOWN: [name: string, title: string][] = [
  ["graphmill_time_to_first_token_seconds", "Time to first token"],
  ["graphmill_inter_token_latency_seconds", "Between tokens"],
  ["graphmill_queue_time_seconds", "Wait for a slot"],
  ["graphmill_step_duration_seconds", "Step of an engine"],
  ["graphmill_generation_duration_seconds", "Generation"],
];

export function Histograms(): JSX.Element {
  const all = SHOWN.map(([name, title]) => [title, histogram(metrics.value, name, () => true)] as const);
  const some = all.filter(([, found]) => found.count > 0);
  if (some.length === 0) {
    return (
      <Empty title="Nothing measured yet">
        <p>Latencies appear with the first answer. Ask something in the chat.</p>
      </Empty>
    );
  }
  return (
    <div class="histograms">
      {some.map(([title, found]) => (
        <Bars key={title} title={title} of={found} />
      ))}
    </div>
  );
}

function Bars({ title, of }: { title: string; of: Histogram }): JSX.Element {
  const first = of.buckets.findIndex((bucket) => bucket.count > 0);
  const last = of.buckets.findLastIndex((bucket) => bucket.count > 0);
  const shown = of.buckets.slice(Math.max(0, first - 1), last + 2);
  const most = Math.max(...shown.map((bucket) => bucket.count), 1);
  const at = (share: number): string => {
    const seconds = quantile(of, share);
    return seconds === null ? "–" : duration(seconds * 1000);
  };
  return (
    <figure class="histogram">
      <figcaption>
        <strong>{title}</strong>
        <span>
          half below {at(0.5)}, 99 % below {at(0.99)}, {count(of.count)} measured
        </span>
      </figcaption>
      <div class="bars" aria-hidden="true">
        {shown.map((bucket) => (
          <div key={bucket.below} class="bar-of" title={`${bucket.below === Infinity ? "above" : `up to ${duration(bucket.below * 1000)}`}: ${count(bucket.count)}`}>
            <div class="fill" style={{ height: `${(100 * bucket.count) / most}%` }} />
          </div>
        ))}
      </div>
      <div class="limits" aria-hidden="true">
        <span>{duration((shown[0]?.below ?? 0) * 1000)}</span>
        <span>{duration((shown.findLast((bucket) => bucket.below !== Infinity)?.below ?? 0) * 1000)}</span>
      </div>
    </figure>
  );
}
