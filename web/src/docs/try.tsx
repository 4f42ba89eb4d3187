// A form that sends a request and shows the answer as it comes.

import type { JSX } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { words } from "../api/client";
import { disabledBy } from "../ui/disabled";
import { Rich } from "../ui/rich";
import { bodyOf, emptyFields, sendAny, type Operation, type Parameter } from "./document";

interface Answer {
  status: string;
  text: string;
}

export function TryIt({ operation, part }: { operation: Operation; part: string }): JSX.Element {
  const field = useId();
  const begin = bodyOf(operation);
  const parameters = operation.described.parameters ?? [];
  const [values, setValues] = useState<Record<string, string>>(() => Object.fromEntries(parameters.map((each) => [each.name, each.required ? String(each.schema.enum?.[0] ?? each.example ?? "") : ""])));
  const [body, setBody] = useState(begin?.text ?? "");
  const [answer, setAnswer] = useState<Answer | null>(null);
  const [sending, setSending] = useState<AbortController | null>(null);
  const last = useRef<AbortController | null>(null);
  useEffect(() => () => last.current?.abort(), []);
  const empty = begin ? emptyFields(begin, body) : [];
  const lacking = parameters.filter((each) => each.required && !values[each.name]).map((each) => each.name);
  if (begin?.isRequired && body.trim() === "") lacking.push("Body");
  lacking.push(...empty);
  const reason = sending ? "An answer is on its way" : lacking.length > 0 ? `Fill in ${lacking.join(", ")}: required` : null;
  const lacks = operation.described["x-lacks"];
  const send = async (): Promise<void> => {
    const ending = new AbortController();
    last.current = ending;
    setSending(ending);
    setAnswer({ status: "…", text: "" });
    try {
      const init: RequestInit = { method: operation.method.toUpperCase(), signal: ending.signal };
      if (begin && body) {
        init.body = body;
        init.headers = { "content-type": begin.type };
      }
      const response = await sendAny(address(operation, values), part, init);
      const status = `${response.status} ${response.statusText}`;
      let text = "";
      const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
      for (let piece = await reader?.read(); piece && !piece.done; piece = await reader?.read()) {
        text += piece.value;
        setAnswer({ status, text });
      }
      setAnswer({ status, text: pretty(text) });
    } catch (error) {
      // What came before it was stopped stays.
      if (!ending.signal.aborted) setAnswer({ status: words(error), text: "" });
    }
    setSending(null);
  };
  return (
    <form
      class="try-it"
      aria-label={`Try ${operation.method} ${operation.path}`}
      onSubmit={(event) => {
        event.preventDefault();
        void send();
      }}
    >
      {lacks && <p role="note">{lacks}</p>}
      {parameters.map((each) => (
        <ParameterView key={each.name} parameter={each} value={values[each.name] ?? ""} set={(value) => setValues((before) => ({ ...before, [each.name]: value }))} />
      ))}
      {begin && (
        <>
          <label for={field}>
            {begin.isRequired ? "Body" : "Body, if any"}
            {begin.isRequired && <small> required</small>}
          </label>
          <textarea id={field} required={begin.isRequired} class="code" rows={Math.min(16, Math.max(2, body.split("\n").length))} spellcheck={false} value={body} onInput={(event) => setBody(event.currentTarget.value)} />
        </>
      )}
      {empty.length > 0 && (
        <p class="hint">
          <Rich text={`Fill in ${empty.map((name) => `\`${name}\``).join(", ")}: required.`} />
        </p>
      )}
      <footer>
        <button type="submit" class="primary" {...disabledBy(reason)}>
          Send
        </button>
        {sending && (
          <button type="button" onClick={() => sending.abort()}>
            Stop
          </button>
        )}
      </footer>
      {answer && (
        <figure class="code" aria-label="Answer">
          <figcaption>
            <p role="status">{answer.status}</p>
          </figcaption>
          <pre tabIndex={0}>{answer.text}</pre>
        </figure>
      )}
    </form>
  );
}

function ParameterView({ parameter, value, set }: { parameter: Parameter; value: string; set: (value: string) => void }): JSX.Element {
  const list = useId();
  const choices = parameter.schema.enum ?? (parameter.schema.type === "boolean" ? [true, false] : []);
  return (
    <label>
      <span>
        <code>{parameter.name}</code>
        <small>{[parameter.required ? " required" : "", parameter.description ?? ""].join(" ").trimEnd()}</small>
      </span>
      <input required={parameter.required} value={value} list={choices.length > 0 ? list : undefined} onInput={(event) => set(event.currentTarget.value)} />
      {choices.length > 0 && (
        <datalist id={list}>
          {choices.map((each) => (
            <option key={String(each)} value={String(each)} />
          ))}
        </datalist>
      )}
    </label>
  );
}

function address({ path, described }: Operation, values: Record<string, string>): string {
  const query = new URLSearchParams();
  let full = path;
  for (const each of described.parameters ?? []) {
    const value = values[each.name] ?? "";
    if (each.in === "path") full = full.replace(`{${each.name}}`, encodeURIComponent(value));
    else if (value) query.set(each.name, value);
  }
  return query.size > 0 ? `${full}?${query}` : full;
}

function pretty(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
