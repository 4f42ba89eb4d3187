// An operation: what it takes, what it answers, and a form that sends it.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { Rich } from "../ui/rich";
import type { Operation } from "./document";
import { TryIt } from "./try";

export function OperationView({ operation, part }: { operation: Operation; part: string }): JSX.Element {
  const { id, method, path, described } = operation;
  const [isOpen, open] = useState(decodeURIComponent(location.hash.slice(1)) === id);
  return (
    <details id={id} class="operation" open={isOpen} onToggle={(event) => open(event.currentTarget.open)}>
      <summary>
        <span class="method" data-method={method}>
          {method}
        </span>
        <code>{path}</code>
        <span class="hint">
          <Rich text={described.summary} />
        </span>
      </summary>
      {isOpen && (
        <div class="inside">
          {described.description && (
            <p class="hint">
              <Rich text={described.description} />
            </p>
          )}
          <TryIt operation={operation} part={part} />
          <Fields operation={operation} />
          <Table
            name="Answers"
            head={["Status", "Meaning"]}
            rows={Object.entries(described.responses).map(([status, { description }]) => [<code>{status}</code>, <Rich text={description} />])}
          />
        </div>
      )}
    </details>
  );
}

function Fields({ operation }: { operation: Operation }): JSX.Element | null {
  const schema = operation.described.requestBody?.content["application/json"]?.schema;
  const fields = Object.entries({ ...schema?.properties, ...schema?.["x-fields"] });
  if (fields.length === 0) return null;
  const required = new Set(schema?.required);
  const rows = fields.map(([name, field]) => [
    <>
      <code>{name}</code>
      {required.has(name) && <small> required</small>}
    </>,
    <Rich text={field["x-form"] ?? (field.enum ? field.enum.map((each) => `\`${each}\``).join(", ") : (field.type ?? ""))} />,
    <Rich text={field.description ?? ""} />,
  ]);
  return <Table name="Fields of the body" head={["Field", "Takes", "Meaning"]} rows={rows} />;
}

function Table({ name, head, rows }: { name: string; head: string[]; rows: JSX.Element[][] }): JSX.Element {
  return (
    <div class="scroll" tabIndex={0} role="group" aria-label={name}>
      <table>
        <thead>
          <tr>
            {head.map((each) => (
              <th key={each} scope="col">
                {each}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row, at) => (
            <tr key={at}>
              {row.map((cell, index) => (
                <td key={index}>{cell}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
