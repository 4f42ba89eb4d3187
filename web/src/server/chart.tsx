// Lines of numbers over time.

import type { JSX } from "preact";
import { count } from "../ui/numbers";

export interface Line {
  name: string;
  /** Which of the page's colors it has. */
  color: "accent" | "amber" | "red";
  values: number[];
}

const WIDTH = 480;
const HEIGHT = 120;

/** `at` is in seconds since 1970. */
export function Chart({ title, at, lines }: { title: string; at: number[]; lines: Line[] }): JSX.Element {
  const [first = 0, last = 0] = [at[0], at.at(-1)];
  const most = nice(Math.max(1, ...lines.flatMap((line) => line.values)));
  const points = (values: number[]): string =>
    values.map((value, index) => `${(WIDTH * ((at[index] ?? first) - first)) / Math.max(1, last - first)},${HEIGHT - (HEIGHT * value) / most}`).join(" ");
  const isEmpty = lines.every((line) => line.values.every((value) => value === 0));
  const now = lines.map((line) => `${line.name} ${count(line.values.at(-1) ?? 0)}`).join(", ");
  return (
    <figure class="chart">
      <figcaption>
        {title}
        {lines.map((line) => (
          <span key={line.name} class="key" data-color={line.color}>
            {line.name} {count(line.values.at(-1) ?? 0)}
          </span>
        ))}
      </figcaption>
      <div class="plot">
        {!isEmpty && <span class="most">{count(most)}</span>}
        <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label={isEmpty ? `${title}: nothing yet` : `${title}: now ${now}`}>
          {(isEmpty ? [1] : [0, 0.5, 1]).map((share) => (
            <path key={share} class="level" d={`M0 ${HEIGHT * share}H${WIDTH}`} />
          ))}
          {lines.map((line) => (
            <polyline key={line.name} data-color={line.color} points={points(line.values)} />
          ))}
        </svg>
        {isEmpty && <span class="nothing">Nothing yet since this tab was opened</span>}
        <span class="span">{last > first ? `the last ${count(last - first)} s` : ""}</span>
      </div>
    </figure>
  );
}

/** The next of 1, 2, 5, 10, 20, 50 … */
function nice(value: number): number {
  const power = 10 ** Math.floor(Math.log10(value));
  return ([1, 2, 5, 10].find((step) => step * power >= value) ?? 10) * power;
}
