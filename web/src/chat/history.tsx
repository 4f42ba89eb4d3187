// The conversations that this browser keeps.

import type { JSX } from "preact";
import { Icon, IconButton } from "../ui/icons";
import { begin, conversation, conversations, keepingFails, remove, show } from "./store";

export function History({ done }: { done: () => void }): JSX.Element {
  return (
    <aside class="history" aria-label="Conversations">
      <button
        type="button"
        class="new"
        onClick={() => {
          begin();
          done();
        }}
      >
        <Icon name="plus" /> New chat
      </button>
      {conversations.value.length === 0 && <p class="hint">Conversations are kept in this browser, and nowhere else.</p>}
      <ul>
        {conversations.value.map((each) => (
          <li key={each.id} data-shown={each.id === conversation.value.id}>
            <button
              type="button"
              aria-current={each.id === conversation.value.id}
              onClick={() => {
                show(each);
                done();
              }}
            >
              {each.title || "An image"}
            </button>
            <IconButton icon="trash" label={`Delete “${each.title}”`} size={15} onClick={() => void remove(each.id)} />
          </li>
        ))}
      </ul>
      {keepingFails.value && <p class="hint">Conversations are not kept: {keepingFails.value}</p>}
    </aside>
  );
}
