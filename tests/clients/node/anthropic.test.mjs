// npm `@ai-sdk/anthropic` against the server at GRAPHMILL_URL.
import assert from "node:assert/strict";
import test from "node:test";
import { createAnthropic } from "@ai-sdk/anthropic";
import { generateText, streamText } from "ai";

const provider = createAnthropic({ baseURL: `${process.env.GRAPHMILL_URL}/v1`, apiKey: "unused" });
const model = provider(process.env.GRAPHMILL_MODEL);
const prompt = "What is OpenVINO?";
const expected = process.env.GRAPHMILL_ANSWER;

test("text, whole", async () => {
  const { text, finishReason, usage } = await generateText({ model, prompt, temperature: 0, maxOutputTokens: 200, maxRetries: 0 });
  assert.equal(text, expected);
  assert.equal(finishReason, "stop");
  assert.ok(usage.outputTokens > 0);
});

test("text, streamed", async () => {
  const answer = streamText({ model, prompt, temperature: 0, maxOutputTokens: 200, maxRetries: 0 });
  let text = "";
  for await (const piece of answer.textStream) text += piece;
  assert.equal(text, expected);
});

test("an unknown model", async () => {
  const asked = generateText({ model: provider("nobody"), prompt, maxRetries: 0 });
  await assert.rejects(asked, (error) => error.statusCode === 404 && /nobody/.test(error.message));
});
