// A text token by token: how sure the model was of each, and what else it could have said.

import type { JSX } from "preact";
import type { TokenLogprob } from "../api/types";
import { percent } from "../ui/numbers";

export function Tokens({ tokens }: { tokens: TokenLogprob[] }): JSX.Element {
  return (
    <div class="tokens">
      {tokens.map((token, index) => (
        <span key={index} class="token" tabIndex={0} data-sure={surety(Math.exp(token.logprob))}>
          {token.token}
          <span class="chances" role="tooltip">
            {token.top_logprobs.map((chance) => (
              <span key={chance.token} class={chance.token === token.token ? "chosen" : ""}>
                <code>{shown(chance.token)}</code> {percent(Math.exp(chance.logprob))}
              </span>
            ))}
          </span>
        </span>
      ))}
    </div>
  );
}

function surety(chance: number): string {
  if (chance >= 0.9) return "high";
  return chance >= 0.5 ? "middle" : "low";
}

/** White space that can be seen. */
function shown(token: string): string {
  return token.replaceAll("\n", "⏎").replaceAll(" ", "␣") || "∅";
}
