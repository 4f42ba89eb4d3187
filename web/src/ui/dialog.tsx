// A dialog that takes the keyboard until it is closed. The browser keeps the focus inside, closes
// it with Escape, and gives the focus back.

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useId, useRef } from "preact/hooks";
import { IconButton } from "./icons";

export function Dialog({ title, close, children, wide }: { title: string; close: () => void; children: ComponentChildren; wide?: boolean }): JSX.Element {
  const element = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    element.current?.showModal();
  }, []);
  const outside = (event: MouseEvent): void => {
    if (event.target === element.current) close();
  };
  return (
    <dialog ref={element} class={wide ? "wide" : ""} aria-labelledby={id} onClose={close} onClick={outside}>
      <div class="dialog">
        <header>
          <h2 id={id}>{title}</h2>
          <IconButton icon="close" label="Close" onClick={close} />
        </header>
        {children}
      </div>
    </dialog>
  );
}
