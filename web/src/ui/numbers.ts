// Numbers as people read them.

const WHOLE = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const TENTHS = new Intl.NumberFormat("en-US", { maximumFractionDigits: 1 });

/** `12,345`; below 10 with a digit behind the point. */
export function count(value: number): string {
  return (Math.abs(value) < 10 && !Number.isInteger(value) ? TENTHS : WHOLE).format(value);
}

const COMPACT = new Intl.NumberFormat("en-US", { notation: "compact", maximumFractionDigits: 1 });

/** `12.3K`: a number in few characters; below 10,000 as it is. */
export function compact(value: number): string {
  return Math.abs(value) < 10_000 ? count(value) : COMPACT.format(value);
}

/** A number of things: `1 request`, `2 requests`. */
export function plural(value: number, thing: string): string {
  return `${count(value)} ${thing}${value === 1 ? "" : "s"}`;
}

/** A time in milliseconds since 1970, with its date. */
export function moment(at: number): string {
  return new Date(at).toLocaleString("en-US", { dateStyle: "medium", timeStyle: "medium" });
}

/** A time in milliseconds, with its unit. */
export function duration(ms: number): string {
  if (ms < 1) return `${WHOLE.format(ms * 1000)} µs`;
  if (ms < 10) return `${TENTHS.format(ms)} ms`;
  if (ms < 1000) return `${WHOLE.format(ms)} ms`;
  if (ms < 60_000) return `${TENTHS.format(ms / 1000)} s`;
  const minutes = Math.floor(ms / 60_000);
  if (minutes < 60) return `${minutes} min ${Math.floor((ms % 60_000) / 1000)} s`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} days`;
}

/** A number of bytes, with its unit. */
export function bytes(value: number): string {
  let rest = value;
  for (const unit of ["B", "KiB", "MiB", "GiB"]) {
    if (rest < 1024 || unit === "GiB") return `${TENTHS.format(rest)} ${unit}`;
    rest /= 1024;
  }
  return "";
}

/** A share from 0 to 1, in percent. */
export function percent(share: number): string {
  return Number.isFinite(share) ? `${TENTHS.format(100 * share)} %` : "–";
}
