// Ids by Hugging Face's own JavaScript tokenizers: hf_tokenizers.mjs MODULE DIR FILE...
// One JSON array a file, as `rnp-train tokenize --ids --whole` prints them. DIR has tokenizer.json.
import {existsSync, readFileSync} from "node:fs";
const [module, dir, ...files] = process.argv.slice(2);
const {Tokenizer} = await import(module + "/dist/tokenizers.mjs");
const read = name => JSON.parse(readFileSync(`${dir}/${name}`, "utf8"));
const config = existsSync(`${dir}/tokenizer_config.json`) ? read("tokenizer_config.json") : {};
const tokenizer = new Tokenizer(read("tokenizer.json"), config);
for (const file of files)
	console.log(JSON.stringify(
		[...tokenizer.encode(readFileSync(file, "utf8"), {add_special_tokens: false}).ids].map(Number)));
