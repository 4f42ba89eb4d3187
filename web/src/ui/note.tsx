// What is said where there is nothing to show: because there is nothing yet, or because something
// went wrong.

import type { ComponentChildren, JSX } from "preact";

/** A place that is empty, and what fills it. */
export function Empty({ title, children }: { title: string; children?: ComponentChildren }): JSX.Element {
  return (
    <div class="empty">
      <h2>{title}</h2>
      {children}
    </div>
  );
}

/** What went wrong, in a sentence; read aloud when it appears. */
export function Problem({ children, again }: { children: ComponentChildren; again?: () => void }): JSX.Element {
  return (
    <div class="problem" role="alert">
      <p>{children}</p>
      {again && (
        <button type="button" class="quiet" onClick={again}>
          Try again
        </button>
      )}
    </div>
  );
}
