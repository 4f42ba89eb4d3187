// A message: its text, what can be done with it, and its branches.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { Copy } from "../ui/copy";
import { disabledBy } from "../ui/disabled";
import { Icon, IconButton } from "../ui/icons";
import { count, duration } from "../ui/numbers";
import { Code, Markdown } from "../ui/markdown";
import { again, answering, ask, change, conversation } from "./store";
import { Tokens } from "./tokens";
import { siblings, withShown, type Message, type Stats } from "./tree";

export function MessageView({ message, isLast }: { message: Message; isLast: boolean }): JSX.Element {
  const coming = isLast && answering.value;
  return message.role === "user" ? <Question message={message} /> : <Answer message={message} coming={coming} />;
}

function Question({ message }: { message: Message }): JSX.Element {
  const [edited, edit] = useState<string | null>(null);
  if (edited !== null) {
    const send = (): void => {
      edit(null);
      void ask(edited, message.images, message);
    };
    return (
      <article class="message user" aria-label="Question, being edited">
        <form
          class="edit"
          onSubmit={(event) => {
            event.preventDefault();
            send();
          }}
        >
          <textarea
            aria-label="Question"
            value={edited}
            rows={Math.min(12, edited.split("\n").length + 1)}
            onInput={(event) => edit(event.currentTarget.value)}
            ref={(element) => element?.focus()}
          />
          <footer>
            <button type="button" class="quiet" onClick={() => edit(null)}>
              Cancel
            </button>
            <button type="submit" class="primary" {...disabledBy(edited.trim() ? null : "Write a question first")}>
              Ask on a new branch
            </button>
          </footer>
        </form>
      </article>
    );
  }
  return (
    <article class="message user" aria-label="Question">
      {message.images.map((image) => (
        <img key={image} src={image} alt="Image of the question" />
      ))}
      <div class="text">{message.content}</div>
      <div class="actions">
        <Branches message={message} />
        <IconButton icon="edit" label="Edit, on a new branch" size={16} onClick={() => edit(message.content)} />
        <Copy text={() => message.content} />
      </div>
    </article>
  );
}

function Answer({ message, coming }: { message: Message; coming: boolean }): JSX.Element {
  const [asTokens, setAsTokens] = useState(false);
  const empty = !message.content && !message.reasoning && message.toolCalls.length === 0;
  return (
    <article class="message assistant" aria-label={`Answer of ${message.model}`} aria-busy={coming}>
      {message.reasoning && (
        <details class="reasoning" open={coming && !message.content}>
          <summary>
            <Icon name="down" size={16} /> {coming && !message.content ? "Reasoning …" : "Reasoning"}
          </summary>
          <div class="text">{message.reasoning}</div>
        </details>
      )}
      {coming && empty && (
        <div class="waiting" role="status">
          <span>The model reads</span>
        </div>
      )}
      {asTokens ? <Tokens tokens={message.logprobs} /> : message.content && <Markdown text={message.content} />}
      {message.toolCalls.map((call) => (
        <section key={call.id} class="tool-call" aria-label={`Call of ${call.name}`}>
          <h3>
            <Icon name="tool" size={16} /> Call of <code>{call.name}</code>
          </h3>
          <Code text={pretty(call.arguments)} language="arguments" />
        </section>
      ))}
      {message.error && (
        <div class="problem" role="alert">
          <p>{message.error}</p>
          {message.stats?.requestId && <p class="hint">Request {message.stats.requestId}</p>}
        </div>
      )}
      {message.stats?.ignored && <p class="hint">Fields without effect: {message.stats.ignored}</p>}
      {message.stopped && <p class="hint">You stopped this answer.</p>}
      {!coming && (
        <div class="actions">
          <Branches message={message} />
          <IconButton icon="again" label="Another answer, on a new branch" size={16} onClick={() => void again(message)} />
          <Copy text={() => message.content} />
          {message.logprobs.length > 0 && (
            <button type="button" class="quiet small" aria-pressed={asTokens} onClick={() => setAsTokens(!asTokens)}>
              Tokens
            </button>
          )}
          {message.stats && <Figures stats={message.stats} />}
        </div>
      )}
    </article>
  );
}

/** What the server measured. The browser's clock says nothing of a short answer, which comes in one piece. */
function Figures({ stats }: { stats: Stats }): JSX.Element {
  const { usage, timings, finish } = stats;
  const prompt = usage?.prompt_tokens ?? timings?.prompt_tokens;
  const generated = usage?.completion_tokens ?? timings?.generated_tokens;
  const cached = usage?.prompt_tokens_details?.cached_tokens ?? timings?.cached_tokens ?? 0;
  const rate = timings?.decode_ms && generated && generated > 1 ? ((generated - 1) / timings.decode_ms) * 1000 : null;
  return (
    <ul class="figures">
      {timings?.ttft_ms !== undefined && <li title="From the request to the first part of the answer, on the server">{duration(timings.ttft_ms)} to first token</li>}
      {rate !== null && <li title="From the first token to the last, on the server">{count(rate)} tokens/s</li>}
      {prompt !== undefined && generated !== undefined && (
        <li title={`${count(cached)} of the prompt's tokens were reused`}>
          {count(prompt)} + {count(generated)} tokens
        </li>
      )}
      {finish === "length" && <li>Stopped at max tokens</li>}
    </ul>
  );
}

/** Goes to the branches beside a message. */
function Branches({ message }: { message: Message }): JSX.Element | null {
  const all = siblings(conversation.value, message.parent);
  const at = all.findIndex((each) => each.id === message.id);
  if (all.length < 2) return null;
  const show = (index: number): void => {
    const other = all[index];
    if (other) change({ shown: withShown(conversation.value, other).shown });
  };
  const waits = answering.value ? "An answer is on its way" : null;
  return (
    <div class="branches" role="group" aria-label="Branches">
      <IconButton icon="left" label="Branch before" size={16} disabled={at === 0 ? "This is the first branch" : waits} onClick={() => show(at - 1)} />
      <span aria-live="polite">
        {at + 1} / {all.length}
      </span>
      <IconButton icon="right" label="Branch after" size={16} disabled={at === all.length - 1 ? "This is the last branch" : waits} onClick={() => show(at + 1)} />
    </div>
  );
}

function pretty(json: string): string {
  try {
    return JSON.stringify(JSON.parse(json), null, 2);
  } catch {
    return json;
  }
}
