// A plan, as `graphmill explain --format json` prints it, and what is drawn of it.

export interface Port {
  port: string;
  name: string;
  ty: string;
  back_edge: boolean;
}

export interface PlanNode {
  name: string;
  calculator: string;
  /** The subgraphs that it comes from, outermost first. */
  within: string[];
  place: string;
  policy: string;
  runs: string;
  /** As written in the graph's file; absent if there are none. */
  options?: string;
  inputs: Port[];
  outputs: Port[];
  side_inputs: Port[];
  side_outputs: Port[];
}

export interface Plan {
  nodes: PlanNode[];
  inputs: string[];
  outputs: string[];
  side_inputs: string[];
  side_outputs: string[];
}

/** A box: a node, a closed subgraph, or where packets come into the graph and leave it. */
export interface Box {
  id: string;
  kind: "node" | "group" | "input" | "output";
  title: string;
  subtitle: string;
  /** The open subgraph that it is in; empty outside of all. */
  inside: string;
  /** The nodes that it stands for. */
  nodes: string[];
}

/** An open subgraph. */
export interface Group {
  id: string;
  type: string;
  inside: string;
}

/** A stream from what sends it to one input. */
export interface Wire {
  id: string;
  stream: string;
  ty: string;
  from: string;
  to: string;
  back: boolean;
  /** The inputs that it stands for: more than one in front of a closed subgraph. */
  edges: string[];
}

export interface Drawing {
  boxes: Box[];
  groups: Group[];
  wires: Wire[];
}

/** The key of an input's edge. Events write tag and index (`TAG:0`). */
export function edgeKey(stream: string, node: string, input: string): string {
  return `${stream}\n${node}\n${input}`;
}

/** The key of the edge of a port, which plans write shorter: without the index, or by its stream. */
export function edgeOf(node: string, port: Port): string {
  const tagged = port.port === port.name ? ":0" : port.port.includes(":") ? port.port : `${port.port}:0`;
  return edgeKey(port.name, node, tagged);
}

/** The subgraphs of a node, outermost first: the names of nodes inside begin with those of theirs. */
function groupsOf(node: PlanNode): Group[] {
  const parts = node.name.split("__");
  return node.within.map((type, depth) => {
    const name = (until: number): string => (parts.length > until ? parts.slice(0, until).join("__") : node.within.slice(0, until).join("__"));
    return { id: `group ${name(depth + 1)}`, type, inside: depth === 0 ? "" : `group ${name(depth)}` };
  });
}

/** All subgraphs of a plan. */
export function allGroups(plan: Plan): Group[] {
  const found = new Map(plan.nodes.flatMap(groupsOf).map((group) => [group.id, group]));
  return [...found.values()];
}

/** What is drawn when these subgraphs are closed. */
export function draw(plan: Plan, closed: ReadonlySet<string>): Drawing {
  const boxes = new Map<string, Box>();
  const groups = new Map<string, Group>();
  const boxOf = new Map<string, string>();
  for (const node of plan.nodes) {
    const around = groupsOf(node);
    const shut = around.findIndex((group) => closed.has(group.id));
    const open = shut < 0 ? around : around.slice(0, shut);
    for (const group of open) groups.set(group.id, group);
    const inside = open.at(-1)?.id ?? "";
    const group = around[shut];
    const id = group ? group.id : `node ${node.name}`;
    const title = group ? group.id.slice("group ".length) : (node.name.split("__").at(-1) ?? node.name);
    const box = boxes.get(id) ?? { id, kind: group ? ("group" as const) : ("node" as const), title, subtitle: group ? group.type : node.calculator, inside, nodes: [] };
    box.nodes.push(node.name);
    boxes.set(id, box);
    boxOf.set(node.name, id);
  }
  const sender = new Map<string, { box: string; ty: string }>();
  for (const stream of plan.inputs) {
    const id = `input ${stream}`;
    boxes.set(id, { id, kind: "input", title: stream, subtitle: "into the graph", inside: "", nodes: [] });
    sender.set(stream, { box: id, ty: "" });
  }
  for (const node of plan.nodes) for (const port of node.outputs) sender.set(port.name, { box: boxOf.get(node.name) ?? "", ty: port.ty });
  const wires = new Map<string, Wire>();
  const connect = (stream: string, to: string, back: boolean, edge: string | null): void => {
    const from = sender.get(stream);
    // A loop inside of a closed subgraph is not seen.
    if (!from || (from.box === to && boxes.get(to)?.kind === "group")) return;
    const id = `${stream}\n${to}`;
    const wire = wires.get(id) ?? { id, stream, ty: from.ty, from: from.box, to, back, edges: [] };
    if (edge) wire.edges.push(edge);
    wires.set(id, wire);
  };
  for (const node of plan.nodes) {
    for (const port of node.inputs) connect(port.name, boxOf.get(node.name) ?? "", port.back_edge, edgeOf(node.name, port));
  }
  for (const stream of plan.outputs) {
    const id = `output ${stream}`;
    boxes.set(id, { id, kind: "output", title: stream, subtitle: "out of the graph", inside: "", nodes: [] });
    connect(stream, id, false, null);
  }
  return { boxes: [...boxes.values()], groups: [...groups.values()], wires: [...wires.values()] };
}
