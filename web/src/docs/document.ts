// The document of `/openapi.json`, as far as the page reads it.

import { send, type Side } from "../api/client";

export interface Schema {
  type?: string;
  enum?: unknown[];
  properties?: Record<string, Field>;
  required?: string[];
  /** Fields that no schema can describe. */
  "x-fields"?: Record<string, Field>;
}

interface Field {
  description?: string;
  type?: string;
  enum?: unknown[];
  /** What the field takes, in words. */
  "x-form"?: string;
}

export interface Parameter {
  name: string;
  in: "path" | "query";
  required: boolean;
  description?: string;
  schema: Schema;
  example?: unknown;
}

export interface Described {
  summary: string;
  description?: string;
  tags: string[];
  parameters?: Parameter[];
  requestBody?: { required?: boolean; content: Record<string, { schema?: Schema; example?: unknown }> };
  responses: Record<string, { description: string }>;
  /** What this server lacks for it, in a sentence. */
  "x-lacks"?: string;
}

export interface Document {
  info: { version: string; description: string };
  paths: Record<string, Record<string, Described>>;
}

/** A method of a path. */
export interface Operation {
  id: string;
  method: string;
  path: string;
  described: Described;
}

/** Parts of the document whose operations are for operators. */
const OF_OPERATORS = ["Graphs", "Models", "Server"];

/** The operations of each part, in the order of the document's paths. */
export function parts(document: Document): [name: string, operations: Operation[]][] {
  const found = new Map<string, Operation[]>();
  for (const [path, methods] of Object.entries(document.paths)) {
    for (const [method, described] of Object.entries(methods)) {
      const part = described.tags[0] ?? "";
      found.set(part, [...(found.get(part) ?? []), { id: `${method}-${path}`, method, path, described }]);
    }
  }
  const order = ["Generation", "Vectors", "Prompts", "Tensors", "Models", "Graphs", "Server"];
  const place = (name: string): number => (order.includes(name) ? order.indexOf(name) : order.length);
  return [...found].sort(([one], [other]) => place(one) - place(other));
}

export interface Body {
  /** The media type. */
  type: string;
  /** A body to begin with. */
  text: string;
  isRequired: boolean;
  /** The fields that it has to have. */
  required: string[];
}

/** The body of an operation; null where it takes none. */
export function bodyOf({ method, described }: Operation): Body | null {
  const { content = {}, required: isRequired = false } = described.requestBody ?? {};
  const json = content["application/json"];
  if (json) return { type: "application/json", text: JSON.stringify(json.example ?? {}, null, 2), isRequired, required: json.schema?.required ?? [] };
  const type = Object.keys(content)[0];
  if (type) return { type, text: "", isRequired, required: [] };
  return method === "post" || method === "put" ? { type: "application/json", text: "", isRequired, required: [] } : null;
}

/** The fields that a text leaves empty although the body has to have them. */
export function emptyFields({ required }: Body, text: string): string[] {
  try {
    const fields = JSON.parse(text) as Record<string, unknown>;
    return required.filter((name) => fields[name] === undefined || fields[name] === "");
  } catch {
    // The server says what is wrong with it.
    return [];
  }
}

/** Sends a request with the key that is for such, or else with the other one. */
export async function sendAny(path: string, part: string, init: RequestInit): Promise<Response> {
  const sides: [Side, Side] = OF_OPERATORS.includes(part) ? ["operator", "client"] : ["client", "operator"];
  const answer = await send(path, sides[0], init);
  return answer.status === 401 || answer.status === 403 ? send(path, sides[1], init) : answer;
}
