// The frame: tabs, and what is shown in them. A tab's code is loaded when it is first opened.

import type { ComponentType, JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { words } from "./api/client";
import { asksForKeys, hasKey } from "./state/keys";
import { readModels } from "./state/models";
import { address, TABS, tab, type Tab } from "./state/route";
import { switchTheme, theme } from "./state/theme";
import { Icon, type IconName } from "./ui/icons";
import { KeysDialog } from "./ui/keys-dialog";
import { Problem } from "./ui/note";

const NAMES: Record<Tab, string> = { chat: "Chat", graph: "Graph", playground: "Playground", server: "Server" };

const LOADERS: Record<Tab, () => Promise<{ default: ComponentType }>> = {
  chat: () => import("./chat/tab"),
  graph: () => import("./graph/tab"),
  playground: () => import("./playground/tab"),
  server: () => import("./server/tab"),
};

export function App(): JSX.Element {
  useEffect(() => void readModels(), []);
  const themes: Record<typeof theme.value, [IconName, string]> = { system: ["half", "as the system"], light: ["sun", "light"], dark: ["moon", "dark"] };
  const [icon, name] = themes[theme.value];
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
          <button type="button" class="icon-button" aria-label={`Colors: ${name}`} title={`Colors: ${name}`} onClick={switchTheme}>
            <Icon name={icon} />
          </button>
        </div>
      </header>
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

const loaded = new Map<Tab, ComponentType>();

function Content({ tab }: { tab: Tab }): JSX.Element {
  const [, show] = useState(0);
  const [problem, setProblem] = useState("");
  const load = (): void => {
    setProblem("");
    LOADERS[tab]().then(
      (module) => {
        loaded.set(tab, module.default);
        show((times) => times + 1);
      },
      (error: unknown) => setProblem(words(error)),
    );
  };
  useEffect(() => {
    document.title = `${NAMES[tab]} · Graphmill`;
    if (!loaded.has(tab)) load();
  }, [tab]);
  const Shown = loaded.get(tab);
  return (
    <main id="content" tabIndex={-1} class={`tab-${tab}`} aria-label={NAMES[tab]}>
      {tab !== "server" && <h1 class="hidden">{NAMES[tab]}</h1>}
      {problem && <Problem again={load}>This part of the page could not be loaded: {problem}</Problem>}
      {Shown && <Shown />}
    </main>
  );
}
