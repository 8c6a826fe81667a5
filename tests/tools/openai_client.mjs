// openai_client.mjs - OpenAI's own client against a server of ours: node openai_client.mjs URL
import assert from "node:assert";
import { createRequire } from "node:module";

const require = createRequire(new URL("../../build/node/node_modules/", import.meta.url));
const OpenAI = require("openai");
const client = new OpenAI({ apiKey: process.env.KEY ?? "none", baseURL: process.argv[2] + "/v1", maxRetries: 0 });
const messages = [{ role: "system", content: "Be brief." }, { role: "user", content: "Hi" }];
const model = "chat";

const models = await client.models.list();
assert.deepEqual(models.data.map((m) => m.id), [model]);
assert.equal((await client.models.retrieve(model)).id, model);

const whole = await client.chat.completions.create({ model, messages, max_completion_tokens: 24, seed: 4 });
assert.equal(whole.choices[0].message.role, "assistant");

let text = "", finish = null, usage = null;
const stream = await client.chat.completions.create({
	model, messages, max_completion_tokens: 24, seed: 4, stream: true, stream_options: { include_usage: true },
});
for await (const chunk of stream) {
	text += chunk.choices[0]?.delta?.content ?? "";
	finish = chunk.choices[0]?.finish_reason ?? finish;
	usage = chunk.usage ?? usage;
}
assert.equal(text, whole.choices[0].message.content);
assert.equal(finish, whole.choices[0].finish_reason);
assert.equal(usage.completion_tokens, whole.usage.completion_tokens);

const helper = client.chat.completions.stream({ model, messages, max_completion_tokens: 24, seed: 4 });
assert.equal((await helper.finalChatCompletion()).choices[0].message.content, text);

const logprobs = await client.chat.completions.create({
	model, messages, max_completion_tokens: 3, logprobs: true, top_logprobs: 2, n: 2,
});
assert.equal(logprobs.choices.length, 2);
assert.equal(logprobs.choices[0].logprobs.content.length, 3);

const completion = await client.completions.create({ model, prompt: "This", max_tokens: 8, seed: 1 });
let streamed = "";
for await (const chunk of await client.completions.create({ model, prompt: "This", max_tokens: 8, seed: 1, stream: true }))
	streamed += chunk.choices[0]?.text ?? "";
assert.equal(streamed, completion.choices[0].text);

const response = await client.responses.create({ model, input: "Hi", instructions: "Be brief.", max_output_tokens: 16, temperature: 0 });
assert.equal(response.object, "response");
assert.ok(["completed", "incomplete"].includes(response.status));
assert.equal(response.usage.total_tokens, response.usage.input_tokens + response.usage.output_tokens);
let last, spoken = "", number = 0;
for await (const event of await client.responses.create({
	model, instructions: "Be brief.", max_output_tokens: 16, temperature: 0, stream: true,
	input: [{ role: "user", content: [{ type: "input_text", text: "Hi" }] }],
})) {
	assert.equal(event.sequence_number, number++);
	if (event.type === "response.output_text.delta") spoken += event.delta;
	last = event;
}
assert.equal(last.type, "response." + response.status);
assert.equal(spoken, response.output_text);
assert.equal(last.response.output[0].content[0].text, spoken);
const followed = client.responses.stream({ model, input: "Hi", instructions: "Be brief.", max_output_tokens: 16, temperature: 0 });
assert.equal((await followed.finalResponse()).output_text, spoken);
await assert.rejects(client.responses.create({ model, input: "x", previous_response_id: "resp_1" }), (e) => e.param === "previous_response_id");

const one = await client.embeddings.create({ model, input: ["free software", "a cat"] }); // the client asks for base64
const numbers = await client.embeddings.create({ model, input: "free software", encoding_format: "float" });
const length = (v) => Math.hypot(...v);
assert.ok(Math.abs(length(one.data[0].embedding) - 1) < 1e-5 && Math.abs(length(one.data[1].embedding) - 1) < 1e-5);
assert.deepEqual([...one.data[0].embedding].map(Math.fround), numbers.data[0].embedding.map(Math.fround));
assert.notDeepEqual([...one.data[0].embedding], [...one.data[1].embedding]);
const short = await client.embeddings.create({ model, input: "free software", dimensions: 8 });
assert.ok(short.data[0].embedding.length === 8 && Math.abs(length(short.data[0].embedding) - 1) < 1e-5);
// as many inputs as OpenAI takes, from the middle of which one is what it is alone; one more is refused
const inputs = Array.from({ length: 2048 }, (_, i) => `${i}`);
const many = await client.embeddings.create({ model, input: inputs, dimensions: 4 });
assert.deepEqual(many.data.map((d) => d.index), inputs.map((_, i) => i));
const [middle] = (await client.embeddings.create({ model, input: "1234", dimensions: 4 })).data;
assert.deepEqual([...many.data[1234].embedding], [...middle.embedding]);
await assert.rejects(client.embeddings.create({ model, input: [...inputs, "x"] }), (e) => e.status === 400 && e.param === "input");
await assert.rejects(client.embeddings.create({ model, input: inputs.map(() => "word ".repeat(75)) }), (e) =>
	e.code === "max_tokens_per_request" && e.param === "input");

await assert.rejects(client.embeddings.create({ model, input: "x", dimensions: 60000 }), (e) => e.param === "dimensions");

await assert.rejects(client.chat.completions.create({ model: "none", messages }), (e) => e instanceof OpenAI.NotFoundError &&
	e.code === "model_not_found" && e.param === "model");
await assert.rejects(client.chat.completions.create({ model, messages, n: 99 }), (e) => e instanceof OpenAI.BadRequestError &&
	e.param === "n");

const aborted = await client.chat.completions.create({ model, messages, max_completion_tokens: 200, stream: true });
aborted.controller.abort();
console.log("openai client: all well");
