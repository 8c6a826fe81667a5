// Texts of a random model under drawn schemas, judged by ajv: schema_ajv.mjs UNIT AJV N
// 200 schemas; N texts of each are made by random walks through the masks. All must be JSON that ajv
// accepts.
import {spawnSync} from "node:child_process";
import {createRequire} from "node:module";
const [unit, ajv, count] = process.argv.slice(2);
const Ajv = createRequire(import.meta.url)(ajv + "/dist/2020.js").default;

let seed = 7;
const draw = n => (seed = (seed * 1103515245 + 12345) % 2147483648, Math.floor(seed / 65536) % n);
const names = ["a", "name", "ab", "x y", "ünï", "list", "na", "zip"];
const scalar = () => [
	{type: "integer", minimum: -draw(20), maximum: draw(300)}, {type: "integer", multipleOf: 1 + draw(9)},
	{type: "number", exclusiveMinimum: -1.5, maximum: 2 + draw(3)}, {type: "number"}, {type: "boolean"}, {type: "null"},
	{type: "string"}, {type: "string", minLength: draw(3), maxLength: 3 + draw(9)}, {type: "string", pattern: "^[a-z]{1,4}(-[0-9]+)?$"},
	{type: "string", pattern: "ba|\\d\\d"}, {enum: ["red", "green", 3, null, [1, "x"], {k: true}]}, {const: "fixed \"text\""},
	{type: ["string", "null"], maxLength: 5}, {type: "integer", minimum: 1e6}][draw(14)];
const schema = depth => {
	if (depth <= 0)
		return scalar();
	switch (draw(7)) {
	case 0:
	case 1: {
		const properties = {}, required = [];
		for (let i = 0, n = 1 + draw(4); i < n; i++) {
			const name = names[draw(names.length)];
			properties[name] = schema(depth - 1);
			if (draw(2) && !required.includes(name))
				required.push(name);
		}
		const s = {type: "object", properties, required};
		if (draw(3))
			s.additionalProperties = draw(3) ? false : scalar();
		if (draw(4) === 0)
			s.patternProperties = {"^q": {type: "boolean"}};
		if (draw(3) === 0)
			s.maxProperties = required.length + draw(3);
		if (draw(3) === 0)
			s.minProperties = s.additionalProperties === false && !s.patternProperties ? Object.keys(properties).length : 1;
		return s;
	}
	case 2:
		if (draw(3) === 0)
			return {type: "array", items: [{enum: ["a", "ab", 1, null, 2.5]}, {type: "boolean"}, {type: "integer", minimum: 3, maximum: 9}][draw(3)],
				uniqueItems: true, minItems: draw(3)};
		return {type: "array", items: schema(depth - 1), minItems: draw(2), maxItems: 1 + draw(4)};
	case 3:
		return {type: "array", prefixItems: [schema(depth - 1), scalar()], items: draw(2) ? false : scalar()};
	case 4:
		return {anyOf: [schema(depth - 1), schema(depth - 1)]};
	case 5:
		return {allOf: [{type: "object", properties: {a: scalar()}, required: ["a"]}, {properties: {b: scalar()}}]};
	default:
		return draw(2) ? {type: "object", properties: {v: scalar(), next: {$ref: "#/$defs/n"}}, required: ["v"], additionalProperties: false} :
			scalar();
	}
};

const schemas = Array.from({length: 200}, (_, i) => schema(1 + i % 3)).map(s => ({...JSON.parse(JSON.stringify(s)),
	$defs: {n: {anyOf: [{type: "null"}, {type: "array", items: {$ref: "#/$defs/n"}, maxItems: 2}]}}}));
const out = spawnSync(unit, ["--walk", count, "1"], {input: schemas.map(s => JSON.stringify({schema: s}) + "\n").join(""),
	encoding: "utf8", maxBuffer: 1 << 28});
process.stderr.write(out.stderr);
let texts = 0, refused = 0, bad = 0;
out.stdout.trim().split("\n").forEach((line, i) => {
	const made = JSON.parse(line);
	if (!Array.isArray(made)) {
		refused++;
		// the only way in which these are refused: their parts exclude each other
		if (!made.error.includes("no value can satisfy")) {
			bad++;
			console.log(JSON.stringify(schemas[i]), made.error);
		}
		return;
	}
	const validate = new Ajv({strict: false}).compile(schemas[i]);
	for (const text of made) {
		texts++;
		try {
			if (validate(JSON.parse(text)))
				continue;
		} catch (e) {
			validate.errors = String(e);
		}
		bad++;
		console.log(JSON.stringify(schemas[i]), text, JSON.stringify(validate.errors));
	}
});
console.log(`${texts} texts under ${schemas.length - refused} schemas, ${refused} refused, ${bad} bad`);
process.exit(bad > 0 || out.status !== 0 || texts < 100 * Number(count) ? 1 : 0);
