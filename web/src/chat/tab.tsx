// The chat.

import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { chatModels, modelsError, modelsLoaded, readModels } from "../state/models";
import { disabledBy } from "../ui/disabled";
import { IconButton } from "../ui/icons";
import { Empty, Problem } from "../ui/note";
import { Composer } from "./composer";
import { Export } from "./export";
import { History } from "./history";
import { MessageView } from "./message";
import { Settings } from "./settings";
import { answering, ask, choose, conversation, model, open } from "./store";
import { path } from "./tree";

export default function Chat(): JSX.Element {
  const [dialog, setDialog] = useState<"settings" | "export" | null>(null);
  const [listed, setListed] = useState(false);
  useEffect(() => void open(), []);
  const messages = path(conversation.value);
  return (
    <div class="chat" data-listed={listed}>
      <History done={() => setListed(false)} />
      <section class="talk" aria-label="Conversation">
        <header class="talk-bar">
          <span class="narrow-only">
            <IconButton icon="history" label="Conversations" pressed={listed} onClick={() => setListed(!listed)} />
          </span>
          <Models />
          <IconButton icon="settings" label="Instructions and parameters" onClick={() => setDialog("settings")} />
          <IconButton icon="code" label="Export as curl or Python" disabled={messages.length === 0 ? "Ask a question first: there is nothing to export" : null} onClick={() => setDialog("export")} />
        </header>
        <Messages />
        <Composer />
      </section>
      {dialog === "settings" && <Settings close={() => setDialog(null)} />}
      {dialog === "export" && <Export close={() => setDialog(null)} />}
    </div>
  );
}

function Models(): JSX.Element {
  return (
    <select class="models" aria-label="Model" value={model.value} {...disabledBy(chatModels.value.length === 0 ? "No model for chats is served" : null)} onChange={(event) => choose(event.currentTarget.value)}>
      {chatModels.value.length === 0 && <option value="">no model</option>}
      {chatModels.value.map((each) => (
        <option key={each.id} value={each.id}>
          {each.parent ? `${each.id} (adapter)` : each.id}
          {each.status && each.status.value !== "loaded" ? ` · ${each.status.value}` : ""}
        </option>
      ))}
    </select>
  );
}

const QUESTIONS = ["What is a side packet?", "What does a dataflow graph do?", "Write a list of three fruits"];

function Messages(): JSX.Element {
  const list = useRef<HTMLDivElement>(null);
  const follows = useRef(true);
  const messages = path(conversation.value);
  useLayoutEffect(() => {
    const element = list.current;
    if (element && follows.current) element.scrollTop = element.scrollHeight;
  });
  useEffect(() => {
    follows.current = true;
  }, [messages.length, conversation.value.id]);
  const scrolled = (): void => {
    const element = list.current;
    if (element) follows.current = element.scrollHeight - element.scrollTop - element.clientHeight < 60;
  };
  return (
    <div class="messages" ref={list} onScroll={scrolled} tabIndex={0} role="log" aria-label="Messages" aria-busy={answering.value}>
      {modelsError.value && <Problem again={() => void readModels()}>{modelsError.value}</Problem>}
      {messages.length === 0 && !modelsError.value && modelsLoaded.value && <Beginning />}
      {messages.map((message, index) => (
        <MessageView key={message.id} message={message} isLast={index === messages.length - 1} />
      ))}
    </div>
  );
}

function Beginning(): JSX.Element {
  if (chatModels.value.length === 0) {
    return (
      <Empty title="No model answers yet">
        <p>
          Either none is configured, or they are still being loaded. The <a href="#/server">Server</a> tab says how far they are.
        </p>
        <button type="button" class="quiet" onClick={() => void readModels()}>
          Look again
        </button>
      </Empty>
    );
  }
  return (
    <Empty title="Ask something">
      <p>Answers come as the model writes them. Stop one, edit a question or ask again: each becomes a branch, and nothing is lost.</p>
      <div class="suggestions">
        {QUESTIONS.map((question) => (
          <button key={question} type="button" onClick={() => void ask(question, [])}>
            {question}
          </button>
        ))}
      </div>
    </Empty>
  );
}
