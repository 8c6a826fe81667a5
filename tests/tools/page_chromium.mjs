// page_chromium.mjs - the page at / in headless Chromium, over its pipe: node page_chromium.mjs URL FOLDER
// Chats, stops, edits, retries, reloads; then a hostile model's text, which the browser is given in place
// of the server's answer; screenshots of two widths go to FOLDER.
import assert from "node:assert";
import { spawn } from "node:child_process";
import { writeFileSync } from "node:fs";

const [url, folder] = process.argv.slice(2);
const browser = spawn(process.env.CHROMIUM ?? "chromium", ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
	"--remote-debugging-pipe", `--user-data-dir=${folder}/profile`, "about:blank"], { stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"] });
const waiting = new Map(), heard = [];
let next = 1, rest = "";
browser.stdio[4].on("data", (data) => {
	const parts = (rest + data).split("\0");
	rest = parts.pop();
	for (const text of parts) {
		const m = JSON.parse(text);
		if (m.id) {
			const { resolve, reject } = waiting.get(m.id);
			if (m.error) reject(new Error(m.error.message));
			else resolve(m.result);
		} else heard.forEach((f) => f(m));
	}
});
let session;
const call = (method, params = {}) => new Promise((resolve, reject) => {
	waiting.set(next, { resolve, reject });
	browser.stdio[3].write(JSON.stringify({ id: next++, method, params, sessionId: method.startsWith("Target.") ? undefined : session }) + "\0");
});
const run = async (code) => {
	const r = await call("Runtime.evaluate", { expression: `(async () => { ${code} })()`, awaitPromise: true, returnByValue: true });
	if (r.exceptionDetails) throw new Error(r.exceptionDetails.exception?.description ?? r.exceptionDetails.text);
	return r.result.value;
};
const until = async (code, what) => {
	for (let i = 0; i < 600; i++) {
		if (await run(`return ${code}`)) return;
		await new Promise((r) => setTimeout(r, 50));
	}
	throw new Error("never: " + (what ?? code));
};
const type = (text) => run(`const t = document.getElementById("text"); t.value = ${JSON.stringify(text)};
	t.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true, cancelable: true }));`);
const turns = () => run(`return [...document.querySelectorAll(".turn")].map((e) => [e.className, e.querySelector(".said").textContent])`);
const idle = `document.getElementById("send").textContent === "Send"`;
const shot = async (name, width, height) => {
	await call("Emulation.setDeviceMetricsOverride", { width, height, deviceScaleFactor: 1, mobile: width < 600 });
	writeFileSync(`${folder}/${name}.png`, Buffer.from((await call("Page.captureScreenshot")).data, "base64"));
	assert.ok(await run("return document.documentElement.scrollWidth <= innerWidth"), `${name} is wider than its window`);
};

const KEYS = { Tab: 9, Enter: 13, Escape: 27 };
const press = async (key, modifiers = 0) => {
	const k = { key, code: key, windowsVirtualKeyCode: KEYS[key], modifiers, text: key === "Enter" ? "\r" : undefined };
	await call("Input.dispatchKeyEvent", { type: k.text ? "keyDown" : "rawKeyDown", ...k });
	await call("Input.dispatchKeyEvent", { type: "keyUp", ...k, text: undefined });
};
const focused = () => run(`const e = document.activeElement; return e.id || e.textContent`);
const tabs_to = async (id, modifiers) => {
	for (let i = 0; i < 60; i++) {
		if (await focused() === id) return;
		await press("Tab", modifiers);
	}
	assert.fail(`no number of tabs leads to ${id}`);
};
// With keys alone: the conversation can be scrolled, the menu opened, used and left; nothing leaves the keyboard nowhere
const keyboard = async () => {
	const opened = () => run(`return getComputedStyle(document.querySelector("nav")).display !== "none"`);
	await run(`document.getElementById("text").focus()`);
	await tabs_to("talk", 8);
	await tabs_to("menu", 8);
	assert.equal(await opened(), false);
	await press("Enter");
	assert.equal(await opened(), true);
	assert.equal(await run(`return document.getElementById("menu").ariaExpanded`), "true");
	assert.equal(await focused(), "new");
	await press("Escape");
	assert.equal(await opened(), false);
	assert.equal(await focused(), "menu");
	// a conversation of the list, then the text
	await press("Enter");
	await press("Tab");
	assert.equal(await run(`return document.activeElement.parentElement.tagName`), "LI");
	await press("Enter");
	assert.equal(await opened(), false);
	assert.ok(["menu", "text"].includes(await focused()), await focused());
	assert.deepEqual(await run(`return [...document.querySelectorAll("#list button")].filter((b) => b.textContent === "\u00d7")
		.every((b) => b.ariaLabel === "Delete")`), true);
	// a finger beside the menu closes it
	await run(`document.getElementById("menu").click()`);
	await call("Input.dispatchMouseEvent", { type: "mousePressed", x: 340, y: 300, button: "left", clickCount: 1 });
	await call("Input.dispatchMouseEvent", { type: "mouseReleased", x: 340, y: 300, button: "left", clickCount: 1 });
	assert.equal(await opened(), false);
};

try {
	const { targetId } = await call("Target.createTarget", { url: "about:blank" });
	session = (await call("Target.attachToTarget", { targetId, flatten: true })).sessionId;
	const complaints = [];
	heard.push((m) => {
		if (m.method === "Log.entryAdded" && m.params.entry.level === "error") complaints.push(m.params.entry.text);
		if (m.method === "Runtime.exceptionThrown") complaints.push(m.params.exceptionDetails.text);
	});
	for (const what of ["Page.enable", "Runtime.enable", "Log.enable"]) await call(what);
	const open = async () => {
		await call("Page.navigate", { url });
		await until(`document.readyState === "complete" && !!document.getElementById("model")?.value`, "the models come");
	};
	await open();

	// an answer comes, and the conversation is still there after a reload
	// (with a seed: one answer in some hundred of this model is empty)
	await run(`max_tokens.value = 5; max_tokens.dispatchEvent(new Event("change")); seed.value = 1; seed.dispatchEvent(new Event("change"))`);
	await type("Hello there");
	await until(`${idle} && document.querySelectorAll(".turn").length === 2`);
	let all = await turns();
	assert.deepEqual(all[0], ["turn user", "Hello there"]);
	assert.equal(await run(`return document.querySelectorAll(".error").length`), 0);
	// the model is named before it speaks, and how fast it was after; one button begins a conversation
	assert.ok((await run(`return document.getElementById("text").placeholder`)).startsWith("Ask chat."));
	const notes = () => run(`return [...document.querySelectorAll(".assistant:last-child .note")].map((e) => e.textContent)`);
	assert.ok((await notes()).some((n) => /^5 tokens, [\d.]+ tokens\/s$/.test(n)), `${await notes()}`);
	assert.ok((await notes()).includes("Cut off after 5 tokens, as set."));
	assert.equal(await run(`return [...document.querySelectorAll("button")].filter((b) => b.checkVisibility() && b.textContent === "New conversation").length`), 1);
	assert.ok((await run(`return JSON.parse(localStorage["rnp.chat"]).talks[0].turns[1].text`)).length > 0);
	await open();
	assert.deepEqual(await turns(), all);

	// retry makes another answer; edit takes the question back
	await run(`document.querySelector(".assistant .who button").click()`);
	await until(`${idle} && document.querySelectorAll(".turn").length === 2`);
	await run(`document.querySelector(".user .who button").click()`);
	assert.equal(await run(`return document.getElementById("text").value`), "Hello there");
	assert.equal((await turns()).length, 0);

	// a full context is told, and the conversation goes on without its oldest turns
	await type("word ".repeat(60));
	await until(`${idle} && document.querySelectorAll(".turn").length === 2`);
	for (const turn of [4, 6, 8]) {
		await type("word ".repeat(60));
		await until(`${idle} && document.querySelectorAll(".turn").length === ${turn}`);
	}
	assert.equal(await run(`return document.querySelectorAll(".error").length`), 0);
	assert.ok((await notes()).some((n) => /^The context is full: the model no longer sees the first \d turns\.$/.test(n)), `${await notes()}`);
	await run(`document.getElementById("new").click()`);
	assert.ok(complaints.every((c) => c.includes("status of 400")), `${complaints}`); // of turns that were too many
	complaints.length = 0;

	// stop ends a long answer, here and at the server
	await run(`max_tokens.value = ""; max_tokens.dispatchEvent(new Event("change"))`);
	await type("Go on for ever");
	await until(`!(${idle})`);
	await run(`document.dispatchEvent(new KeyboardEvent("keydown", { key: "Escape", bubbles: true }))`);
	await until(idle);

	// a model that says what a browser would like to run
	const hostile = "<script>window.bad = 1</scr" + "ipt><img src=x onerror='window.bad = 2'> [link](javascript:window.bad=3) " +
		"![i](http://127.0.0.1:1/x) <a href='javascript:window.bad=4'>a</a>\n\n# head <b>x</b>\n\n```html\n<script>window.bad = 5</scr" +
		"ipt>\n```\n- item **bold** `code`\n\n" + "x".repeat(20000) + "\n\n| c | d |\n|---|:-:|\n| <b>1</b> | **2** |\n\n| a | b |\n<iframe srcdoc='<script>parent.bad = 6</scr" + "ipt>'></iframe>";
	let asked = null, fails = false;
	await call("Fetch.enable", { patterns: [{ urlPattern: "*/v1/chat/completions" }] });
	heard.push((m) => {
		if (m.method !== "Fetch.requestPaused") return;
		if (fails) {
			call("Fetch.failRequest", { requestId: m.params.requestId, errorReason: "ConnectionRefused" });
			return;
		}
		asked = JSON.parse(m.params.request.postData);
		const events = hostile.match(/[^]{1,7}/gu).map((content) => `data: ${JSON.stringify({ choices: [{ delta: { content } }] })}\n\n`);
		call("Fetch.fulfillRequest", { requestId: m.params.requestId, responseCode: 200,
			responseHeaders: [{ name: "content-type", value: "text/event-stream" }],
			body: Buffer.from(events.join("") + "data: [DONE]\n\n").toString("base64") });
	});
	await run(`document.getElementById("new").click()`);
	// the model and how it draws are what was chosen
	assert.deepEqual(await run(`return [...document.getElementById("model").options].map((o) => o.value)`), ["chat", "other"]);
	await run(`const m = document.getElementById("model"); m.value = "other"; m.dispatchEvent(new Event("change"));
		const t = document.getElementById("temperature"); t.value = "0.25"; t.dispatchEvent(new Event("change"))`);
	await type("Be evil <script>window.bad = 7</scr" + "ipt>");
	await until(`${idle} && document.querySelectorAll(".turn").length === 2`);
	assert.equal(asked.model, "other");
	assert.equal(asked.temperature, 0.25);
	const said = `document.querySelector(".assistant .said")`;
	assert.equal(await run(`return window.bad`), undefined);
	assert.deepEqual(await run(`return [...${said}.querySelectorAll("*")].map((e) => e.tagName.toLowerCase()).filter((t) =>
		!["p", "pre", "code", "h2", "ul", "li", "strong", "em", "table", "tr", "th", "td"].includes(t))`), []);
	assert.equal(await run(`return [...document.querySelectorAll("#talk *")].filter((e) => [...e.attributes].some((a) =>
		/^on|^(href|src|srcdoc|style)$/.test(a.name))).length`), 0);
	assert.ok((await run(`return ${said}.textContent`)).includes("javascript:window.bad=3"));
	assert.equal(await run(`return ${said}.querySelector("pre").textContent.includes("window.bad = 5")`), true);
	assert.deepEqual(await run(`return [...${said}.querySelectorAll("th, td")].map((e) => e.textContent)`), ["c", "d", "<b>1</b>", "2"]);
	await shot("wide", 1200, 800);
	await shot("phone", 360, 740);
	await keyboard();
	// a phone shows one line of a title, and all of the hint
	await until(`document.getElementById("text").scrollHeight <= document.getElementById("text").clientHeight`, "the hint fits");
	assert.ok(await run(`return document.querySelector("header").clientHeight < 60`));
	// dark where the browser is
	const colours = [];
	for (const value of ["light", "dark"]) {
		await call("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value }] });
		colours.push(await run(`return getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3).reduce((a, b) => a + +b, 0)`));
	}
	assert.ok(colours[0] > 600 && colours[1] < 200, `${colours}`);
	await open();
	assert.equal(await run(`return window.bad`), undefined);
	assert.equal((await turns()).length, 2);
	assert.deepEqual(complaints, []);
	// a server that is gone is called so, in a colour that can be read in the dark
	fails = true;
	await type("Are you there?");
	await until(`${idle} && document.querySelectorAll(".error").length === 1`);
	assert.equal(await run(`return document.querySelector(".error").textContent`), "The server cannot be reached.");
	assert.ok((await run(`return getComputedStyle(document.querySelector(".error")).color.match(/\\d+/g).slice(0, 3).reduce((a, b) => a + +b, 0)`)) > 450);
	// a server with keys asks for one in plain sight, and takes it there
	if (process.argv[4]) {
		await call("Fetch.disable");
		await call("Page.navigate", { url: process.argv[4] });
		await until(`document.readyState === "complete" && !document.getElementById("locked").hidden`, "a key is asked for");
		await run(`const k = document.getElementById("key"); k.value = ${JSON.stringify(process.argv[5])}; k.dispatchEvent(new Event("change"))`);
		await until(`document.getElementById("locked").hidden && document.getElementById("model").value === "chat"`, "the key is taken");
	}
	console.log("page: all well");
} finally {
	browser.kill("SIGKILL");
}
