// The drawing of a graph, with what its nodes and wires do now.

import type { JSX } from "preact";
import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { IconButton } from "../ui/icons";
import { fitted, width } from "../ui/measure";
import { compact, count, plural } from "../ui/numbers";
import { layout, line, MAX_LABEL, type Layout } from "./layout";
import { edges, nodes, rates, stateOf } from "./live";
import { draw, type Box, type Drawing, type Plan, type Wire } from "./plan";
import { roots } from "./sessions";

/** What the reader has chosen: a node, or a stream. */
export type Selection = { kind: "node"; name: string } | { kind: "stream"; name: string } | null;

/** The least zoom, and the least at which names can be read. */
const LEAST = 0.1;
const LEAST_READABLE = 0.7;

/** The width, in pixels, of a place that is too narrow for a part of a drawing to say much. */
const NARROW = 600;

/** Where the name of a box begins, how far texts are from its right edge, and how they are written. */
const NAME_AT = 28;
const EDGE = 10;
const TITLE_FONT = { size: 12.5, weight: 600 };
const SOFT_FONT = { size: 11.5, weight: 400 };

interface Props {
  plan: Plan;
  closed: ReadonlySet<string>;
  toggle: (group: string) => void;
  selection: Selection;
  select: (selection: Selection) => void;
  /** Whether the states are those of the graph that is drawn: false for one that nobody serves. */
  live?: boolean;
}

export function Canvas(props: Props): JSX.Element {
  const drawing = useMemo(() => draw(props.plan, props.closed), [props.plan, props.closed]);
  const placed = useMemo(() => layout(drawing), [drawing]);
  const scroller = useRef<HTMLDivElement>(null);
  const [zoom, setZoom] = useState(1);
  const fit = (least: number): void => {
    const element = scroller.current;
    if (!element) return;
    const enough = element.clientWidth < NARROW ? LEAST : least;
    setZoom(Math.max(enough, Math.min(1.25, element.clientWidth / placed.width, element.clientHeight / placed.height)));
  };
  useLayoutEffect(() => fit(LEAST_READABLE), [props.plan]);
  return (
    <div class="canvas">
      <div class="scroller" ref={scroller} tabIndex={0} role="group" aria-label="Drawing of the graph">
        <svg width={placed.width * zoom} height={placed.height * zoom} viewBox={`0 0 ${placed.width} ${placed.height}`} role="group" aria-label={`${drawing.boxes.length} boxes and ${drawing.wires.length} wires`}>
          <defs>
            <marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" markerUnits="userSpaceOnUse" orient="auto-start-reverse">
              <path d="M0 0L8 4L0 8z" class="arrow" />
            </marker>
          </defs>
          <Groups drawing={drawing} placed={placed} toggle={props.toggle} />
          {drawing.wires.map((wire, index) => (
            <WireView key={wire.id} wire={wire} placed={placed} named={isFirst(drawing, index)} {...props} />
          ))}
          {drawing.boxes.map((box) => (
            <BoxView key={box.id} box={box} placed={placed} {...props} />
          ))}
        </svg>
      </div>
      <div class="zoom" role="group" aria-label="Zoom">
        <button type="button" aria-label="Smaller" onClick={() => setZoom(Math.max(LEAST, zoom / 1.25))}>
          −
        </button>
        <button type="button" onClick={() => fit(LEAST)}>
          Fit
        </button>
        <IconButton icon="plus" label="Larger" size={16} onClick={() => setZoom(Math.min(2, zoom * 1.25))} />
      </div>
    </div>
  );
}

/** A stream that many read is named once. */
function isFirst(drawing: Drawing, index: number): boolean {
  return drawing.wires.findIndex((wire) => wire.stream === drawing.wires[index]?.stream) === index;
}

function Groups({ drawing, placed, toggle }: { drawing: Drawing; placed: Layout; toggle: (group: string) => void }): JSX.Element {
  return (
    <>
      {drawing.groups.map((group) => {
        const at = placed.groups.get(group.id);
        if (!at) return null;
        return (
          <g key={group.id} class="group" transform={`translate(${at.x} ${at.y})`}>
            <rect width={at.width} height={at.height} rx="14" />
            <g class="closer" {...button(() => toggle(group.id))}>
              <title>Close the subgraph {group.type}</title>
              <rect x="8" y="4" width={group.type.length * 6.6 + 26} height="18" rx="6" />
              <text aria-hidden="true" x="16" y="17">
                − {group.type}
              </text>
            </g>
          </g>
        );
      })}
    </>
  );
}

