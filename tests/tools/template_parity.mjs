// Texts by Hugging Face's own template engine: template_parity.mjs UNIT MODULE
// Our engine (UNIT FILE renders each line of standard input) against theirs, on templates of our
// own in the styles of the real ones, with drawn conversations. Prints each difference.
import {spawnSync} from "node:child_process";
import {mkdtempSync, rmSync, writeFileSync} from "node:fs";
import {tmpdir} from "node:os";
const [unit, module] = process.argv.slice(2);
const {Template} = await import(module);

const templates = {
	turns: `{{ bos_token }}{% for message in messages %}
{% if message['role'] == 'user' %}
    {{- '[INST] ' + message['content'] | trim + ' [/INST]' -}}
{% elif message['role'] == 'assistant' %}
    {{ message['content'] ~ eos_token }}
{%- else %}
[{{ message.role | upper }}]: {{ message.content }}
{% endif %}
{% endfor %}
{% if add_generation_prompt %}go{% endif %}
`,
	system: `{%- if messages[0].role == 'system' -%}
{%- set system = messages[0]['content'] -%}{%- set rest = messages[1:] -%}
{%- else -%}{%- set system = '' -%}{%- set rest = messages -%}{%- endif -%}
{%- for m in rest -%}
{%- if loop.first and system -%}<<{{ system.strip() }}>>
{% endif -%}
{{ loop.index }}/{{ loop.length }} {{ '<' + m.role + '>' }}{{ m.content }}{% if not loop.last %}, {% endif %}
{%- endfor -%}`,
	tools: `{% macro show(tool) %}
- {{ tool.function.name }}: {{ tool.function.description | default('no words', true) }}
{% for name, p in tool.function.parameters.properties.items() %}
    {{ name }} ({{ p.type }}{% if name in tool.function.parameters.required %}, required{% endif %})
{% endfor %}
{% endmacro %}
{% if tools %}
Tools:
{% for tool in tools %}{{ show(tool) }}{% endfor %}
{{ tools | tojson }}
{% for tool in tools %}{{ tool | tojson(indent=4) }}
{% endfor %}
{% endif %}
{%- for m in messages %}
{%- if m.tool_calls %}{% for call in m.tool_calls %}<call>{{ call.function.name }}({{ call.function.arguments | tojson }})</call>{% endfor %}
{%- elif m.role == 'tool' %}<result>{{ m.content }}</result>
{%- else %}|{{ m.content }}|
{%- endif %}{% endfor %}`,
	state: `{% set ns = namespace(n=0, last='') %}{% for m in messages %}
{% if m.role == ns.last %}again {% endif %}
{% set ns.last = m.role %}{% set ns.n = ns.n + m.content | length %}
{{ ns.n }}:{{ 'even' if loop.index0 % 2 == 0 }}:{{ m.content[:5] }}:{{ m.content[-3:] }}
{% endfor %}total {{ ns.n }}`,
	thinking: `{% for m in messages %}{% set content = m.content %}
{% if m.role == 'assistant' and '</think>' in content %}
{% set reason = content.split('</think>')[0].split('<think>')[-1].strip('\\n') %}
{% set content = content.split('</think>')[-1].lstrip('\\n') %}
({{ reason }})
{%- endif %}
{{ content }}{{ "\\n" }}{% endfor %}`,
	select: `{{ messages | selectattr('role', 'equalto', 'user') | list | length }}
{{ messages | map(attribute='role') | join(', ') }}
{% for m in messages if m.role != 'system' %}{{ m.role[0] }}{% else %}nobody{% endfor %}
{{ messages | rejectattr('role', 'equalto', 'tool') | map(attribute='content') | join(' | ') }}`,
	choice: `{{ 'many' if messages | length > 3 else 'few' }} {{ (tools is defined) | string | lower }} {{ (nothing is defined) | string | lower }}
{{- 'y' if messages[-1].role in ['user', 'tool'] }} {{ 'n' if not tools }} {{ 's' if messages[0].content is string }}
{{- (1, 2) | length }}{{ [1, 2.5, 'a', true, none] | tojson }}{{ {'a': 1}['a'] }}{{ {'a': 1}.get('b', 3) }}`,
	blocks: `{% set text %}
  {% for m in messages %}{{ m.content }};{% endfor %}

{% endset %}
[{{ text | trim }}] {% filter upper %}{{ messages[0].content }}{% endfilter %}
{# a comment
   of two lines #}
  {%- for i in range(3) %}{% if i == 1 %}{% break %}{% endif %}{{ i }}{% endfor %}
  x
    {% if true %}y{% endif %}`,
};

let seed = 1;
const draw = n => (seed = (seed * 1103515245 + 12345) % 2147483648, Math.floor(seed / 65536) % n);
const words = ["Hi", "  two\nlines\n", "\"quoted\" 'text'", "<b>&amp;</b>", "žluťoučký ✓", "\\n \t", "<think>\nhm\n</think>\n\nso",
	"{{ not }}", "<|im_end|>", "a, b, c", "日本語", "0"];
const text = () => Array.from({length: 1 + draw(3)}, () => words[draw(words.length)]).join(draw(2) ? " " : "");
const conversation = () => {
	const messages = draw(2) ? [{role: "system", content: text()}] : [];
	for (let i = 0, n = 1 + draw(5); i < n; i++) {
		messages.push({role: "user", content: text()});
		if (draw(3) === 0)
			messages.push({role: "assistant", content: "", tool_calls: [{id: "x", type: "function", function:
				{name: "f", arguments: {a: draw(100), b: text(), c: [true, null, 0.5]}}}]},
				{role: "tool", content: text()});
		else if (draw(2))
			messages.push({role: "assistant", content: text()});
	}
	const v = {messages, add_generation_prompt: draw(2) === 1};
	if (draw(2))
		v.tools = [{type: "function", function: {name: "f", description: draw(2) ? text() : "", parameters:
			{type: "object", properties: {a: {type: "integer"}, b: {type: "string", description: text()}}, required: ["a"]}}}];
	return v;
};

const dir = mkdtempSync(`${tmpdir()}/template`);
let count = 0, bad = 0;
for (const [name, source] of Object.entries(templates)) {
	const theirs = new Template(source);
	const cases = Array.from({length: 60}, conversation);
	writeFileSync(`${dir}/t`, source);
	const out = spawnSync(unit, [`${dir}/t`], {input: cases.map(c => JSON.stringify(c) + "\n").join(""), encoding: "utf8"});
	const ours = out.stdout.trim().split("\n").map(l => JSON.parse(l));
	cases.forEach((c, i) => {
		let want;
		try {
			want = theirs.render({...c, bos_token: "<s>", eos_token: "</s>"});
		} catch (e) {
			want = null;
		}
		count++;
		if (want === null ? !("error" in ours[i]) : ours[i].text !== want) {
			bad++;
			console.log(name, JSON.stringify(ours[i]), "not", JSON.stringify(want));
		}
	});
}
rmSync(dir, {recursive: true});
console.log(`${count} texts, ${bad} differ`);
process.exit(bad > 0 ? 1 : 0);
