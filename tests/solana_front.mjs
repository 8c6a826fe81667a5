// solana_front.mjs - three Solana RPC servers over one real virtual machine (litesvm), of which any may
// lie. Usage: node solana_front.mjs DIR PAYER [DECIMALS [BLOCK_MS [POOL [NEW_OR_OLD_WALLETS_FILE]]]]
// RNP_FRONT: {"token_2022": true, "extensions": hex of more extensions of that mint, "fee_bps": N, "fee_max": N, "hook": true, "authority": true, "nonces": N, "lamports": N}: a
// mint of Token-2022 with a transfer fee or a hook; the payer may issue; that many nonce accounts, and so much SOL, of the payer.
// Writes DIR/front.json (urls, mint, genesis) once it listens; ends when DIR/front.json is removed.
// POST /control {"lies": [["null"], [], []], "forks": 1, "block_ms": N, "pass": blocks that pass at once, "land_failures": true, "freeze": [wallets], "extend": {wallet: hex of its account's extensions},
// "steal": [wallets], "place": {"token": [addresses], "mint": .., "stake": .., "wallet": ..}, "advance": [nonce accounts], "stranger": memo, "forged": [{signature, memo, bytes}],
// "shown": [base64 for each server]} sets, and answers what each wallet has, how many transactions landed, the bytes of the last, and how often bytes were asked for.
//
// One block every BLOCK_MS; a transaction is processed at once, confirmed after 2 blocks, final after
// 8. A blockhash is good for at most 150 blocks. A fork takes back what is confirmed and not final.
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { createHash } from "node:crypto";
import { existsSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const load = createRequire(pathToFileURL(process.env.NODE_MODULES + "/"));
const kit = load("@solana/kit"), token = load("@solana-program/token");
const { LiteSVM, FailedTransactionMetadata } = await import(load.resolve("litesvm"));

let [dir, payer, decimals = "8", blockMs = "10", pool = "1000000000000000", existing] = process.argv.slice(2);
const setup = JSON.parse(process.env.RNP_FRONT ?? "{}");
const TOKEN = setup.token_2022 ? "TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb" : "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA";
const SYSTEM = "11111111111111111111111111111111", MEMO = "MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr";
const GENESIS = "EtWTRABZaYq6iMfeYKouRu166VU2xqa1wcaWoxPkrZBG", OTHER = "4uhcVJyU9pJkvQyS88uRDiswHXSCkY3zQawwpjk2NsNY";
const FINAL = 8, CONFIRMED = 2, VALID = 150;

let svm = new LiteSVM();
const bytesOf = (address) => kit.getAddressEncoder().encode(address);
const addressOf = (bytes) => kit.getAddressDecoder().decode(bytes);
const mint = addressOf(createHash("sha256").update("mint").digest());

function setAccount(address, data, programAddress = TOKEN) {
	svm.setAccount({ address, data, executable: false, lamports: kit.lamports(10000000n), programAddress,
		space: BigInt(data.length) });
}
function tokenAccount(owner, amount, state = 1) {
	const data = Buffer.alloc(165);
	Buffer.from(bytesOf(mint)).copy(data, 0);
	Buffer.from(bytesOf(owner)).copy(data, 32);
	data.writeBigUInt64LE(BigInt(amount), 64);
	data[108] = state;
	// Token-2022: account type, and what a fee withholds
	return setup.fee_bps ? Buffer.concat([data, Buffer.from([2, 2, 0, 8, 0]), Buffer.alloc(8)]) : data;
}
// the extensions of a mint: type, length, content
function extended(data) {
	const parts = [data, Buffer.alloc(165 - data.length), Buffer.from([1])];
	if (setup.fee_bps) {
		const fee = Buffer.alloc(108);
		for (const at of [72, 90]) {
			fee.writeBigUInt64LE(BigInt(setup.fee_max), at + 8);
			fee.writeUInt16LE(setup.fee_bps, at + 16);
		}
		parts.push(Buffer.from([1, 0, 108, 0]), fee);
	}
	if (setup.hook)
		parts.push(Buffer.from([14, 0, 64, 0]), Buffer.alloc(64, 7));
	return Buffer.concat([...parts, Buffer.from(setup.extensions ?? "", "hex")]);
}
function nonceAccount(value) {
	const data = Buffer.alloc(80);
	data[0] = data[4] = 1;
	Buffer.from(bytesOf(payer)).copy(data, 8);
	value.copy(data, 40);
	data.writeBigUInt64LE(5000n, 72);
	return data;
}
const ata = async (owner) => (await token.findAssociatedTokenPda({ mint, owner, tokenProgram: TOKEN }))[0];

const mintData = Buffer.alloc(82);
mintData.writeBigUInt64LE(BigInt(pool), 36);
mintData[44] = Number(decimals);
mintData[45] = 1;
if (setup.authority) {
	mintData[0] = 1;
	Buffer.from(bytesOf(payer)).copy(mintData, 4);
}
setAccount(mint, setup.token_2022 ? extended(mintData) : mintData);
const nonces = Array.from({ length: setup.nonces ?? 0 }, (_, i) =>
	addressOf(createHash("sha256").update(`nonce ${i}`).digest()));
nonces.forEach((a, i) => setAccount(a, nonceAccount(createHash("sha256").update(`value ${i}`).digest()), SYSTEM));
const firstNonces = Object.fromEntries(nonces.map((a) => [a, svm.getAccount(a).data]));
const ownAccount = await ata(payer);
setAccount(ownAccount, tokenAccount(payer, pool));
svm.airdrop(payer, kit.lamports(BigInt(setup.lamports ?? 1000000000000n)));
if (existing)
	for (const wallet of readFileSync(existing, "utf8").split("\n").filter(Boolean))
		setAccount(await ata(wallet), tokenAccount(wallet, 0));

const hashesAt = new Map(); // blockhash: height at which it was made
let height = 1000, hashHeight = 1000, forks = 0, landFailures = false, snapshot = null;
let lies = [[], [], []], landed = new Map(), late = [], oldHash = svm.latestBlockhash(), frozen = [null, null, null];
const executed = [];
let past = []; // of what has landed: its bytes, memos and accounts
let shows = 0; // questions for the bytes of a transaction
let forged = []; // what a server that lies adds to that
let shown = []; // what a server that lies ("swapped") gives as the bytes of any transaction

function remember(tx, signature) {
	const m = kit.getCompiledTransactionMessageDecoder().decode(tx.messageBytes);
	const memos = m.instructions.filter((i) => m.staticAccounts[i.programAddressIndex] === MEMO)
		.map((i) => `[${i.data.length}] ${Buffer.from(i.data)}`);
	past.push({ signature, memo: memos.length ? memos.join("; ") : null, accounts: m.staticAccounts,
		at: Math.floor(Date.now() / 1000), bytes: Buffer.from(kit.getTransactionEncoder().encode(tx)).toString("base64") });
}

function execute(tx, signature) {
	if (landed.has(signature))
		return;
	if (forks && !snapshot)
		snapshot = { svm: svm.toBytes(), landed: new Map(landed), at: height, hashHeight, executed: executed.length,
			past: past.length };
	const simulated = landFailures ? null : svm.simulateTransaction(tx);
	if (simulated instanceof FailedTransactionMetadata)
		return simulated.toString();
	const result = svm.sendTransaction(tx);
	if (result instanceof FailedTransactionMetadata) {
		const text = String(result.err?.() ?? result);
		// an unknown or expired blockhash never lands
		if (!landFailures || text === "7" || text === "6" || /Blockhash|AlreadyProcessed/.test(text))
			return text;
		landed.set(signature, { height, err: { InstructionError: [0, "Custom"] } });
		remember(tx, signature);
		return;
	}
	landed.set(signature, { height, err: null });
	remember(tx, signature);
	executed.push(signature);
}

function block() {
	setTimeout(block, Number(blockMs));
	height++;
	for (const x of late.filter((x) => x.at <= height))
		execute(x.tx, x.signature);
	late = late.filter((x) => x.at > height);
	if (snapshot && height >= snapshot.at + CONFIRMED + 2) {
		svm = LiteSVM.fromBytes(snapshot.svm);
		landed = snapshot.landed;
		executed.length = snapshot.executed;
		past.length = snapshot.past;
		hashHeight = snapshot.hashHeight;
		snapshot = null;
		forks--;
	}
	if (height >= hashHeight + VALID && !snapshot) {
		oldHash = svm.latestBlockhash();
		svm.expireBlockhash();
		hashHeight = height;
		hashesAt.set(svm.latestBlockhash(), height);
	}
	if (!existsSync(dir + "/front.json"))
		process.exit(0);
}
hashesAt.set(svm.latestBlockhash(), height);
setTimeout(block, Number(blockMs));

const lying = (server, lie) => lies[server].includes(lie);
const sometimes = () => Math.random() < 0.5;

function heightFor(server, commitment) {
	let h = height - (commitment === "finalized" ? FINAL : commitment === "confirmed" ? CONFIRMED : 0);
	if (lying(server, "ahead"))
		h += 100000;
	if (lying(server, "behind"))
		h = frozen[server] ??= h;
	return h;
}

function statusFor(server, signature) {
	if (lying(server, "null"))
		return null;
	if (lying(server, "processed"))
		return { slot: height, confirmations: 0, err: null, confirmationStatus: "processed" };
	if (lying(server, "final") || lying(server, "confirmed"))
		return { slot: height, confirmations: null, err: null, confirmationStatus: lying(server, "final") ? "finalized" : "confirmed" };
	if (lying(server, "failed"))
		return { slot: height, confirmations: null, err: { InstructionError: [0, "Custom"] }, confirmationStatus: "finalized" };
	const t = landed.get(signature);
	if (!t)
		return null;
	const age = height - t.height;
	return { slot: t.height, confirmations: age >= FINAL ? null : age, err: t.err,
		status: t.err ? { Err: t.err } : { Ok: null },
		confirmationStatus: age >= FINAL ? "finalized" : age >= CONFIRMED ? "confirmed" : "processed" };
}

function accountFor(server, address) {
	if (lying(server, "noaccount") && address !== ownAccount && address !== mint)
		return null;
	const a = svm.getAccount(address);
	if (!a.exists)
		return null;
	if (lying(server, "plain"))
		a.data = a.data.slice(0, 165); // no extensions
	if (lying(server, "oldnonce") && firstNonces[address])
		a.data = firstNonces[address];
	return { data: [Buffer.from(a.data).toString("base64"), "base64"], executable: a.executable, lamports: Number(a.lamports),
		owner: a.programAddress, rentEpoch: 0, space: a.data.length };
}

// that the payment to the last wallet fails
const blame = (tx) => `InstructionError(${kit.getCompiledTransactionMessageDecoder().decode(tx.messageBytes).instructions.length - 1}, Custom(36))`;
// a server names the instruction that fails in data, another one in words, as nodes have them, and a third as Rust has them
function refusal(server, error) {
	const failed = error.match(/InstructionError\((\d+)/);
	const text = !failed || server === 2 ? error : server ? `Error processing Instruction ${failed[1]}: custom program error` : "a program's error";
	return { code: -32002, message: `Transaction simulation failed: ${text}`,
		data: failed && !server ? { err: { InstructionError: [Number(failed[1]), { Custom: 36 }] } } : undefined };
}

const context = () => ({ slot: height, apiVersion: "2.0.0" });
const methods = {
	getGenesisHash: (s) => lying(s, "genesis") ? OTHER : GENESIS,
	getBlockHeight: (s, [o]) => heightFor(s, o?.commitment ?? "finalized"),
	getLatestBlockhash: (s) => {
		const blockhash = lying(s, "stale") ? oldHash : lying(s, "fakehash") ?
			addressOf(createHash("sha256").update(String(Math.random())).digest()) : svm.latestBlockhash();
		const valid = hashHeight + VALID + (lying(s, "early") ? -1000 : 0) + (lying(s, "ahead") ? 100000 : 0);
		return { context: context(), value: { blockhash, lastValidBlockHeight: valid } };
	},
	// a hash that is younger than what is final is not known yet
	isBlockhashValid: (s, [hash]) => {
		const slot = lying(s, "behind") ? heightFor(s, "finalized") : height - FINAL, made = hashesAt.get(hash);
		return { context: { slot }, value: lying(s, "fresh") || (made <= slot && slot <= made + VALID) };
	},
	getMultipleAccounts: (s, [list]) => ({ context: context(), value: list.map((a) => accountFor(s, a)) }),
	getSignatureStatuses: (s, [list]) => ({ context: context(), value: list.map((x) => statusFor(s, x)) }),
	getFirstAvailableBlock: (s) => lying(s, "pruned") ? 500 : 0,
	getBlockTime: (s, [slot]) => lying(s, "pruned") && slot === 500 ? Math.floor(Date.now() / 1000) : null,
	getSignaturesForAddress: (s, [address, o]) => {
		const seen = lying(s, "nopast") || lying(s, "pruned") ? [] : past.filter((x) => x.accounts.includes(address) &&
			height - (landed.get(x.signature)?.height ?? 0) >= CONFIRMED).reverse();
		if (lying(s, "endless"))
			return forged.map((x) => ({ signature: x.signature, slot: height, err: null, memo: x.memo, blockTime: x.at }));
		if (lying(s, "forged"))
			seen.unshift(...forged);
		const from = o?.before ? seen.findIndex((x) => x.signature === o.before) + 1 : 0;
		const to = o?.until ? seen.findIndex((x) => x.signature === o.until) : -1;
		return seen.slice(from, to < 0 ? undefined : to).slice(0, lying(s, "short") ? 2 : o?.limit ?? 1000).map((x) => ({ signature: x.signature,
			slot: height, err: landed.get(x.signature)?.err ?? null, memo: x.memo, blockTime: x.at, confirmationStatus: "confirmed" }));
	},
	getTransaction: (s, [signature]) => {
		shows++;
		if (lying(s, "noshow"))
			return null;
		if (lying(s, "swapped"))
			return { slot: height, meta: { err: null }, version: 0, transaction: [shown[s] ?? "", "base64"] };
		const x = past.find((x) => x.signature === signature) ?? (lying(s, "forged") && forged.find((x) => x.signature === signature));
		return x?.bytes ? { slot: height, blockTime: x.at, meta: { err: null }, version: 0, transaction: [x.bytes, "base64"] } : null;
	},
	sendTransaction: (s, [base64]) => {
		const tx = kit.getTransactionDecoder().decode(Buffer.from(base64, "base64"));
		const signature = kit.getSignatureFromTransaction(tx);
		if (lying(s, "drop"))
			return signature;
		if (lying(s, "late")) {
			if (!late.some((x) => x.signature === signature))
				late.push({ at: height + 60, tx, signature });
			return signature;
		}
		const error = lying(s, "blame") ? blame(tx) : execute(tx, signature);
		if (lying(s, "accept-hangup"))
			return "hangup";
		if (error || lying(s, "error"))
			throw refusal(s, String(error));
		return signature;
	},
};

function answer(server, text) {
	const q = JSON.parse(text);
	const reply = { jsonrpc: "2.0", id: lying(server, "id") && sometimes() ? q.id + 1 : q.id };
	try {
		reply.result = methods[q.method](server, q.params ?? []);
	} catch (e) {
		reply.error = { code: e.code ?? -32601, message: String(e.message ?? e), data: e.data };
	}
	return reply;
}

// A stranger sends lamports to the payer's token account, with a memo, which somebody else may sign, too.
async function tryStrange(memo, witness) {
	const who = await kit.generateKeyPairSigner(), other = await kit.generateKeyPairSigner(), data = Buffer.alloc(12);
	svm.airdrop(who.address, kit.lamports(1000000000n));
	data.writeUInt32LE(2, 0);
	data.writeBigUInt64LE(1n, 4);
	const message = kit.pipe(kit.createTransactionMessage({ version: 0 }),
		(m) => kit.setTransactionMessageFeePayerSigner(who, m),
		(m) => kit.setTransactionMessageLifetimeUsingBlockhash({ blockhash: svm.latestBlockhash(), lastValidBlockHeight: 1n << 40n }, m),
		(m) => kit.appendTransactionMessageInstructions([
			{ programAddress: MEMO, data: new TextEncoder().encode(memo), accounts: witness ?
				[{ address: other.address, role: kit.AccountRole.READONLY_SIGNER, signer: other }] : [] },
			{ programAddress: SYSTEM, data: new Uint8Array(data), accounts: [
				{ address: who.address, role: kit.AccountRole.WRITABLE_SIGNER }, { address: ownAccount, role: kit.AccountRole.WRITABLE }] }], m));
	const tx = await kit.signTransactionMessageWithSigners(message);
	return execute(tx, kit.getSignatureFromTransaction(tx));
}
async function strange(memo, witness) {
	for (;;) {
		const before = height, error = await tryStrange(memo, witness);
		if (!error)
			return;
		// on a busy machine the blockhash may expire before the transaction is signed
		if (height - before < VALID)
			throw new Error(`the stranger's transaction: ${error}`);
	}
}

async function control(text) {
	const c = JSON.parse(text);
	if (c.lies) { lies = c.lies; frozen = [null, null, null]; }
	if (c.forks !== undefined) forks = c.forks;
	if (c.block_ms !== undefined) blockMs = c.block_ms;
	if (c.pass) {
		for (const x of late.splice(0))
			execute(x.tx, x.signature);
		height += c.pass; // the next block() expires the blockhash
	}
	if (c.land_failures !== undefined) landFailures = c.land_failures;
	for (const wallet of c.freeze ?? [])
		setAccount(await ata(wallet), tokenAccount(wallet, 0, 2));
	for (const [wallet, hex] of Object.entries(c.extend ?? {}))
		setAccount(await ata(wallet), Buffer.concat([tokenAccount(wallet, 0), Buffer.from("02" + hex, "hex")]));
	for (const wallet of c.steal ?? [])
		setAccount(await ata(wallet), tokenAccount(payer, 0));
	for (const [what, list] of Object.entries(c.place ?? {}))
		for (const address of list)
			what === "wallet" ? svm.airdrop(address, kit.lamports(1000000n)) :
			what === "token" ? setAccount(address, tokenAccount(payer, 0)) : what === "mint" ? setAccount(address, mintData) :
			setAccount(address, Buffer.alloc(200), "Stake11111111111111111111111111111111111111");
	for (const nonce of c.advance ?? [])
		setAccount(nonce, nonceAccount(createHash("sha256").update(String(Math.random())).digest()), SYSTEM);
	if (c.forged)
		forged = c.forged.map((x) => ({ at: Math.floor(Date.now() / 1000), ...x }));
	if (c.shown)
		shown = c.shown;
	if (c.stranger)
		await strange(c.stranger, c.witness);
	const accounts = await Promise.all((c.wallets ?? []).map(ata)), has = {};
	// no block passes while these are read
	const sum = (address) => {
		const a = svm.getAccount(address);
		return a.exists ? Number(Buffer.from(a.data).readBigUInt64LE(64)) : 0;
	};
	(c.wallets ?? []).forEach((wallet, i) => { has[wallet] = sum(accounts[i]); });
	return { height, landed: executed.length, has, payer: sum(ownAccount),
		supply: Number(Buffer.from(svm.getAccount(mint).data).readBigUInt64LE(36)),
		last: past.at(-1)?.bytes, shows };
}

function serve(server) {
	return createServer((request, response) => {
		const parts = [];
		request.on("data", (d) => parts.push(d));
		request.on("end", async () => {
			const text = Buffer.concat(parts).toString();
			const end = (status, body, type = "application/json") => {
				response.writeHead(status, { "Content-Type": type });
				response.end(body);
			};
			try {
				if (request.url === "/control")
					return end(200, JSON.stringify(await control(text)));
				if (lying(server, "429") && sometimes()) return end(429, "{}");
				if (lying(server, "500") && sometimes()) return end(500, "oh");
				const reply = answer(server, text);
				if (reply.result === "hangup") return request.socket.destroy();
				if (lying(server, "html") && sometimes()) return end(200, "<html>busy</html>", "text/html");
				const body = JSON.stringify(reply);
				end(200, lying(server, "truncated") && sometimes() ? body.slice(0, body.length / 2) : body);
			} catch (e) {
				end(500, String(e.stack));
			}
		});
	});
}

const urls = [];
for (let s = 0; s < 3; s++) {
	const server = serve(s);
	await new Promise((done) => server.listen(0, "127.0.0.1", done));
	urls.push(`http://127.0.0.1:${server.address().port}`);
}
writeFileSync(dir + "/front.part", JSON.stringify({ urls, mint, nonces, account: ownAccount, genesis: GENESIS }));
renameSync(dir + "/front.part", dir + "/front.json");
