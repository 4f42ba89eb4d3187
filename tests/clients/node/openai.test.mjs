// npm `openai` against the server at GRAPHMILL_URL.
import assert from "node:assert/strict";
import test from "node:test";
import OpenAI from "openai";

const model = process.env.GRAPHMILL_MODEL;
const client = new OpenAI({ baseURL: `${process.env.GRAPHMILL_URL}/v1`, apiKey: "unused", maxRetries: 0 });
const messages = [{ role: "user", content: "What is OpenVINO?" }];
const expected = process.env.GRAPHMILL_ANSWER;

test("chat, whole", async () => {
  const completion = await client.chat.completions.create({ model, messages, temperature: 0 });
  assert.equal(completion.choices[0].message.content, expected);
  assert.equal(completion.choices[0].finish_reason, "stop");
});

test("chat, streamed", async () => {
  const stream = await client.chat.completions.create({ model, messages, temperature: 0, stream: true });
  let text = "";
  for await (const chunk of stream) text += chunk.choices[0]?.delta?.content ?? "";
  assert.equal(text, expected);
});

test("chat, through the stream helper", async () => {
  const runner = client.chat.completions.stream({ model, messages, temperature: 0 });
  const completion = await runner.finalChatCompletion();
  assert.equal(completion.choices[0].message.content, expected);
});

test("responses, whole and streamed", async () => {
  const whole = await client.responses.create({ model, input: messages[0].content, temperature: 0 });
  assert.equal(whole.output_text, expected);
  const stream = client.responses.stream({ model, input: messages[0].content, temperature: 0 });
  let text = "";
  for await (const event of stream) if (event.type === "response.output_text.delta") text += event.delta;
  assert.equal(text, expected);
  assert.equal((await stream.finalResponse()).output_text, expected);
});

test("models are listed", async () => {
  const ids = [];
  for await (const listed of client.models.list()) ids.push(listed.id);
  assert.ok(ids.includes(model));
});

test("a refusal names the field", async () => {
  await assert.rejects(client.chat.completions.create({ model, messages, temperature: 9 }), (error) => {
    assert.ok(error instanceof OpenAI.BadRequestError);
    assert.equal(error.param, "temperature");
    return true;
  });
});
