// Where a question is written.

import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { chatModels } from "../state/models";
import { disabledBy } from "../ui/disabled";
import { Icon, IconButton } from "../ui/icons";
import { answering, ask, conversation, model, refusal, stop } from "./store";

/** The largest file of an image that is sent: the server's usual limit. */
const MAX_IMAGE_BYTES = 8 << 20;

export function Composer(): JSX.Element {
  const [text, setText] = useState("");
  const [images, setImages] = useState<string[]>([]);
  const field = useRef<HTMLTextAreaElement>(null);
  const takesImages = chatModels.value.find((each) => each.id === model.value)?.input_modalities?.includes("image") ?? false;
  const lacks = model.value === "" ? "No model answers yet" : text.trim() === "" ? "Write a question first" : null;
  const ready = lacks === null && !answering.value;
  useEffect(() => {
    field.current?.focus();
  }, [conversation.value.id]);
  useEffect(() => {
    const element = field.current;
    if (!element) return;
    element.style.height = "auto";
    element.style.height = `${element.scrollHeight}px`;
  }, [text]);
  const send = (): void => {
    if (!ready) return;
    setText("");
    setImages([]);
    void ask(text, takesImages ? images : []);
  };
  const add = async (files: FileList | null | undefined): Promise<void> => {
    for (const file of files ?? []) {
      if (!file.type.startsWith("image/")) continue;
      if (file.size > MAX_IMAGE_BYTES) {
        refusal.value = `${file.name} is larger than 8 MiB, which is what the server takes.`;
        continue;
      }
      const url = await dataUrl(file);
      setImages((all) => [...all, url]);
    }
  };
  return (
    <form
      class="composer"
      onSubmit={(event) => {
        event.preventDefault();
        send();
      }}
      onPaste={(event) => {
        if (takesImages) void add(event.clipboardData?.files);
      }}
    >
      {refusal.value && (
        <p class="refusal" role="alert">
          {refusal.value}
        </p>
      )}
      {images.length > 0 && (
        <ul class="images">
          {images.map((image, index) => (
            <li key={image}>
              <img src={image} alt={`Image ${index + 1}`} />
              <IconButton icon="close" label={`Remove image ${index + 1}`} size={14} onClick={() => setImages(images.filter((_, at) => at !== index))} />
            </li>
          ))}
        </ul>
      )}
      <div class="field">
        {takesImages && (
          <label class="icon-button" title="Add an image">
            <Icon name="image" />
            <input class="hidden" type="file" accept="image/png,image/jpeg" multiple aria-label="Add an image" onChange={(event) => void add(event.currentTarget.files)} />
          </label>
        )}
        <textarea
          ref={field}
          rows={1}
          aria-label="Your question"
          placeholder={model.value ? `Ask ${model.value}` : "No model answers yet"}
          value={text}
          onInput={(event) => setText(event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
              event.preventDefault();
              send();
            }
          }}
        />
        {answering.value ? (
          <button type="button" class="send" aria-label="Stop the answer" title="Stop the answer" onClick={stop}>
            <Icon name="stop" />
          </button>
        ) : (
          <button type="submit" class="send" aria-label="Send" {...disabledBy(lacks, "Send (Enter)")}>
            <Icon name="send" />
          </button>
        )}
      </div>
    </form>
  );
}

function dataUrl(file: File): Promise<string> {
  return new Promise((done, failed) => {
    const reader = new FileReader();
    reader.onload = () => done(String(reader.result));
    reader.onerror = () => failed(reader.error ?? new Error("the file cannot be read"));
    reader.readAsDataURL(file);
  });
}
