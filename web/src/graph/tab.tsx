// A graph that lives: its drawing, and beside it what the reader has chosen.

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { isLost, words } from "../api/client";
import { asksForKeys } from "../state/keys";
import { go, subject } from "../state/route";
import { IconButton } from "../ui/icons";
import { Empty, Problem } from "../ui/note";
import { Rich } from "../ui/rich";
import { Canvas, type Selection } from "./canvas";
import { fullName, graphs, graphsProblem, graphsRead, isLoaded, readGraph, readGraphs, watchGraphs, type GraphFile } from "./graphs";
import { following, watch } from "./live";
import { NodePanel } from "./node-panel";
import { allGroups } from "./plan";
import { chosen, openSessions, roots, watchSessions, why } from "./sessions";
import { SessionsPanel } from "./sessions-panel";
import { TapPanel } from "./tap-panel";
import { Unloaded } from "./unloaded";

export default function GraphTab(): JSX.Element {
  useEffect(watchGraphs, []);
  const problem = graphsProblem.value;
  if (problem) {
    return (
      <Empty title="Graphs cannot be shown">
        <p>{problem.missing ? "This port does not serve them. A server with a management port answers there: open this page at that port." : problem.why}</p>
        <div class="suggestions">
          {!problem.missing && (
            <button type="button" onClick={() => (asksForKeys.value = true)}>
              Enter a key
            </button>
          )}
          <button type="button" onClick={() => void readGraphs()}>
            Try again
          </button>
        </div>
      </Empty>
    );
  }
  if (!graphsRead.value) return <p class="loading">Reading the graphs …</p>;
  const names = graphs.value.map(fullName);
  const asked = subject.value;
  const name = names.includes(asked) ? asked : (names.find((full) => full.split("@")[0] === asked) ?? names[0]);
  if (name === undefined) {
    return (
      <Empty title="No graph yet">
        <p>The configuration lists none. Write one in the playground, or start the server with a model.</p>
      </Empty>
    );
  }
  return <GraphView key={name} name={name} names={names} />;
}

function GraphView({ name, names }: { name: string; names: string[] }): JSX.Element {
  const [file, setFile] = useState<GraphFile | null>(null);
  const [problem, setProblem] = useState("");
  const [closed, setClosed] = useState<ReadonlySet<string>>(new Set());
  const [selection, select] = useState<Selection>(null);
  const session = chosen.value;
  const read = (): void => {
    setProblem("");
    readGraph(name).then(setFile, (error: unknown) => setProblem(isLost(error) ? "" : words(error)));
  };
  const there = isLoaded(name);
  useEffect(read, [name, there]);
  useEffect(() => watchSessions(name), [name]);
  useEffect(() => (there ? watch(name, session) : undefined), [name, session, there]);
  const toggle = (group: string): void => {
    const next = new Set(closed);
    if (!next.delete(group)) next.add(group);
    setClosed(next);
  };
  const plan = file?.plan;
  const groups = plan ? allGroups(plan) : [];
  const node = selection?.kind === "node" ? plan?.nodes.find((each) => each.name === selection.name) : undefined;
  return (
    <div class="graph" data-panel={selection !== null}>
      <header class="graph-bar">
        <select aria-label="Graph" value={name} onChange={(event) => go("graph", event.currentTarget.value)}>
          {names.map((each) => (
            <option key={each}>{each}</option>
          ))}
        </select>
        {there && <Live />}
        {groups.length > 0 && (
          <button type="button" class="quiet small" onClick={() => setClosed(closed.size > 0 ? new Set() : new Set(groups.map((group) => group.id)))}>
            {closed.size > 0 ? "Open all subgraphs" : "Close all subgraphs"}
          </button>
        )}
        <a class="hint edit-link" href={`#/playground/${encodeURIComponent(name)}`}>
          Open in the playground
        </a>
      </header>
      {roots.value.size > 0 && why.value && (
        <div class="stalled" role="alert">
          <strong>A request stands still.</strong> <Rich text={why.value.text} />
        </div>
      )}
      <Unloaded name={name} />
      {problem && there && <Problem again={read}><Rich text={problem} /></Problem>}
      {plan ? <Canvas plan={plan} closed={closed} toggle={toggle} selection={selection} select={select} /> : !problem && <p class="loading">Reading the plan …</p>}
      <aside class="panel" aria-label={selection ? `${selection.kind === "node" ? "Node" : "Stream"} ${selection.name}` : "Sessions"}>
        <header>
          <h2>{selection ? selection.name.split("__").at(-1) : "Sessions"}</h2>
          {selection && <IconButton icon="close" label="Back to the sessions" onClick={() => select(null)} />}
        </header>
        {node ? <NodePanel node={node} tap={(stream) => select({ kind: "stream", name: stream })} /> : selection?.kind === "stream" ? <TapPanel graph={name} stream={selection.name} /> : <SessionsPanel graph={name} />}
      </aside>
    </div>
  );
}

function Live(): JSX.Element {
  const now = following.value;
  // The number is that of the list beside the drawing.
  const open = openSessions.value;
  const said = now.state === "open" ? ["live", open ?? []].flat().join(", ") : now.state === "opening" ? "connecting" : now.state === "refused" ? (now.missing ? "not live: this server sends no events" : now.why) : "the connection broke; it is made again";
  return (
    <p class="hint live" data-state={now.state} role="status">
      {said}
    </p>
  );
}
