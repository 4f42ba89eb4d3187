// A conversation as a program: what asks the same of the same server.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { words } from "../api/client";
import { Dialog } from "../ui/dialog";
import { body } from "./body";
import { Code } from "../ui/markdown";
import { conversation, model } from "./store";
import { path, type Conversation } from "./tree";

type Form = "curl" | "Python" | "JSON";

export function Export({ close }: { close: () => void }): JSX.Element {
  const [form, setForm] = useState<Form>("curl");
  let text: string;
  try {
    text = exported({ ...conversation.value, model: model.value }, form, location.origin);
  } catch (error) {
    text = words(error);
  }
  return (
    <Dialog title="Ask the same from a program" close={close} wide>
      <div class="choices" role="group" aria-label="Form">
        {(["curl", "Python", "JSON"] as const).map((each) => (
          <button key={each} type="button" aria-pressed={each === form} onClick={() => setForm(each)}>
            {each}
          </button>
        ))}
      </div>
      <Code text={text} language={form} />
      <p class="hint">Keys are not in it: where the server asks for one, the program takes it from the environment.</p>
    </Dialog>
  );
}

/** What asks for the last answer of the branch that is shown. */
export function exported(of: Conversation, form: Form, origin: string): string {
  const messages = path(of);
  const last = messages.at(-1);
  const fields = body(of, last?.role === "assistant" ? messages.slice(0, -1) : messages);
  const json = JSON.stringify(fields, null, 2);
  if (form === "JSON") return json;
  if (form === "curl") {
    const quoted = json.replaceAll("'", `'\\''`);
    return `curl -N ${origin}/v3/chat/completions \\\n  -H 'content-type: application/json' \\\n  -H "authorization: Bearer $GRAPHMILL_API_KEY" \\\n  -d '${quoted}'`;
  }
  return `import json
import os

from openai import OpenAI

client = OpenAI(base_url=${JSON.stringify(`${origin}/v3`)}, api_key=os.environ.get("GRAPHMILL_API_KEY", "unused"))
body = json.loads(${pythonString(json)})
names = ("model", "messages", "stream")
chunks = client.chat.completions.create(
    **{name: body.pop(name) for name in names},
    extra_body=body,
)
for chunk in chunks:
    if chunk.choices:
        print(chunk.choices[0].delta.content or "", end="", flush=True)
print()`;
}

/** A raw string where nothing in the text ends it, else one with escapes. */
function pythonString(text: string): string {
  return text.includes("'''") || text.endsWith("'") ? JSON.stringify(text) : `r'''${text}'''`;
}