function BoxView({ box, placed, toggle, selection, select, live = true }: Props & { box: Box; placed: Layout }): JSX.Element | null {
  const at = placed.boxes.get(box.id);
  if (!at) return null;
  if (box.kind === "input" || box.kind === "output") {
    const chosen = selection?.kind === "stream" && selection.name === box.title;
    return (
      <g class="box end" data-chosen={chosen} transform={`translate(${at.x} ${at.y})`} {...button(() => select({ kind: "stream", name: box.title }))}>
        <title>{`${box.title}, ${box.subtitle}: tap`}</title>
        <rect width={at.width} height={at.height} rx={at.height / 2} />
        <text aria-hidden="true" x={at.width / 2} y={20} text-anchor="middle">
          {cut(box.title, 19)}
        </text>
      </g>
    );
  }
  const state = live ? stateOf(box.nodes) : "idle";
  const calls = !live ? 0 : box.nodes.reduce((sum, name) => sum + (nodes.value.get(name)?.calls ?? 0), 0);
  const errors = !live ? 0 : box.nodes.reduce((sum, name) => sum + (nodes.value.get(name)?.errors ?? 0), 0);
  const reason = !live ? undefined : box.nodes.map((name) => roots.value.get(name)).find((found) => found !== undefined);
  const name = box.nodes[0] ?? "";
  const figure = calls > 0 ? compact(calls) : "";
  const taken = figure ? width(figure, SOFT_FONT) + EDGE : 0;
  const isGroup = box.kind === "group";
  const chosen = selection?.kind === "node" && selection.name === name;
  const label = `${isGroup ? "Subgraph" : "Node"} ${box.title}, ${box.subtitle}: ${state}, ${plural(calls, "call")}${errors > 0 ? `, ${plural(errors, "error")}` : ""}${reason ? `. Everything waits for it: ${reason}` : ""}`;
  return (
    <g
      class="box"
      data-state={state}
      data-root={reason !== undefined}
      data-chosen={chosen}
      transform={`translate(${at.x} ${at.y})`}
      {...button(() => (isGroup ? toggle(box.id) : select({ kind: "node", name })))}
    >
      <title>{isGroup ? `${label}. Open it` : label}</title>
      {isGroup && <rect class="behind" x="4" y="4" width={at.width} height={at.height} rx="10" />}
      <rect width={at.width} height={at.height} rx="10" />
      <circle class="lamp" cx="15" cy="18" r="4.5" />
      <text aria-hidden="true" x={NAME_AT} y="22">
        {fitted(box.title, at.width - NAME_AT - EDGE, TITLE_FONT)}
      </text>
      <text aria-hidden="true" class="soft" x={NAME_AT} y="39">
        {fitted(`${isGroup ? "+ " : ""}${box.subtitle.replace(/Calculator$/, "")}`, at.width - NAME_AT - EDGE - taken, SOFT_FONT)}
      </text>
      {figure && (
        <text aria-hidden="true" class="soft figure" x={at.width - EDGE} y="39" text-anchor="end">
          {figure}
        </text>
      )}
    </g>
  );
}

function WireView({ wire, placed, named, selection, select, live: isLive = true }: Props & { wire: Wire; placed: Layout; named: boolean }): JSX.Element | null {
  const route = placed.wires.get(wire.id);
  if (!route) return null;
  const keys = isLive ? wire.edges : [];
  const live = keys.flatMap((key) => edges.value.get(key) ?? []);
  const queued = live.reduce((sum, edge) => sum + edge.queued, 0);
  const bound = live.reduce((sum, edge) => sum + (edge.bound ?? 0), 0);
  const rate = keys.reduce((sum, key) => sum + (rates.value.get(key) ?? 0), 0);
  const chosen = selection?.kind === "stream" && selection.name === wire.stream;
  const path = line(route);
  const facts = [queued > 0 ? `${queued} queued` : "", rate > 0 ? `${count(rate)}/s` : ""].filter((fact) => fact !== "");
  const full = bound > 0 && queued >= bound;
  return (
    <g class="wire" data-back={wire.back} data-chosen={chosen} data-moving={rate > 0} data-full={full} {...button(() => select({ kind: "stream", name: wire.stream }))}>
      <title>{`Stream ${wire.stream}${wire.ty ? `, ${wire.ty}` : ""}${facts.length > 0 ? `, ${facts.join(", ")}` : ""}: tap`}</title>
      <path class="hit" d={path} />
      <path class="line" d={path} marker-end="url(#arrow)" />
      {(named || chosen || facts.length > 0) && (
        <text aria-hidden="true" x={route.label.x} y={route.label.y + 4} text-anchor="middle">
          {facts.length > 0 ? facts.join(" · ") : cut(short(wire.stream), MAX_LABEL)}
        </text>
      )}
    </g>
  );
}

/** What a name is inside of its subgraph. */
function short(name: string): string {
  return name.split("__").at(-1) ?? name;
}

function cut(text: string, most: number): string {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}

interface Pressable {
  role: "button";
  /** Attributes of drawings are written as they are, unlike those of other elements. */
  tabindex: number;
  onClick: () => void;
  onKeyDown: (event: KeyboardEvent) => void;
}

/** What makes a part of a drawing a button, for a mouse and a keyboard. Its `title` names it. */
function button(press: () => void): Pressable {
  return {
    role: "button",
    tabindex: 0,
    onClick: press,
    onKeyDown: (event: KeyboardEvent) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      press();
    },
  };
}
