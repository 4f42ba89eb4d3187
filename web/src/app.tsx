// The frame: tabs, and what is shown in them. A tab's code is loaded when it is first opened.

import type { ComponentType, JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { words } from "./api/client";
import { asksForKeys, hasKey } from "./state/keys";
import { readModels } from "./state/models";
import { ask, gone, returns } from "./state/reach";
import { address, TABS, tab, type Tab } from "./state/route";
import { stored } from "./state/stored";
import { Icon } from "./ui/icons";
import { KeysDialog } from "./ui/keys-dialog";
import { Problem } from "./ui/note";
import { ThemeButton } from "./ui/theme-button";

const NAMES: Record<Tab, string> = { chat: "Chat", graph: "Graph", playground: "Playground", server: "Server" };

const LOADERS: Record<Tab, () => Promise<{ default: ComponentType }>> = {
  chat: () => import("./chat/tab"),
  graph: () => import("./graph/tab"),
  playground: () => import("./playground/tab"),
  server: () => import("./server/tab"),
};

export function App(): JSX.Element {
  useEffect(() => void readModels(), []);
  return (
    <>
      <a class="skip" href="#content" onClick={skip}>
        Skip to the content
      </a>
      <header class="bar">
        <a class="mark" href={address("chat")}>
          <img src="/page/icon.svg" width="24" height="24" alt="" />
          Graphmill
        </a>
        <nav aria-label="Parts of the page">
          {TABS.map((each) => (
            <a key={each} href={address(each)} aria-current={each === tab.value ? "page" : undefined}>
              <Icon name={each} />
              <span>{NAMES[each]}</span>
            </a>
          ))}
        </nav>
        <div class="tools">
          <a class="api" href="/docs">
            API
          </a>
          <button type="button" class="icon-button" aria-label={hasKey.value ? "Keys: entered" : "Keys"} title="Keys" data-on={hasKey.value} onClick={() => (asksForKeys.value = true)}>
            <Icon name="key" />
          </button>
          <ThemeButton />
        </div>
      </header>
      {gone.value && (
        <p class="gone" role="alert">
          The server does not answer. It may have stopped, or the network is down. What is shown may be out of date; the page goes on when the server is back.
        </p>
      )}
      <Content tab={tab.value} />
      {asksForKeys.value && <KeysDialog />}
    </>
  );
}

/** The address of the page says where the reader is, so the link moves the focus by itself. */
function skip(event: MouseEvent): void {
  event.preventDefault();
  document.getElementById("content")?.focus();
}

/** When the page was loaded anew by itself, in milliseconds since 1970. */
const reloaded = stored(() => sessionStorage, "reloaded", 0);

/** How long the page is not loaded anew a second time, in milliseconds: what is missing then stays so. */
const RELOAD_PAUSE_MS = 10_000;

function reload(): void {
  if (Date.now() - reloaded.value < RELOAD_PAUSE_MS) return;
  reloaded.value = Date.now();
  location.reload();
}

const loaded = new Map<Tab, ComponentType>();

function Content({ tab }: { tab: Tab }): JSX.Element {
  const [, show] = useState(0);
  const [problem, setProblem] = useState("");
  useEffect(() => {
    document.title = `${NAMES[tab]} · Graphmill`;
    setProblem("");
    if (loaded.has(tab)) return undefined;
    let left = false;
    LOADERS[tab]().then(
      (module) => {
        loaded.set(tab, module.default);
        show((times) => times + 1);
      },
      (error: unknown) => {
        if (left) return;
        void ask().then((answers) => {
          // A browser does not ask again for a script that failed, and an upgraded server has others.
          if (answers) reload();
          setProblem(words(error));
        });
      },
    );
    return () => {
      left = true;
    };
  }, [tab]);
  const back = returns.value;
  useEffect(() => {
    if (back === 0) return;
    // It went and is back, so this happens no more often than that.
    if (problem) location.reload();
    else void readModels();
  }, [back]);
  const Shown = loaded.get(tab);
  return (
    <main id="content" tabIndex={-1} class={`tab-${tab}`} aria-label={NAMES[tab]}>
      {tab !== "server" && <h1 class="hidden">{NAMES[tab]}</h1>}
      {problem && !Shown && (gone.value ? <p class="loading">This part of the page is shown when the server answers again.</p> : <Problem again={() => location.reload()}>This part of the page could not be loaded: {problem}</Problem>)}
      {/* What is written in the chat stays. */}
      {Shown && <Shown key={tab === "chat" ? 0 : back} />}
    </main>
  );
}
