// A sentence of the server, in which names stand between backticks.

import type { JSX } from "preact";

export function Rich({ text }: { text: string }): JSX.Element {
  return (
    <>
      {text.split("`").map((part, index) => (index % 2 === 1 ? <code key={index}>{part}</code> : part))}
    </>
  );
}
