// The editor. It lives in a shadow tree: there its styles are no `style` elements, which the page's
// policy forbids.

import { closeBrackets, closeBracketsKeymap } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { bracketMatching, HighlightStyle, indentOnInput, syntaxHighlighting } from "@codemirror/language";
import { linter, lintGutter, lintKeymap, type Diagnostic as Mark } from "@codemirror/lint";
import { search, searchKeymap } from "@codemirror/search";
import { EditorState } from "@codemirror/state";
import { drawSelection, EditorView, highlightActiveLine, highlightActiveLineGutter, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import type { Diagnostic } from "../api/types";
import { pbtxt } from "./pbtxt";

export interface Editor {
  set(text: string): void;
  /** Puts the cursor at a character of the text. */
  focus(at: number): void;
  destroy(): void;
}

export interface Handlers {
  changed: (text: string) => void;
  /** What the server says of a text. */
  check: (text: string) => Promise<Diagnostic[]>;
}

/** How long a pause in typing is before a text is checked, in milliseconds. */
const CHECK_PAUSE_MS = 400;

const theme = EditorView.theme({
  "&": { height: "100%", fontSize: "0.8125rem", backgroundColor: "var(--surface)", color: "var(--text)" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.6" },
  ".cm-gutters": { backgroundColor: "var(--surface)", color: "var(--soft-text)", border: "0" },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "var(--sunk)" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  "&.cm-focused .cm-selectionBackground, .cm-selectionBackground": { backgroundColor: "var(--accent-ground) !important" },
  "&.cm-focused": { outline: "2px solid var(--accent)", outlineOffset: "-2px" },
  ".cm-tooltip, .cm-panels": { backgroundColor: "var(--raised)", color: "var(--text)", borderColor: "var(--line)" },
  ".cm-diagnostic": { fontFamily: "var(--font)", whiteSpace: "pre-wrap" },
});

const colors = HighlightStyle.define([
  { tag: tags.comment, color: "var(--soft-text)", fontStyle: "italic" },
  { tag: tags.string, color: "var(--green)" },
  { tag: tags.typeName, color: "var(--violet)" },
  { tag: [tags.number, tags.bool], color: "var(--amber)" },
  { tag: tags.propertyName, color: "var(--accent)" },
]);

/** Makes an editor of `text` in an element. */
export function edit(parent: HTMLElement, text: string, handlers: Handlers): Editor {
  const root = parent.shadowRoot ?? parent.attachShadow({ mode: "open" });
  const state = EditorState.create({
    doc: text,
    extensions: [
      lineNumbers(),
      lintGutter(),
      history(),
      drawSelection(),
      indentOnInput(),
      bracketMatching(),
      closeBrackets(),
      highlightActiveLine(),
      highlightActiveLineGutter(),
      search(),
      pbtxt,
      syntaxHighlighting(colors),
      theme,
      EditorView.contentAttributes.of({ "aria-label": "Text of the graph", tabindex: "0" }),
      EditorView.updateListener.of((update) => {
        if (update.docChanged) handlers.changed(update.state.doc.toString());
      }),
      linter(async (view) => (await handlers.check(view.state.doc.toString())).map((each) => mark(view, each)), { delay: CHECK_PAUSE_MS }),
      keymap.of([...closeBracketsKeymap, ...defaultKeymap, ...searchKeymap, ...historyKeymap, ...lintKeymap]),
    ],
  });
  const view = new EditorView({ state, parent: root as unknown as HTMLElement, root });
  return {
    set: (next) => view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: next } }),
    focus: (at) => {
      view.dispatch({ selection: { anchor: Math.min(at, view.state.doc.length) } });
      view.focus();
    },
    destroy: () => view.destroy(),
  };
}

/** Lines and columns of the server begin with 1. */
function mark({ state: { doc } }: EditorView, found: Diagnostic): Mark {
  const position = (line: number, column: number): number => {
    const at = doc.line(Math.max(1, Math.min(line, doc.lines)));
    return Math.min(at.from + Math.max(0, column - 1), at.to);
  };
  const from = position(found.line ?? 1, found.column ?? 1);
  const to = found.end_line == null ? from : position(found.end_line, found.end_column ?? 1);
  return {
    from,
    to: Math.max(from, to),
    severity: found.severity === "warning" ? "warning" : found.severity === "info" || found.severity === "note" ? "info" : "error",
    message: `${found.code}: ${found.message}${found.help ? `\n${found.help}` : ""}`,
  };
}
