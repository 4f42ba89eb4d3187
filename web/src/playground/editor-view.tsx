// The editor in the page. Its code is loaded when the playground is first opened; until then, and
// where it cannot be, the text is in a plain field.

import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Editor } from "./editor";
import { check, text } from "./store";

export function EditorView(): JSX.Element {
  const element = useRef<HTMLDivElement>(null);
  const plain = useRef<HTMLTextAreaElement>(null);
  const editor = useRef<Editor | null>(null);
  const written = useRef(text.value);
  const [state, setState] = useState<"loading" | "there" | "missing">("loading");
  useEffect(() => {
    let ended = false;
    import("./editor").then(
      ({ edit }) => {
        if (ended || !element.current) return;
        written.current = text.value;
        const changed = (next: string): void => {
          written.current = next;
          text.value = next;
        };
        editor.current = edit(element.current, text.value, { changed, check });
        // Who types already goes on in the editor.
        if (plain.current && document.activeElement === plain.current) {
          element.current.hidden = false;
          editor.current.focus(plain.current.selectionEnd);
        }
        setState("there");
      },
      () => setState("missing"),
    );
    return () => {
      ended = true;
      editor.current?.destroy();
      editor.current = null;
    };
  }, []);
  useEffect(() => {
    if (text.value !== written.current) editor.current?.set(text.value);
  }, [text.value]);
  return (
    <>
      {state !== "there" && (
        <textarea
          ref={plain}
          class="code plain"
          aria-label="Text of the graph"
          spellcheck={false}
          value={text.value}
          onInput={(event) => (text.value = event.currentTarget.value)}
          onBlur={() => void check(text.value)}
        />
      )}
      <div class="editor" ref={element} hidden={state !== "there"} />
    </>
  );
}
