// npm `@ai-sdk/openai-compatible` asks about pictures: those of the JSON file GRAPHMILL_PINNED, of the server at GRAPHMILL_URL.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import test from "node:test";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, streamText } from "ai";

const provider = createOpenAICompatible({ name: "graphmill", baseURL: `${process.env.GRAPHMILL_URL}/v1`, includeUsage: true });
const model = provider(process.env.GRAPHMILL_MODEL);
const file = process.env.GRAPHMILL_PINNED;
const pinned = JSON.parse(readFileSync(file, "utf8")).filter(({ picture }) => picture);

function request({ picture, question }, mediaType) {
  const image = readFileSync(join(dirname(file), picture));
  const content = [
    { type: "image", image, mediaType },
    { type: "text", text: question },
  ];
  return { model, messages: [{ role: "user", content }], temperature: 0, maxRetries: 0 };
}

for (const it of pinned) {
  test(`${it.question} ${it.picture}`, async () => {
    const { text } = await generateText(request(it, "image/png"));
    assert.equal(text, it.expected);
  });
}

test("streamed", async () => {
  const answer = streamText(request(pinned[0]));
  let text = "";
  for await (const piece of answer.textStream) text += piece;
  assert.equal(text, pinned[0].expected);
});
