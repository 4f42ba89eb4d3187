// The state of the playground: a text, what the server says of it, and what came of running it.

import { batch, signal } from "@preact/signals";
import { get, isMissing, post, Refused, request, words } from "../api/client";
import type { Diagnostic } from "../api/types";
import type { Plan } from "../graph/plan";
import type { TraceEvent } from "../graph/waterfall";
import { stored } from "../state/stored";

/** The smallest graph that does something. */
export const EXAMPLE = `# A graph that gives back what comes in.
input_stream: "in"
output_stream: "out"

node {
  calculator: "PassThroughCalculator"
  input_stream: "in"
  output_stream: "out"
}
`;

export interface Ran {
  outputs: { stream: string; timestamp: number | string; payload: unknown }[];
  events: TraceEvent[];
  error: { message?: string } | null;
}

/** What is sent into a graph. */
export interface Input {
  kind: "request" | "packets";
  path: string;
  body: string;
  packets: string;
}

export const text = stored(() => sessionStorage, "playground.text", EXAMPLE);

/** What goes into that graph. */
const EXAMPLE_INPUT: Input = {
  kind: "packets",
  path: "/v3/chat/completions",
  body: '{\n  "model": "",\n  "messages": [{"role": "user", "content": "What is a side packet?"}],\n  "max_tokens": 50\n}',
  packets: '[[case]]\nname = "one number"\ninput = [{ stream = "in", timestamp = 0, value = 1 }]\n',
};

export const input = stored<Input>(() => sessionStorage, "playground.input", EXAMPLE_INPUT);

/** The served graph that the text came from; empty for none. */
export const origin = stored(() => sessionStorage, "playground.origin", "");

export const diagnostics = signal<Diagnostic[]>([]);
export const plan = signal<Plan | null>(null);

/** Why a graph without mistakes could not answer requests; null where it could. */
export const note = signal<string | null>(null);

/** Why a text cannot be checked, run or saved here; null where it can or nobody has tried. */
export const noCheck = signal<string | null>(null);
export const noRun = signal<string | null>(null);
export const noSave = signal<string | null>(null);

export const outcome = signal<{ edited: Ran | null; served: Ran | null; problem: string } | null>(null);
export const busy = signal(false);
export const said = signal("");

/** Says why something cannot be done here. */
function refusal(error: unknown, what: string): string {
  return isMissing(error) ? `This server does not ${what}.` : words(error);
}

/** Asks the server what is wrong with a text. */
export async function check(graph: string): Promise<Diagnostic[]> {
  try {
    const checked = await post<{ diagnostics: Diagnostic[]; plan: Plan | null; note?: string | null }>("/v3/check", "operator", { graph });
    diagnostics.value = checked.diagnostics;
    plan.value = checked.plan;
    note.value = checked.note ?? null;
    noCheck.value = null;
  } catch (error) {
    diagnostics.value = [];
    plan.value = null;
    noCheck.value = refusal(error, "check graphs");
    // Where texts are not checked, they are not run and saved either: said before anybody tries.
    if (isMissing(error)) {
      noRun.value = refusal(error, "run graphs that are not served");
      noSave.value = refusal(error, "save graphs");
    }
  }
  return diagnostics.value;
}

/** Begins with the smallest graph. */
export function begin(): void {
  batch(() => {
    text.value = EXAMPLE;
    origin.value = "";
    input.value = EXAMPLE_INPUT;
    outcome.value = null;
    said.value = "";
  });
}

/** Begins with the text of a served graph, and with what goes into it. */
export async function take(graph: string): Promise<void> {
  said.value = "";
  const [served, sent] = await Promise.all([textOf(graph), inputOf(graph)]);
  if (served === null) return;
  batch(() => {
    text.value = served;
    origin.value = graph;
    if (sent) input.value = sent;
    else said.value = "The server has no example of what goes into this graph. Write it below “Run”.";
    outcome.value = null;
  });
}

/** What goes into a served graph, as the server has it; null where it has nothing. */
async function inputOf(graph: string): Promise<Input | null> {
  type Example = { path: string; body: unknown } | { test: string };
  try {
    const { example } = await get<{ example?: Example | null }>(`/v3/graphs/${encodeURIComponent(graph)}`, "operator");
    if (!example) return null;
    if ("test" in example) return { ...EXAMPLE_INPUT, kind: "packets", packets: example.test };
    return { kind: "request", path: example.path, body: JSON.stringify(example.body, null, 2), packets: "" };
  } catch {
    // One that could not be loaded has none.
    return null;
  }
}

async function textOf(graph: string): Promise<string | null> {
  try {
    return await (await request(`/v3/graphs/${encodeURIComponent(graph)}/file`, "operator")).text();
  } catch (error) {
    said.value = isMissing(error) ? "This server does not give out the text of its graphs. Paste it here." : words(error);
    return null;
  }
}

/** Runs the text, and the served graph beside it where that is wanted. */
export async function run(compares: boolean): Promise<void> {
  let sent: Record<string, unknown>;
  const { kind, path, body, packets } = input.value;
  try {
    sent = kind === "request" ? { path, body: JSON.parse(body) } : { test: packets };
  } catch (error) {
    outcome.value = { edited: null, served: null, problem: `The body is not JSON: ${words(error)}` };
    return;
  }
  busy.value = true;
  // Paths in the text are relative to the folder of the graph that it came from.
  const beside = origin.value || undefined;
  try {
    const edited = await post<Ran>("/v3/playground", "operator", { graph: text.value, beside, ...sent });
    noRun.value = null;
    const other = compares ? await textOf(origin.value) : null;
    const served = other === null ? null : await post<Ran>("/v3/playground", "operator", { graph: other, beside, ...sent });
    outcome.value = { edited, served, problem: "" };
  } catch (error) {
    if (isMissing(error)) noRun.value = refusal(error, "run graphs that are not served");
    outcome.value = { edited: null, served: null, problem: refusal(error, "run graphs that are not served") };
  }
  busy.value = false;
}

/** Writes the text into the file of the graph that it came from. */
export async function save(): Promise<void> {
  try {
    const init = { method: "PUT", headers: { "content-type": "text/plain; charset=utf-8" }, body: text.value };
    await request(`/v3/graphs/${encodeURIComponent(origin.value)}/file`, "operator", init);
    said.value = "Saved. The graph is served as soon as it is loaded.";
    noSave.value = null;
  } catch (error) {
    // What is wrong with this text may be put right; what the server never does stays so.
    const never = isMissing(error) || (error instanceof Refused && error.status === 403);
    if (never) noSave.value = refusal(error, "save graphs");
    else said.value = words(error);
  }
}
