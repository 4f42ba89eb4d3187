// Where keys are entered.

import type { JSX } from "preact";
import { useId } from "preact/hooks";
import { apiKey, asksForKeys, managementKey } from "../state/keys";
import { readModels } from "../state/models";
import { Dialog } from "./dialog";

export function KeysDialog(): JSX.Element {
  const [forModels, forOperators] = [useId(), useId()];
  const close = (): void => {
    asksForKeys.value = false;
    void readModels();
  };
  return (
    <Dialog title="Keys" close={close}>
      <p class="hint">A server that was started with keys asks for them. They stay in this tab until it is closed, and are sent to this server alone.</p>
      <label for={forModels}>API key, for chats</label>
      <input id={forModels} type="password" autocomplete="off" value={apiKey.value} onInput={(event) => (apiKey.value = event.currentTarget.value.trim())} />
      <label for={forOperators}>Management key, for graphs, the playground and the server</label>
      <input id={forOperators} type="password" autocomplete="off" value={managementKey.value} onInput={(event) => (managementKey.value = event.currentTarget.value.trim())} />
      <p class="hint">With one key for both, either field does.</p>
      <footer>
        <button
          type="button"
          class="quiet"
          onClick={() => {
            apiKey.value = "";
            managementKey.value = "";
          }}
        >
          Forget both
        </button>
        <button type="button" class="primary" onClick={close}>
          Done
        </button>
      </footer>
    </Dialog>
  );
}
