// A graph that nobody serves yet: written, checked while it is typed, tried, and saved.

import type { JSX } from "preact";
import { useEffect, useId, useState } from "preact/hooks";
import { Canvas, type Selection } from "../graph/canvas";
import { fullName, graphs, isLoaded, watchGraphs } from "../graph/graphs";
import { Unloaded } from "../graph/unloaded";
import { subject } from "../state/route";
import { disabledBy } from "../ui/disabled";
import { Icon } from "../ui/icons";
import { plural } from "../ui/numbers";
import { Rich } from "../ui/rich";
import { EditorView } from "./editor-view";
import { Result } from "./result";
import { begin, busy, check, diagnostics, input, noCheck, note, noRun, noSave, origin, plan, run, said, save, take, text } from "./store";

export default function Playground(): JSX.Element {
  const [view, setView] = useState<"run" | "drawing">("run");
  useEffect(watchGraphs, []);
  useEffect(() => void check(text.value), []);
  useEffect(() => {
    if (subject.value && subject.value !== origin.value) void take(subject.value);
  }, [subject.value]);
  return (
    <div class="playground">
      <header class="graph-bar">
        <select aria-label="Begin with" value={origin.value} onChange={(event) => (event.currentTarget.value ? void take(event.currentTarget.value) : begin())}>
          <option value="">an example</option>
          {graphs.value.map(fullName).map((name) => (
            <option key={name}>{name}</option>
          ))}
        </select>
        <State />
        <button type="button" class="quiet" {...disabledBy(noSave.value ?? (origin.value ? null : "Begin with a served graph: its file is written"))} onClick={() => void save()}>
          Save
        </button>
      </header>
      <div class="bar-notes">
        {(noSave.value ?? said.value) && (
          <p class="bar-note" role="status">
            <Rich text={[said.value, noSave.value ?? ""].join(" ").trim()} />
          </p>
        )}
        <Unloaded name={origin.value} />
      </div>
      <section class="text" aria-label="Text">
        <EditorView />
        <Messages />
      </section>
      <section class="try panel" aria-label="Try it">
        <div class="choices" role="group" aria-label="Show">
          <button type="button" aria-pressed={view === "run"} onClick={() => setView("run")}>
            Input
          </button>
          <button type="button" aria-pressed={view === "drawing"} onClick={() => setView("drawing")}>
            Drawing
          </button>
        </div>
        {view === "run" ? <Run /> : <Drawing />}
      </section>
    </div>
  );
}

function State(): JSX.Element {
  const errors = diagnostics.value.filter((each) => each.severity !== "warning").length;
  const text = noCheck.value ?? (diagnostics.value.length === 0 ? "no mistake found" : `${plural(errors, "error")}, ${plural(diagnostics.value.length - errors, "warning")}`);
  return (
    <p class="hint check-state" role="status" data-bad={errors > 0}>
      {text}
    </p>
  );
}

function Messages(): JSX.Element | null {
  if (diagnostics.value.length === 0) {
    return note.value && !noCheck.value ? (
      <p class="diagnostics hint">
        <Rich text={note.value} />
      </p>
    ) : null;
  }
  return (
    <ul class="diagnostics" aria-label="Diagnostics">
      {diagnostics.value.map((each, index) => (
        <li key={index} data-severity={each.severity}>
          <span>
            <strong>{each.code}</strong> line {each.line}: <Rich text={each.message} />
          </span>
          {each.help && (
            <small>
              <Rich text={each.help} />
            </small>
          )}
        </li>
      ))}
    </ul>
  );
}

function Drawing(): JSX.Element {
  const [closed, setClosed] = useState<ReadonlySet<string>>(new Set());
  const [selection, select] = useState<Selection>(null);
  if (!plan.value) return <p class="hint padded">Fix the errors to see the drawing.</p>;
  const toggle = (group: string): void => {
    const next = new Set(closed);
    if (!next.delete(group)) next.add(group);
    setClosed(next);
  };
  return <Canvas plan={plan.value} closed={closed} toggle={toggle} selection={selection} select={select} live={false} />;
}

function Run(): JSX.Element {
  const [compares, setCompares] = useState(false);
  const [path, body, packets] = [useId(), useId(), useId()];
  const { value } = input;
  const isRequest = value.kind === "request";
  return (
    <form
      class="run"
      onSubmit={(event) => {
        event.preventDefault();
        void run(compares);
      }}
    >
      <div class="choices" role="group" aria-label="Send">
        <button type="button" class="small" aria-pressed={isRequest} onClick={() => (input.value = { ...value, kind: "request" })}>
          a request
        </button>
        <button type="button" class="small" aria-pressed={!isRequest} onClick={() => (input.value = { ...value, kind: "packets" })}>
          packets
        </button>
      </div>
      {isRequest ? (
        <>
          <label for={path}>Path</label>
          <input id={path} value={value.path} onInput={(event) => (input.value = { ...value, path: event.currentTarget.value })} />
          <label for={body}>Body</label>
          <textarea id={body} class="code" rows={7} spellcheck={false} value={value.body} onInput={(event) => (input.value = { ...value, body: event.currentTarget.value })} />
        </>
      ) : (
        <>
          <label for={packets}>Packets, as in a test file</label>
          <textarea id={packets} class="code" rows={7} spellcheck={false} value={value.packets} onInput={(event) => (input.value = { ...value, packets: event.currentTarget.value })} />
        </>
      )}
      {origin.value && (
        <label class="check">
          <input type="checkbox" checked={compares} onChange={(event) => setCompares(event.currentTarget.checked)} />
          Compare with the served {origin.value}
        </label>
      )}
      <footer>
        <button type="submit" class="primary" {...disabledBy(noRun.value ?? (busy.value ? "It is running" : isLoaded(origin.value) ? null : "Load the graph first: its models are used"))}>
          <Icon name="playground" size={16} /> {busy.value ? "Running …" : "Run"}
        </button>
        <p class="hint">{noRun.value ?? "At most 10 s and 1,000 packets. Only models that are served already are used."}</p>
      </footer>
      <Result />
    </form>
  );
}
