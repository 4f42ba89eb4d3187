// Requests to the server that the page came from, with the key of whoever looks at it.

import { apiKey, managementKey } from "../state/keys";
import { found, lost } from "../state/reach";

/** Whom a request is for: clients of models, or operators. */
export type Side = "client" | "operator";

/** A request that was not answered as it should be. */
export class Refused extends Error {
  constructor(
    /** The HTTP status; 0 where there was no answer. */
    readonly status: number,
    message: string,
    /** The server's id of the request, as its log has it. */
    readonly requestId: string | null = null,
    /** The rest of the answer, where it was JSON. */
    readonly body: unknown = null,
  ) {
    super(message);
  }
}

/** The error that the page keeps of the last requests that failed, newest first. */
export interface Failed {
  at: number;
  method: string;
  path: string;
  status: number;
  message: string;
  requestId: string | null;
}

type Listener = (failed: Failed) => void;
const listeners = new Set<Listener>();

/** Calls `listener` with every request of this page that fails. */
export function onFailure(listener: Listener): void {
  listeners.add(listener);
}

/** Sends a request; throws `Refused` where there is no answer. */
export async function send(path: string, side: Side, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers);
  const key = side === "operator" ? managementKey.value || apiKey.value : apiKey.value || managementKey.value;
  if (key) headers.set("authorization", `Bearer ${key}`);
  try {
    const answer = await fetch(path, { ...init, headers });
    found();
    return answer;
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    lost();
    throw tell(init.method, path, new Refused(0, "The server does not answer. It may have stopped, or the network is down."));
  }
}

/** Sends a request; throws `Refused` for any status that is not a success, too. */
export async function request(path: string, side: Side, init: RequestInit = {}): Promise<Response> {
  const answer = await send(path, side, init);
  if (answer.ok) return answer;
  throw tell(init.method, path, await refusal(answer, side));
}

/** Gets JSON. */
export async function get<T>(path: string, side: Side, signal?: AbortSignal): Promise<T> {
  const answer = await request(path, side, { signal: signal ?? null });
  return (await answer.json()) as T;
}

/** Sends JSON and gets JSON. */
export async function post<T>(path: string, side: Side, body: unknown, signal?: AbortSignal): Promise<T> {
  const answer = await request(path, side, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
    signal: signal ?? null,
  });
  return (await answer.json()) as T;
}

function tell(method = "GET", path: string, refused: Refused): Refused {
  // What the page asks only to see whether it is there is no failure.
  if (refused.status !== 404) {
    const failed = { at: Date.now(), method, path, status: refused.status, message: refused.message, requestId: refused.requestId };
    for (const listener of listeners) listener(failed);
  }
  return refused;
}

async function refusal(answer: Response, side: Side): Promise<Refused> {
  const text = await answer.text();
  let body: unknown = null;
  let said = "";
  try {
    body = JSON.parse(text);
    said = messageOf(body);
  } catch {
    said = text.slice(0, 300);
  }
  return new Refused(answer.status, inWords(answer.status, said, side), answer.headers.get("x-request-id"), body);
}

function messageOf(body: unknown): string {
  if (typeof body !== "object" || body === null || !("error" in body)) return "";
  const { error } = body;
  if (typeof error === "string") return error;
  if (typeof error === "object" && error !== null && "message" in error) return String(error.message);
  return "";
}

function inWords(status: number, said: string, side: Side): string {
  const which = side === "operator" ? "a management key (scope `metrics` or `admin`)" : "an API key (scope `infer`)";
  if (status === 401) return `This server asks for ${which}. Enter it under “Keys”${said ? `. It said: ${said}` : ""}.`;
  if (status === 403) return `Not allowed${said ? `: ${said}` : ""}. This takes ${which}.`;
  return said || `The server answered with status ${status}.`;
}

/** Whether the server did not answer, which the page says for all its parts at once. */
export function isLost(error: unknown): boolean {
  return error instanceof Refused && error.status === 0;
}

/** The words of any error. */
export function words(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** Whether a route is not there: an older server, or one that does not serve it at this port. */
export function isMissing(error: unknown): boolean {
  return error instanceof Refused && (error.status === 404 || error.status === 405);
}
