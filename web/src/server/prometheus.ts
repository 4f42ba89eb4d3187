// Reads the text of `/metrics`.

export interface Sample {
  name: string;
  labels: Record<string, string>;
  value: number;
}

const LINE = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)/;
const LABEL = /(\w+)="((?:[^"\\]|\\.)*)"/g;

export function samples(text: string): Sample[] {
  const found: Sample[] = [];
  for (const line of text.split("\n")) {
    const match = line.startsWith("#") ? null : LINE.exec(line);
    if (!match) continue;
    const labels: Record<string, string> = {};
    for (const [, name, value] of (match[2] ?? "").matchAll(LABEL)) {
      if (name) labels[name] = (value ?? "").replaceAll(/\\(.)/g, (_, escaped: string) => (escaped === "n" ? "\n" : escaped));
    }
    found.push({ name: match[1] ?? "", labels, value: match[3] === "+Inf" ? Infinity : Number(match[3]) });
  }
  return found;
}

/** How many observations each bucket has: not cumulative, by upper limit. */
export interface Histogram {
  buckets: { below: number; count: number }[];
  count: number;
  sum: number;
}

/** The histogram of a name, all of its labels that `of` takes together. */
export function histogram(all: Sample[], name: string, of: (labels: Record<string, string>) => boolean): Histogram {
  const limits = new Map<number, number>();
  let [count, sum] = [0, 0];
  for (const sample of all) {
    if (!of(sample.labels)) continue;
    if (sample.name === `${name}_count`) count += sample.value;
    if (sample.name === `${name}_sum`) sum += sample.value;
    if (sample.name !== `${name}_bucket`) continue;
    const limit = sample.labels["le"] === "+Inf" ? Infinity : Number(sample.labels["le"]);
    limits.set(limit, (limits.get(limit) ?? 0) + sample.value);
  }
  let before = 0;
  const sorted = [...limits].sort(([one], [other]) => one - other);
  const buckets = sorted.map(([below, until]) => {
    const own = until - before;
    before = until;
    return { below, count: own };
  });
  return { buckets, count, sum };
}

/** The limit below which this share of the observations is; null without any. */
export function quantile(of: Histogram, share: number): number | null {
  if (of.count === 0) return null;
  let [seen, above] = [0, 0];
  for (const bucket of of.buckets) {
    if (seen + bucket.count >= share * of.count) {
      if (bucket.below === Infinity) return above;
      return above + ((share * of.count - seen) / bucket.count) * (bucket.below - above);
    }
    seen += bucket.count;
    above = bucket.below;
  }
  return above;
}
