// Text of a model as Markdown. Markup in it stays text, and what Markdown becomes is sanitized
// before it gets into the page.

import DOMPurify from "dompurify";
import { Marked, type Token } from "marked";
import type { JSX } from "preact";
import { memo } from "preact/compat";
import { useMemo } from "preact/hooks";
import { Copy } from "./copy";

const marked = new Marked({
  gfm: true,
  breaks: true,
  renderer: {
    html: ({ text }) => escaped(text),
    // Nothing is loaded from elsewhere.
    image: ({ text, href }) => escaped(`![${text}](${href})`),
  },
});

const TAGS = ["p", "br", "strong", "em", "del", "code", "pre", "a", "ul", "ol", "li", "blockquote", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "table", "thead", "tbody", "tr", "th", "td"];

const purify = DOMPurify(window);
purify.addHook("afterSanitizeAttributes", (node) => {
  if (node.tagName === "A") {
    node.setAttribute("target", "_blank");
    node.setAttribute("rel", "noopener noreferrer nofollow");
  }
});

function escaped(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");
}

export function Markdown({ text }: { text: string }): JSX.Element {
  const blocks = useMemo(() => marked.lexer(text), [text]);
  return (
    <div class="markdown">
      {blocks.map((block, index) => (
        <Block key={index} raw={block.raw} block={block} />
      ))}
    </div>
  );
}

/** A block is made again only when its text has changed: while a text grows, the last one. */
const Block = memo(
  ({ block }: { raw: string; block: Token }): JSX.Element | null => {
    if (block.type === "space") return null;
    if (block.type === "code") return <Code text={String(block["text"])} language={String(block["lang"] ?? "")} />;
    const html = purify.sanitize(marked.parser([block]), { ALLOWED_TAGS: TAGS, ALLOWED_ATTR: ["href", "start", "align"] });
    return <div dangerouslySetInnerHTML={{ __html: html }} />;
  },
  (before, after) => before.raw === after.raw,
);

export function Code({ text, language }: { text: string; language: string }): JSX.Element {
  return (
    <figure class="code">
      <figcaption>
        <span>{language || "text"}</span>
        <Copy text={() => text} label="Copy the code" />
      </figcaption>
      <pre tabIndex={0}>
        <code>{text}</code>
      </pre>
    </figure>
  );
}
