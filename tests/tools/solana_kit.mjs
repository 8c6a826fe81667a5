// solana_kit.mjs - Solana's messages and addresses by @solana/kit, to hold ours against.
// Usage: node solana_kit.mjs messages N SEED TOOL | addresses N SEED TOOL, TOOL being build/unit/chain/solana
// NODE_MODULES: where the packages are. Prints what differed; exit 1 when something did.
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const load = createRequire(pathToFileURL(process.env.NODE_MODULES + "/"));
const kit = load("@solana/kit"), token = load("@solana-program/token"), system = load("@solana-program/system");

const [what, count, seed, tool] = process.argv.slice(2);
const TOKEN = "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA", TOKEN_2022 = "TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb";
const BUDGET = "ComputeBudget111111111111111111111111111111", MEMO = "MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr";

let counter = 0;
const random = (n) => {
	const out = [];
	for (; out.length < n; counter++)
		out.push(...createHash("sha256").update(`${seed} ${counter}`).digest());
	return Uint8Array.from(out.slice(0, n));
};
const below = (n) => Number(Buffer.from(random(6)).readUIntBE(0, 6) % n);
const address = () => kit.getAddressDecoder().decode(random(32));
const amount = () => Buffer.from(random(8)).readBigUInt64LE() >> BigInt(below(64));
const little = (n, bytes) => { const b = Buffer.alloc(8); b.writeBigUInt64LE(BigInt(n)); return b.subarray(0, bytes); };

async function instruction(pool) {
	const pick = () => pool[below(pool.length)];
	const program = below(2) ? TOKEN : TOKEN_2022, a = amount();
	const signer = kit.createNoopSigner(pool[0]);
	switch (below(8)) {
	case 0: { const n = below(1400000); return [`limit ${n}`, { programAddress: BUDGET, data: Buffer.concat([Buffer.from([2]), little(n, 4)]) }]; }
	case 1: return [`price ${a}`, { programAddress: BUDGET, data: Buffer.concat([Buffer.from([3]), little(a, 8)]) }];
	case 2: { const t = kit.getBase58Decoder().decode(random(32)); return [`memo ${t}`, { programAddress: MEMO, data: Buffer.from(t) }]; }
	case 3: { const n = pick(); return [`nonce ${n} ${pool[0]}`,
		system.getAdvanceNonceAccountInstruction({ nonceAccount: n, nonceAuthority: signer })]; }
	case 4: { const m = pick(), w = address(), [ata] = await token.findAssociatedTokenPda({ mint: m, owner: w, tokenProgram: program });
		return [`create ${pool[0]} ${ata} ${w} ${m} ${program}`, token.getCreateAssociatedTokenIdempotentInstruction(
			{ payer: signer, ata, owner: w, mint: m, tokenProgram: program })]; }
	case 5: { const s = pick(), m = pick(), d = below(3) ? address() : pick();
		return [`transfer ${program} ${s} ${m} ${d} ${pool[0]} ${a}`, token.getTransferCheckedInstruction(
			{ source: s, mint: m, destination: d, authority: signer, amount: a, decimals: 8 }, { programAddress: program })]; }
	case 6: { const s = pick(), m = pick(); return [`burn ${program} ${s} ${m} ${pool[0]} ${a}`,
		token.getBurnCheckedInstruction({ account: s, mint: m, authority: signer, amount: a, decimals: 8 }, { programAddress: program })]; }
	default: { const s = pick(), m = pick(); return [`mint ${program} ${m} ${s} ${pool[0]} ${a}`,
		token.getMintToCheckedInstruction({ mint: m, token: s, mintAuthority: signer, amount: a, decimals: 8 }, { programAddress: program })]; }
	}
}

async function message() {
	const legacy = below(2), pool = [address(), address(), address(), address()], blockhash = address();
	const list = [];
	for (let n = 1 + below(12); n--;)
		list.push(await instruction(pool));
	const m = kit.pipe(kit.createTransactionMessage({ version: legacy ? "legacy" : 0 }),
		(t) => kit.setTransactionMessageFeePayer(pool[0], t),
		(t) => kit.setTransactionMessageLifetimeUsingBlockhash({ blockhash, lastValidBlockHeight: 1n }, t),
		(t) => kit.appendTransactionMessageInstructions(list.map((i) => i[1]), t));
	const bytes = kit.getCompiledTransactionMessageEncoder().encode(kit.compileTransactionMessage(m));
	return [`${legacy} ${pool[0]} ${blockhash} ` + list.map((i) => `; ${i[0]}`).join(" "), Buffer.from(bytes).toString("hex")];
}

async function associated() {
	const owner = address(), mint = address(), tokenProgram = below(2) ? TOKEN : TOKEN_2022;
	const [pda, bump] = await token.findAssociatedTokenPda({ owner, mint, tokenProgram });
	return [`${owner} ${tokenProgram} ${mint}`, `${pda} ${bump}`];
}

async function pda() {
	const programAddress = address(), seeds = Array.from({ length: 1 + below(8) }, () => random(1 + below(32)));
	const [found, bump] = await kit.getProgramDerivedAddress({ programAddress, seeds });
	return [programAddress + seeds.map((s) => " " + Buffer.from(s).toString("hex")).join(""), `${found} ${bump}`];
}

let bad = 0;
async function compare(mode, make, n) {
	const all = [];
	while (n--)
		all.push(await make());
	const r = spawnSync(tool, [mode], { input: all.map((x) => x[0] + "\n").join(""), maxBuffer: 1 << 30 });
	const ours = r.stdout.toString().trimEnd().split("\n");
	if (r.status !== 0 || ours.length !== all.length) {
		console.log(`${mode}: exit ${r.status}, ${ours.length} of ${all.length} lines`);
		bad++;
	}
	all.forEach(([input, expected], i) => {
		if (ours[i] !== expected && bad++ < 3)
			console.log(`${mode}: ${input}\n  kit  ${expected}\n  ours ${ours[i]}`);
	});
}

if (what === "messages") {
	await compare("compile", message, Number(count));
} else {
	await compare("associated", associated, Number(count) / 2);
	await compare("pda", pda, Number(count) / 2);
}
process.exit(bad ? 1 : 0);
