// solana_signer.mjs - a signer outside of rnp-reward: reads an rnp.signing, refuses what it does not understand,
// answers the signature in base58. Usage: node solana_signer.mjs KEYPAIR LOG; the request is appended to LOG.
import { createPrivateKey, sign } from "node:crypto";
import { appendFileSync, readFileSync } from "node:fs";

const [keypair, log] = process.argv.slice(2);
const text = readFileSync(0, "utf8"), request = JSON.parse(text);
appendFileSync(log, text);
if (request.kind !== "rnp.signing" || request.words.some((line) => line.startsWith("UNKNOWN")))
	process.exit(1);
const seed = Buffer.from(JSON.parse(readFileSync(keypair, "utf8")).slice(0, 32));
const key = createPrivateKey({ format: "der", type: "pkcs8",
	key: Buffer.concat([Buffer.from("302e020100300506032b657004220420", "hex"), seed]) });
const alphabet = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
const signature = sign(null, Buffer.from(request.message, "base64"), key);
let n = BigInt("0x" + signature.toString("hex")), out = "";
for (; n; n /= 58n)
	out = alphabet[Number(n % 58n)] + out;
console.log("1".repeat(signature.findIndex((byte) => byte)) + out);
