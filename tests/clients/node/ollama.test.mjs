// npm `ollama` against the server at GRAPHMILL_URL.
import assert from "node:assert/strict";
import test from "node:test";
import { Ollama } from "ollama";

const model = process.env.GRAPHMILL_MODEL;
const client = new Ollama({ host: process.env.GRAPHMILL_URL });
const messages = [{ role: "user", content: "What is OpenVINO?" }];
const options = { temperature: 0 };
const expected = process.env.GRAPHMILL_ANSWER;

test("chat, whole and streamed", async () => {
  const whole = await client.chat({ model, messages, options });
  assert.equal(whole.message.content, expected);
  assert.equal(whole.done_reason, "stop");
  let text = "";
  let last;
  for await (const part of await client.chat({ model, messages, options, stream: true })) {
    text += part.message.content;
    last = part;
  }
  assert.equal(text, expected);
  assert.equal(last.eval_count, whole.eval_count);
});

test("generate, whole and streamed", async () => {
  const prompt = messages[0].content;
  assert.equal((await client.generate({ model, prompt, options })).response, expected);
  let text = "";
  for await (const part of await client.generate({ model, prompt, options, stream: true })) text += part.response;
  assert.equal(text, expected);
});

test("a stream is aborted", async () => {
  const stream = await client.chat({ model, messages, options: { num_predict: 200 }, stream: true });
  await assert.rejects(async () => {
    for await (const _ of stream) stream.abort();
  }, { name: "AbortError" });
});

test("models are listed and shown", async () => {
  const { models } = await client.list();
  assert.ok(models.some((listed) => listed.name === `${model}:latest`));
  assert.ok((await client.ps()).models.length > 0);
  assert.ok((await client.show({ model })).capabilities.includes("tools"));
  assert.match((await client.version()).version, /^\d+\.\d+\.\d+$/);
});

test("a refusal says why", async () => {
  await assert.rejects(client.chat({ model, messages, options: { top_p: 2 } }), (error) => {
    assert.equal(error.status_code, 400);
    assert.match(error.message, /options\.top_p/);
    return true;
  });
});
