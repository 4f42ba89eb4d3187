// A node: what it is, what it does, what it is connected to.

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { get } from "../api/client";
import { Markdown } from "../ui/markdown";
import { count, duration } from "../ui/numbers";
import { Rich } from "../ui/rich";
import { edges, nodes } from "./live";
import { edgeOf, type PlanNode, type Port } from "./plan";
import { roots } from "./sessions";

/** What `/v3/calculators/{name}` says, as far as it is shown. */
interface Described {
  doc: string;
  /** A JSON schema. */
  options?: { properties?: Record<string, Option> } | null;
}

interface Option {
  type?: string | string[];
  default?: unknown;
  description?: string;
}

export function NodePanel({ node, tap }: { node: PlanNode; tap: (stream: string) => void }): JSX.Element {
  const live = nodes.value.get(node.name);
  const states = Object.entries(live?.states ?? {}).filter(([, sessions]) => sessions > 0);
  const reason = roots.value.get(node.name);
  return (
    <div class="panel-body">
      <p class="hint">
        <code>{node.calculator}</code>
        {node.within.length > 0 && ` in ${node.within.join(", ")}`}
      </p>
      {reason && <p class="bad">Everything waits for it: <Rich text={reason} /></p>}
      <dl class="facts">
        <dt>Now</dt>
        <dd>{states.length > 0 ? states.map(([state, sessions]) => `${state} in ${sessions}`).join(", ") : "no session has it"}</dd>
        {live && (
          <>
            <dt>Calls</dt>
            <dd>
              {count(live.calls)}, {count(live.errors)} failed
            </dd>
            <dt>Busy</dt>
            <dd>
              {duration(live.busy_us / 1000)}
              {live.calls > 0 && `, ${duration(live.busy_us / live.calls / 1000)} a call`}
            </dd>
          </>
        )}
        <dt>Written at</dt>
        <dd>
          <code>{node.place}</code>
        </dd>
        <dt>Runs</dt>
        <dd>
          {node.runs}, when its policy {node.policy} has inputs
        </dd>
      </dl>
      {node.options && (
        <>
          <h3>Options as written</h3>
          <pre class="written">{node.options}</pre>
        </>
      )}
      <Ports title="Inputs" ports={node.inputs} node={node.name} tap={tap} />
      <Ports title="Outputs" ports={node.outputs} tap={tap} />
      <Ports title="Side packets" ports={[...node.side_inputs, ...node.side_outputs]} />
      <Documentation key={node.calculator} calculator={node.calculator} />
    </div>
  );
}

function Ports({ title, ports, node, tap }: { title: string; ports: Port[]; node?: string; tap?: (stream: string) => void }): JSX.Element | null {
  if (ports.length === 0) return null;
  return (
    <>
      <h3>{title}</h3>
      <ul class="ports">
        {ports.map((port) => {
          const edge = node === undefined ? undefined : edges.value.get(edgeOf(node, port));
          return (
            <li key={`${port.port} ${port.name}`}>
              <span>
                {port.port && <strong>{port.port} </strong>}
                {port.name}
                {port.back_edge && " (back edge)"}
                <small> {port.ty}</small>
              </span>
              {edge && (
                <small>
                  {edge.queued}
                  {edge.bound ? ` of ${edge.bound}` : ""} queued, {count(edge.packets)} in all
                </small>
              )}
              {tap && (
                <button type="button" class="quiet small" aria-label={`Tap ${port.name}`} onClick={() => tap(port.name)}>
                  Tap
                </button>
              )}
            </li>
          );
        })}
      </ul>
    </>
  );
}

function Documentation({ calculator }: { calculator: string }): JSX.Element | null {
  const [described, setDescribed] = useState<Described | null>(null);
  useEffect(() => {
    // A server that does not describe its nodes leaves this part out.
    get<Described>(`/v3/calculators/${encodeURIComponent(calculator)}`, "operator").then(setDescribed, () => setDescribed(null));
  }, []);
  if (!described) return null;
  const options = Object.entries(described.options?.properties ?? {});
  return (
    <>
      <h3>What it does</h3>
      <Markdown text={described.doc} />
      {options.length > 0 && (
        <>
          <h3>Options it can have</h3>
          <dl class="options">
            {options.map(([name, option]) => (
              <OptionView key={name} name={name} option={option} />
            ))}
          </dl>
        </>
      )}
    </>
  );
}

function OptionView({ name, option }: { name: string; option: Option }): JSX.Element {
  const initial = option.default === undefined || option.default === null ? "" : `, ${JSON.stringify(option.default)} if it is not given`;
  return (
    <>
      <dt>
        <code>{name}</code>
      </dt>
      <dd>
        {option.description && <Rich text={option.description} />}{" "}
        <small>
          {[option.type ?? []].flat().filter((type) => type !== "null").join(", ")}
          {initial}
        </small>
      </dd>
    </>
  );
}
