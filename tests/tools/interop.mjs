// interop.mjs - eddsa-jcs-2022 once more, by Node.js and the npm package canonicalize, to hold
// ours against. Usage: node interop.mjs numbers N SEED | verify | sign SEED_HEX DID CREATED
// Reads records on standard input, one a line. CANONICALIZE: path of the package.
import { createHash, createPrivateKey, createPublicKey, sign, verify } from "node:crypto";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const canonicalize = process.env.CANONICALIZE ?
	createRequire(pathToFileURL(process.env.CANONICALIZE + "/"))("canonicalize") : null;
const alphabet = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";

function base58(bytes) {
	let n = BigInt("0x0" + Buffer.from(bytes).toString("hex")), text = "";
	for (; n; n /= 58n)
		text = alphabet[Number(n % 58n)] + text;
	for (const b of bytes) {
		if (b)
			break;
		text = "1" + text;
	}
	return text;
}

function fromBase58(text) {
	let n = 0n;
	for (const c of text)
		n = n * 58n + BigInt(alphabet.indexOf(c));
	const hex = n.toString(16);
	const zeros = text.match(/^1*/)[0].length;
	return Buffer.concat([Buffer.alloc(zeros), Buffer.from(hex.length % 2 ? "0" + hex : hex, "hex")]);
}

const sha256 = (text) => createHash("sha256").update(text, "utf8").digest();

function hashes(record, proof) {
	const { proof: _, ...document } = record;
	const { proofValue: __, ...config } = proof;
	return Buffer.concat([sha256(canonicalize(config)), sha256(canonicalize(document))]);
}

function good(record) {
	const proof = record.proof;
	const raw = fromBase58(proof.verificationMethod.split("#")[1].slice(1)).subarray(2);
	const key = createPublicKey({ format: "der", type: "spki",
		key: Buffer.concat([Buffer.from("302a300506032b6570032100", "hex"), raw]) });
	return verify(null, hashes(record, proof), key, fromBase58(proof.proofValue.slice(1)));
}

function signed(record, seedHex, did, created) {
	const key = createPrivateKey({ format: "der", type: "pkcs8",
		key: Buffer.concat([Buffer.from("302e020100300506032b657004220420", "hex"),
			Buffer.from(seedHex, "hex")]) });
	const proof = { type: "DataIntegrityProof", cryptosuite: "eddsa-jcs-2022", created,
		verificationMethod: did + "#" + did.slice("did:key:".length),
		proofPurpose: "assertionMethod" };
	if (record["@context"])
		proof["@context"] = record["@context"];
	proof.proofValue = "z" + base58(sign(null, hashes(record, proof), key));
	return { ...record, proof };
}

// Doubles of random bits, as hashes of a counter: 17 digits in, what JSON.stringify has out.
function numbers(n, seed) {
	const view = new DataView(new ArrayBuffer(8));
	for (let i = 0; n > 0; i++) {
		const bytes = sha256(`${seed} ${i}`);
		for (let k = 0; k < 8; k++)
			view.setUint8(k, bytes[k]);
		if (i % 4 === 1) // of everyday size
			view.setUint16(0, (bytes[0] & 0x80) << 8 | 0x3c00 + bytes[1] * 8 + (bytes[2] & 7));
		const v = view.getFloat64(0);
		if (!Number.isFinite(v))
			continue;
		n--;
		process.stdout.write(`${v.toExponential(16 + (i & 1) * 10)}\t${JSON.stringify(v)}\n`);
	}
}

const [what, ...args] = process.argv.slice(2);
const lines = () => readFileSync(0, "utf8").split("\n").filter((line) => line);

if (what === "numbers")
	numbers(Number(args[0]), args[1]);
else if (what === "canon")
	for (const line of lines())
		process.stdout.write(canonicalize(JSON.parse(line)) + "\n");
else if (what === "verify")
	for (const line of lines())
		process.stdout.write(`${good(JSON.parse(line))}\n`);
else if (what === "sign")
	for (const line of lines())
		process.stdout.write(JSON.stringify(signed(JSON.parse(line), ...args)) + "\n");
else
	process.exit(64);
