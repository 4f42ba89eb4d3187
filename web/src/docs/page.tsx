// The documentation of the API: every operation, and a form that calls it.

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { words } from "../api/client";
import icon from "../icon.svg";
import { apiKey, asksForKeys, hasKey, managementKey } from "../state/keys";
import { gone } from "../state/reach";
import { KeysDialog } from "../ui/keys-dialog";
import { IconButton } from "../ui/icons";
import { Problem } from "../ui/note";
import { Rich } from "../ui/rich";
import { ThemeButton } from "../ui/theme-button";
import { parts, sendAny, type Document } from "./document";
import { OperationView } from "./operation";

export function Docs(): JSX.Element {
  const [document, setDocument] = useState<Document | null>(null);
  const [problem, setProblem] = useState("");
  const [wanted, setWanted] = useState("");
  const read = async (): Promise<void> => {
    try {
      const answer = await sendAny("/openapi.json", "Server", {});
      if (answer.status === 401) return setProblem("This server asks for a key. Enter it under “Keys”.");
      if (!answer.ok) return setProblem(`/openapi.json: the server answered with status ${answer.status}.`);
      setDocument((await answer.json()) as Document);
      setProblem("");
    } catch (error) {
      setProblem(words(error));
    }
  };
  useEffect(() => void read(), [apiKey.value, managementKey.value]);
  useEffect(() => {
    // A link such as /docs#post-/v3/completions shows one operation.
    const linked = decodeURIComponent(location.hash.slice(1));
    if (document && linked) window.document.getElementById(linked)?.scrollIntoView();
  }, [document]);
  const shown = document ? parts(document) : [];
  const fits = (text: string): boolean => text.toLowerCase().includes(wanted.trim().toLowerCase());
  return (
    <>
      <header class="bar">
        <a class="mark" href="/">
          <img src={icon} width="24" height="24" alt="" />
          Graphmill
        </a>
        <div class="tools">
          <IconButton icon="key" label={hasKey.value ? "Keys: entered" : "Keys"} onClick={() => (asksForKeys.value = true)} />
          <ThemeButton />
        </div>
      </header>
      <main>
        <div class="page docs">
          <header class="page-head">
            <h1>API</h1>
            {document && (
              <p class="hint">
                Graphmill {document.info.version}. {document.info.description} <a href="/openapi.json">openapi.json</a>
              </p>
            )}
          </header>
          {!document && !problem && <p class="hint">Reading /openapi.json …</p>}
          {problem && !gone.value && <Problem again={() => void read()}>{problem}</Problem>}
          {gone.value && <Problem again={() => void read()}>The server does not answer. It may have stopped, or the network is down.</Problem>}
          {document && <input type="search" aria-label="Find operations" placeholder="Find operations" value={wanted} onInput={(event) => setWanted(event.currentTarget.value)} />}
          {shown.map(([part, operations]) => {
            const found = operations.filter(({ method, path, described }) => fits(`${method} ${path} ${described.summary}`));
            return (
              found.length > 0 && (
                <section key={part} aria-label={part}>
                  <h2>{part}</h2>
                  {found.map((operation) => (
                    <OperationView key={operation.id} operation={operation} part={part} />
                  ))}
                </section>
              )
            );
          })}
          {document && shown.length > 0 && !shown.some(([, all]) => all.some(({ method, path, described }) => fits(`${method} ${path} ${described.summary}`))) && (
            <p class="hint">
              <Rich text={`No operation has \`${wanted}\` in its path or its description.`} />
            </p>
          )}
        </div>
      </main>
      {asksForKeys.value && <KeysDialog />}
    </>
  );
}
