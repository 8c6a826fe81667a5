// openai_tools.mjs - OpenAI's own client calls tools on a server of ours: node openai_tools.mjs URL
import assert from "node:assert";
import { createRequire } from "node:module";

const require = createRequire(new URL("../../build/node/node_modules/", import.meta.url));
const OpenAI = require("openai");
const client = new OpenAI({ apiKey: "none", baseURL: process.argv[2] + "/v1", maxRetries: 0 });
const model = "chat", messages = [{ role: "user", content: "Hi" }];
const city = { type: "object", properties: { city: { enum: ["Rome", "Oslo"] }, days: { type: "integer", minimum: 1, maximum: 9 } },
	required: ["city"], additionalProperties: false };
const weather = { type: "function", function: { name: "get_weather", description: "Weather", parameters: city } };
const time = { type: "function", function: { name: "get_time" } };
const tools = [weather, time];
const base = { model, messages, tools, max_completion_tokens: 150, temperature: 2 };

function check(call) {
	assert.equal(call.type, "function");
	assert.match(call.id, /^[a-zA-Z0-9_]{9,}$/);
	const args = JSON.parse(call.function.arguments);
	if (call.function.name === "get_time") assert.deepEqual(args, {});
	else {
		assert.equal(call.function.name, "get_weather");
		assert.ok(["Rome", "Oslo"].includes(args.city) && Object.keys(args).every((k) => k === "city" || k === "days"));
		assert.ok(args.days === undefined || (Number.isInteger(args.days) && args.days >= 1 && args.days <= 9));
	}
}
const bare = (m) => (m.tool_calls ?? []).map((c) => [c.function.name, c.function.arguments]);

// required: whole and streamed are the same, and every call keeps to its schema
const names = new Set();
let most = 0;
for (let seed = 0; seed < 60 && !(names.size === 2 && most > 1); seed++) {
	const ask = { ...base, seed, tool_choice: "required" };
	const whole = await client.chat.completions.create(ask);
	const message = whole.choices[0].message;
	if (whole.choices[0].finish_reason === "length") continue;
	assert.equal(whole.choices[0].finish_reason, "tool_calls");
	assert.equal(message.content, null);
	message.tool_calls.forEach(check);
	message.tool_calls.forEach((c) => names.add(c.function.name));
	most = Math.max(most, message.tool_calls.length);
	const streamed = await client.chat.completions.stream(ask).finalChatCompletion();
	assert.deepEqual(bare(streamed.choices[0].message), bare(message));
	assert.equal(streamed.choices[0].finish_reason, "tool_calls");
}
assert.ok(names.size === 2 && most > 1, `${[...names]} ${most}`);

// one named function, once
const one = await client.chat.completions.create({ ...base, seed: 1, parallel_tool_calls: false,
	tool_choice: { type: "function", function: { name: "get_weather" } } });
assert.equal(one.choices[0].message.tool_calls.length, 1);
check(one.choices[0].message.tool_calls[0]);
assert.equal(one.choices[0].message.tool_calls[0].function.name, "get_weather");
const allowed = await client.chat.completions.create({ ...base, seed: 1, parallel_tool_calls: false,
	tool_choice: { type: "allowed_tools", allowed_tools: { mode: "required", tools: [time] } } });
check(allowed.choices[0].message.tool_calls[0]);
assert.equal(allowed.choices[0].message.tool_calls[0].function.name, "get_time");

// auto: a model that does not begin a call just speaks, one that does is kept to it
const free = await client.chat.completions.create({ ...base, seed: 1 });
assert.ok(free.choices[0].message.content.length > 0 && !free.choices[0].message.tool_calls);
const ids = (await (await fetch(process.argv[2] + "/tokenize", { method: "POST", body: JSON.stringify({ content: "@" }) })).json()).tokens;
const auto = { ...base, seed: 2, parallel_tool_calls: false, logit_bias: { [ids.at(-1)]: 100 } };
const called = await client.chat.completions.create(auto);
assert.equal(called.choices[0].finish_reason, "tool_calls");
called.choices[0].message.tool_calls.forEach(check);
const several = await client.chat.completions.create({ ...auto, n: 3 });
for (const c of several.choices) c.message.tool_calls.forEach(check);
// the deltas of a stream: an id and a name first, then pieces of arguments that join to them
let name = "", pieces = "", deltas = 0;
for await (const chunk of await client.chat.completions.create({ ...auto, stream: true })) {
	for (const t of chunk.choices[0]?.delta?.tool_calls ?? []) {
		assert.equal(t.index, 0);
		if (deltas++ === 0) assert.ok(t.id && t.type === "function" && t.function.name);
		else assert.ok(t.id === undefined && t.function.name === undefined);
		name += t.function.name ?? "";
		pieces += t.function.arguments;
	}
}
assert.deepEqual([[name, pieces]], bare(called.choices[0].message));
assert.ok(deltas > 1 || pieces === "{}");

