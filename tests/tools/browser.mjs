// browser.mjs - what pages are in Chromium: node tests/tools/browser.mjs CHROMIUM DIR WIDTH,WIDTH... URL...
// A line of JSON for each page and width: title, text, links, width of its content, what it loaded, dialogs
// that it opened, texts within pictures that overlap, or reach over the edge ("cut"). Screenshots are
// DIR/N-WIDTH.png, N the page from 0; a width of "1280d" is that of a dark screen.
import puppeteer from "../../build/node/node_modules/puppeteer-core/lib/esm/puppeteer/puppeteer-core.js";

const [executablePath, dir, widths, ...urls] = process.argv.slice(2);
const browser = await puppeteer.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu"], timeout: 120000 });

async function look(url, n, name) {
	const width = parseInt(name);
	const page = await browser.newPage();
	const loaded = [], dialogs = [];
	page.on("request", (r) => loaded.push(r.url()));
	page.on("dialog", (d) => { dialogs.push(d.message()); d.dismiss(); });
	await page.setViewport({ width, height: 900, isMobile: width < 600, hasTouch: false });
	await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: name.endsWith("d") ? "dark" : "light" }]);
	const reply = await page.goto(url, { waitUntil: "load", timeout: 120000 });
	const seen = await page.evaluate(() => {
		const overlaps = [], cut = [];
		for (const svg of document.querySelectorAll("svg")) {
			const texts = [...svg.querySelectorAll("text")].map((t) => [t.textContent, t.getBoundingClientRect()]);
			const paper = svg.getBoundingClientRect();
			for (const [text, b] of texts)
				if (b.left < paper.left - 1 || b.right > paper.right + 1 || b.top < paper.top - 1 || b.bottom > paper.bottom + 1) cut.push(text);
			for (let i = 0; i < texts.length; i++)
				for (let j = i + 1; j < texts.length; j++) {
					const [a, b] = [texts[i][1], texts[j][1]];
					const x = Math.min(a.right, b.right) - Math.max(a.left, b.left);
					const y = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
					if (x > 1 && y > 3) overlaps.push([texts[i][0], texts[j][0]]);
				}
		}
		const shown = (e) => { const b = e.getBoundingClientRect(); return b.width > 0 && b.height > 0; };
		const sizes = [...document.querySelectorAll("svg text")].filter(shown).map((t) => {
			const to = t.getScreenCTM();
			return parseFloat(getComputedStyle(t).fontSize) * Math.hypot(to.a, to.b);
		});
		return {
			smallest: Math.min(1e9, ...sizes), // of texts in pictures, in pixels
			title: document.title,
			text: document.body.innerText,
			links: [...document.querySelectorAll("a")].map((a) => a.getAttribute("href")),
			width: document.documentElement.scrollWidth,
			hidden: [...document.querySelectorAll("td a")].filter((e) => !shown(e)).length,
			paper: document.querySelector("svg rect") && getComputedStyle(document.querySelector("svg rect")).fill,
			overlaps,
			cut,
		};
	});
	await page.screenshot({ path: `${dir}/${n}-${name}.png`, fullPage: true });
	await page.close();
	console.log(JSON.stringify({ url, at: name, status: reply.status?.() ?? 0, ...seen, loaded, dialogs }));
}

try {
	for (const [n, url] of urls.entries())
		for (const name of widths.split(",")) await look(url, n, name);
} finally {
	await browser.close();
}
