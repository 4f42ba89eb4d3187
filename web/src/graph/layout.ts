// Where boxes and wires are: layers from top to bottom, by dagre.

import { graphlib, layout as dagre } from "@dagrejs/dagre";
import type { Drawing } from "./plan";

export interface Place {
  x: number;
  y: number;
  width: number;
  height: number;
}

export interface Route {
  points: { x: number; y: number }[];
  /** Where its name is. */
  label: { x: number; y: number };
}

export interface Layout {
  width: number;
  height: number;
  boxes: Map<string, Place>;
  groups: Map<string, Place>;
  wires: Map<string, Route>;
}

const BOX = { width: 172, height: 52 };
const END = { width: 140, height: 32 };
const MARGIN = 16;

/** Room above the nodes of an open subgraph for its name, and around them. */
const HEAD = 26;
const RIM = 8;

/** How far a wire that comes back to its own node goes out to its right. */
const LOOP = 34;

/** The most characters of a stream's name that are shown. */
export const MAX_LABEL = 22;
const CHARACTER_WIDTH = 6.2;

export function layout(drawing: Drawing): Layout {
  const graph = new graphlib.Graph({ compound: true, multigraph: true });
  graph.setGraph({ rankdir: "TB", nodesep: 28, ranksep: 28, edgesep: 14, marginx: MARGIN, marginy: MARGIN });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const group of drawing.groups) graph.setNode(group.id, {});
  for (const group of drawing.groups) if (group.inside) graph.setParent(group.id, group.inside);
  for (const box of drawing.boxes) {
    graph.setNode(box.id, box.kind === "node" || box.kind === "group" ? { ...BOX } : { ...END });
    if (box.inside) graph.setParent(box.id, box.inside);
  }
  for (const wire of drawing.wires) {
    const label = { width: Math.min((wire.stream.split("__").at(-1) ?? "").length, MAX_LABEL) * CHARACTER_WIDTH + 12, height: 16, labelpos: "c" };
    // A wire that goes back goes up: it does not put its end below its beginning.
    if (wire.back) graph.setEdge(wire.to, wire.from, label, wire.id);
    else graph.setEdge(wire.from, wire.to, label, wire.id);
  }
  dagre(graph);
  const place = (id: string): Place => {
    const { x, y, width, height } = graph.node(id) as Place;
    return { x: x - width / 2, y: y - height / 2, width, height };
  };
  const around = (id: string): Place => {
    const { x, y, width, height } = place(id);
    return { x: x - RIM, y: y - HEAD, width: width + 2 * RIM, height: height + HEAD + RIM };
  };
  const routes = drawing.wires.map((wire): [string, Route] => {
    if (wire.from === wire.to) return [wire.id, loop(place(wire.from))];
    const found = graph.edge({ v: wire.back ? wire.to : wire.from, w: wire.back ? wire.from : wire.to, name: wire.id }) as { points: Route["points"]; x: number; y: number };
    return [wire.id, { points: wire.back ? [...found.points].reverse() : found.points, label: { x: found.x, y: found.y } }];
  });
  const size = graph.graph() as { width?: number; height?: number };
  return {
    width: size.width ?? 0,
    height: size.height ?? 0,
    boxes: new Map(drawing.boxes.map((box) => [box.id, place(box.id)])),
    groups: new Map(drawing.groups.map((group) => [group.id, around(group.id)])),
    wires: new Map(routes),
  };
}

/** The way of a wire from a node to itself. */
function loop({ x, y, width, height }: Place): Route {
  const [right, top, bottom] = [x + width, y + 0.75 * height, y + 0.25 * height];
  const points = [
    { x: right, y: top },
    { x: right + LOOP, y: top },
    { x: right + LOOP, y: bottom },
    { x: right, y: bottom },
  ];
  return { points, label: { x: right + LOOP, y: y + height / 2 } };
}

/** A smooth line through the points of a route. */
export function line({ points }: Route): string {
  const [first, ...rest] = points;
  if (!first) return "";
  let path = `M${first.x} ${first.y}`;
  rest.forEach((point, index) => {
    const next = rest[index + 1];
    if (!next) path += `L${point.x} ${point.y}`;
    else path += `Q${point.x} ${point.y} ${(point.x + next.x) / 2} ${(point.y + next.y) / 2}`;
  });
  return path;
}