// what a tool returned goes back; a schema for answers stands beside the tools
const back = await client.chat.completions.create({ model, tools, tool_choice: "none", max_completion_tokens: 5,
	messages: [...messages, called.choices[0].message,
		{ role: "tool", tool_call_id: called.choices[0].message.tool_calls[0].id, content: "4 degrees" }] });
assert.ok(!back.choices[0].message.tool_calls);
for (let seed = 0; seed < 4; seed++) {
	const both = (await client.chat.completions.create({ ...base, seed, parallel_tool_calls: false,
		response_format: { type: "json_schema", json_schema: { name: "a", schema: { enum: [1, 2, "three"] } } } })).choices[0].message;
	if (both.tool_calls) both.tool_calls.forEach(check);
	else assert.ok([1, 2, "three"].includes(JSON.parse(both.content)));
}
const runner = client.chat.completions.runTools({ model, messages, max_completion_tokens: 150, seed: 3,
	parallel_tool_calls: false, tool_choice: { type: "function", function: { name: "get_weather" } },
	tools: [{ type: "function", function: { ...weather.function, parse: JSON.parse, function: (a) => `${a.city}: sunny` } }] });
assert.match(await runner.finalFunctionToolCallResult(), /^(Rome|Oslo): sunny$/);

// the responses API
const flat = [{ type: "function", ...weather.function, strict: true }, { type: "function", ...time.function }];
const asked = { model, input: "Hi", tools: flat, tool_choice: "required", parallel_tool_calls: false, max_output_tokens: 150 };
const response = await client.responses.create(asked);
assert.equal(response.output.length, 1);
const item = response.output[0];
assert.equal(item.type, "function_call");
assert.equal(item.status, "completed");
check({ type: "function", id: item.call_id, function: item });
const events = [];
let number = 0, sent = "";
for await (const event of await client.responses.create({ ...asked, stream: true, temperature: 0 })) {
	assert.equal(event.sequence_number, number++);
	events.push(event.type);
	if (event.type === "response.function_call_arguments.delta") sent += event.delta;
	if (event.type === "response.function_call_arguments.done") assert.equal(event.arguments, sent);
	if (event.type === "response.output_item.done") assert.equal(event.item.arguments, sent);
}
assert.deepEqual([...new Set(events)], ["response.created", "response.in_progress", "response.output_item.added",
	"response.function_call_arguments.delta", "response.function_call_arguments.done", "response.output_item.done", "response.completed"]);
const followed = await client.responses.stream({ ...asked, temperature: 0 }).finalResponse();
assert.equal(followed.output[0].arguments, sent);
const next = await client.responses.create({ model, tools: flat, tool_choice: "none", max_output_tokens: 5,
	input: [{ role: "user", content: "Hi" }, item, { type: "function_call_output", call_id: item.call_id, output: "4" }] });
assert.equal(next.output[0].type, "message");

const bad = (body, param) => assert.rejects(client.chat.completions.create({ ...base, ...body }), (e) => e.status === 400 && e.param === param);
await bad({ tools: [{ type: "function", function: { name: "no spaces" } }] }, "tools[0].function.name");
await bad({ tools: [time, time] }, "tools[1].function.name");
await bad({ tools: [{ type: "function", function: { name: "f", strict: true, parameters: { type: "array" } } }] }, "tools[0].function.parameters");
await bad({ tools: [{ type: "function", function: { name: "f", strict: true, parameters: { properties: { a: { not: { const: 1 } } } } } }] }, "tools");
await bad({ tool_choice: { type: "function", function: { name: "nobody" } } }, "tool_choice");
await bad({ tools: [], tool_choice: "required" }, "tool_choice");
await bad({ tool_choice: "sometimes" }, "tool_choice");
console.log("tools: all well");
