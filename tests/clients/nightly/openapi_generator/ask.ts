// A chat, the same as a stream, and vectors, with the client in `./client`. Prints what came.

import { ChatCompletionChunkFromJSON, Configuration, GenerationApi, VectorsApi } from "./client/index";

const configuration = new Configuration({ basePath: process.argv[2] });
const question = { model: process.argv[3], messages: [{ role: "user", content: process.argv[4] }], temperature: 0, maxTokens: 100 } as any;

const chats = new GenerationApi(configuration);
const whole = await chats.postV3ChatCompletions({ postV3ChatCompletionsRequest: question });
const { raw } = await chats.postV3ChatCompletionsRaw({ postV3ChatCompletionsRequest: { ...question, stream: true } });
const events = (await raw.text()).split("\n\n").filter((event) => event && event !== "data: [DONE]");
const chunks = events.map((event) => ChatCompletionChunkFromJSON(JSON.parse(event.slice("data: ".length))));
const input = { model: "graphmill/tiny-embed", input: ["one", "two"] } as any;
const vectors = await new VectorsApi(configuration).postV3Embeddings({ postV3EmbeddingsRequest: input });

console.log(whole.choices[0].message.content);
console.log(chunks.map((chunk) => chunk.choices[0].delta.content ?? "").join(""));
console.log(vectors.data.length);
