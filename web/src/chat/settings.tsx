// What a request says besides the messages.

import type { JSX } from "preact";
import { useEffect, useId, useState } from "preact/hooks";
import { post, Refused } from "../api/client";
import { Dialog } from "../ui/dialog";
import { Rich } from "../ui/rich";
import { body, wrongParameter } from "./body";
import { change, conversation, model } from "./store";
import { newMessage, NO_PARAMETERS, type Parameters } from "./tree";

const NUMBERS: [name: "temperature" | "top_p" | "top_k" | "max_tokens" | "seed", label: string, about: string][] = [
  ["temperature", "Temperature", "0 always takes the most likely token"],
  ["top_p", "Top p", "0 to 1"],
  ["top_k", "Top k", "0 for all tokens"],
  ["max_tokens", "Max tokens", "per answer"],
  ["seed", "Seed", "same seed, same answer"],
];

/** The values that the server uses where a request gives none. */
type Defaults = Record<string, { value: unknown } | undefined>;

/** Says what the server finds wrong with a chat that has this; null where it finds nothing, or does not say. */
async function refused(parameters: Parameters, system: string): Promise<string | null> {
  if (!model.value) return null;
  const question = { ...newMessage("user", null, model.value), content: "?" };
  const asked = body({ ...conversation.value, model: model.value, parameters, system }, [question]);
  try {
    const { ignored_fields: ignored = [] } = await post<{ ignored_fields?: string[] }>("/v3/chat/completions?explain=1", "client", asked);
    return ignored.length > 0 ? `The server does not know ${ignored.map((name) => `\`${name}\``).join(", ")}.` : null;
  } catch (error) {
    return error instanceof Refused && error.status === 400 ? error.message : null;
  }
}

/** What is entered takes effect with “Done”, and not if it is wrong. */
export function Settings({ close }: { close: () => void }): JSX.Element {
  const [system, stop, more] = [useId(), useId(), useId()];
  const [instructions, setInstructions] = useState(conversation.value.system);
  const [parameters, setParameters] = useState(conversation.value.parameters);
  const [problem, setProblem] = useState<string | null>(null);
  const [defaults, setDefaults] = useState<Defaults>({});
  const set = (changes: Partial<Parameters>): void => setParameters({ ...parameters, ...changes });
  useEffect(() => {
    if (!model.value) return;
    const asked = { model: model.value, messages: [{ role: "user", content: "?" }] };
    // A server that does not say leaves the fields empty.
    post<{ parameters?: Defaults }>("/v3/chat/completions?explain=1", "client", asked).then(
      (explained) => setDefaults(explained.parameters ?? {}),
      () => undefined,
    );
  }, [model.value]);
  const done = async (): Promise<void> => {
    const wrong = wrongParameter(parameters) ?? (await refused(parameters, instructions));
    setProblem(wrong);
    if (wrong !== null) return;
    change({ parameters, system: instructions });
    close();
  };
  return (
    <Dialog title="Instructions and parameters" close={close}>
      <label for={system}>System prompt</label>
      <textarea
        id={system}
        rows={3}
        placeholder="Instructions for the model"
        value={instructions}
        onInput={(event) => setInstructions(event.currentTarget.value)}
      />
      <div class="grid">
        {NUMBERS.map(([name, label, about]) => (
          <label key={name}>
            {label}
            <input inputMode="decimal" placeholder={shown(defaults[name])} value={parameters[name]} onInput={(event) => set({ [name]: event.currentTarget.value })} />
            <small>{about}</small>
          </label>
        ))}
      </div>
      <label for={stop}>Stop strings, one per line</label>
      <textarea id={stop} rows={2} value={parameters.stop} onInput={(event) => set({ stop: event.currentTarget.value })} />
      <label for={more}>Further fields of the request, as JSON</label>
      <textarea id={more} class="code" rows={4} spellcheck={false} placeholder={'{"tools": [], "response_format": {"type": "json_object"}}'} value={parameters.more} onInput={(event) => set({ more: event.currentTarget.value })} />
      <label class="check">
        <input type="checkbox" checked={parameters.logprobs} onChange={(event) => set({ logprobs: event.currentTarget.checked })} />
        Ask for the probabilities of tokens
      </label>
      {problem !== null && (
        <p class="bad" role="alert">
          <Rich text={problem} />
        </p>
      )}
      <footer>
        <button
          type="button"
          class="quiet"
          onClick={() => {
            setParameters(NO_PARAMETERS);
            setInstructions("");
          }}
        >
          Reset to defaults
        </button>
        <button type="button" class="primary" onClick={() => void done()}>
          Done
        </button>
      </footer>
    </Dialog>
  );
}

function shown(initial: { value: unknown } | undefined): string {
  if (initial === undefined) return "";
  // Of these, the seed alone can have no value.
  return `default: ${initial.value === null ? "random" : String(initial.value)}`;
}
