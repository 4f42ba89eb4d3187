// What a request says besides the messages.

import type { JSX } from "preact";
import { useId } from "preact/hooks";
import { Dialog } from "../ui/dialog";
import { change, conversation } from "./store";
import { NO_PARAMETERS, type Parameters } from "./tree";

const NUMBERS: [name: "temperature" | "top_p" | "top_k" | "max_tokens" | "seed", label: string, about: string][] = [
  ["temperature", "Temperature", "0 takes the likeliest token"],
  ["top_p", "Top p", "from 0 to 1"],
  ["top_k", "Top k", "a number of tokens"],
  ["max_tokens", "Most tokens", "of an answer"],
  ["seed", "Seed", "the same seed, the same answer"],
];

export function Settings({ close }: { close: () => void }): JSX.Element {
  const [system, stop, more] = [useId(), useId(), useId()];
  const { parameters } = conversation.value;
  const set = (changes: Partial<Parameters>): void => change({ parameters: { ...conversation.value.parameters, ...changes } });
  return (
    <Dialog title="Instructions and parameters" close={close}>
      <label for={system}>System prompt</label>
      <textarea
        id={system}
        rows={3}
        placeholder="What the model is told before the conversation"
        value={conversation.value.system}
        onInput={(event) => change({ system: event.currentTarget.value })}
      />
      <div class="grid">
        {NUMBERS.map(([name, label, about]) => (
          <label key={name}>
            {label}
            <input inputMode="decimal" placeholder="the server's" title={about} value={parameters[name]} onInput={(event) => set({ [name]: event.currentTarget.value })} />
            <small>{about}</small>
          </label>
        ))}
      </div>
      <label for={stop}>Stop strings, one a line</label>
      <textarea id={stop} rows={2} value={parameters.stop} onInput={(event) => set({ stop: event.currentTarget.value })} />
      <label for={more}>Further fields of the request, as JSON</label>
      <textarea id={more} class="code" rows={4} spellcheck={false} placeholder={'{"tools": [], "response_format": {"type": "json_object"}}'} value={parameters.more} onInput={(event) => set({ more: event.currentTarget.value })} />
      <label class="check">
        <input type="checkbox" checked={parameters.logprobs} onChange={(event) => set({ logprobs: event.currentTarget.checked })} />
        Ask for the probabilities of tokens
      </label>
      <footer>
        <button type="button" class="quiet" onClick={() => change({ parameters: NO_PARAMETERS, system: "" })}>
          Back to the server's own
        </button>
        <button type="button" class="primary" onClick={close}>
          Done
        </button>
      </footer>
    </Dialog>
  );
}
