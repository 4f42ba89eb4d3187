// npm `@ai-sdk/openai-compatible` against the server at GRAPHMILL_URL.
import assert from "node:assert/strict";
import test from "node:test";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, streamText } from "ai";

const provider = createOpenAICompatible({ name: "graphmill", baseURL: `${process.env.GRAPHMILL_URL}/v1`, includeUsage: true });
const model = provider(process.env.GRAPHMILL_MODEL);
const prompt = "What is OpenVINO?";
const expected = process.env.GRAPHMILL_ANSWER;

test("text, whole", async () => {
  const { text, finishReason, usage } = await generateText({ model, prompt, temperature: 0, maxRetries: 0 });
  assert.equal(text, expected);
  assert.equal(finishReason, "stop");
  assert.ok(usage.outputTokens > 0);
});

test("text, streamed", async () => {
  const answer = streamText({ model, prompt, temperature: 0, maxRetries: 0 });
  let text = "";
  for await (const piece of answer.textStream) text += piece;
  assert.equal(text, expected);
  assert.ok((await answer.usage).inputTokens > 0);
});
