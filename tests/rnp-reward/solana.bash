# solana.bash - for tests of pay: a ledger that owes, and three RPC servers over a real virtual machine.

need_solana() {
	export NODE_MODULES=$ROOT/build/node/node_modules
	[[ -d $NODE_MODULES/litesvm && -d $NODE_MODULES/@solana/kit ]] && command -v node >/dev/null ||
		skip "litesvm is not there: scripts/bootstrap"
}

# owe N [SEED [option ...]]: N wallets are owed 0.5 to 2 RENDER by a sealed, signed epoch in db
owe() {
	local n=$1 seed=${2:-1}
	[[ -e payer.json ]] || rnp-register keygen --out payer.json >/dev/null
	payer=$(rnp-register address --key payer.json)
	python3 "$ROOT/tests/tools/reward.py" wallets "$n" "$seed" >wallets
	awk '{printf "{\"kind\":\"rnp.usage\",\"v\":1,\"node\":\"%s\",\"wallet\":\"%s\",\"gpu_model\":\"RTX 4090\"," \
		"\"gpu_count\":1,\"from\":\"2026-11-09T00:00:00Z\",\"to\":\"2026-11-16T00:00:00Z\",\"gpu_worked_s\":0," \
		"\"up_s\":%d}\n", $1, $1, 150000 + 400 * (NR % 1000)}' wallets >usages
	rnp-reward epoch -q --policy rnp-021 --store db --key payer.json "${@:3}" usages >epoch
	# what each wallet is to have in the end
	jq -cn '[inputs | select(.kind == "rnp.reward") | {(.wallet): .base_units}] | add' epoch >expected
}

# front [DECIMALS [BLOCK_MS [POOL [FILE]]]]: start the servers
front() {
	rm -f front.json
	node "$ROOT/tests/solana_front.mjs" . "$payer" "$@" >front.log 2>&1 3>&- &
	front=$!
	wait_port front.json "$front" || fail "$(cat front.log)"
	mapfile -t urls < <(jq -r '.urls[]' front.json)
	mint=$(jq -r .mint front.json)
	mapfile -t nonces < <(jq -r '.nonces[]' front.json)
}

stop_front() {
	rm -f front.json
	[[ -z ${front:-} ]] || kill "$front" 2>/dev/null || true
}

# control JSON: see tests/solana_front.mjs
control() {
	curl -sS -m 120 -d @- "${urls[0]}/control" <<<"$1"
}

# paying [option ...]: sets the array command to what pays with payer.json, or with the options in the array by; and with
# those in the array also.
# To kill it: "${command[@]}" &. In the background a function is a shell of its own, and killing that leaves the
# payer alive.
paying() {
	local with=("${by[@]}")
	((${#with[@]})) || with=(--keypair payer.json)
	command=(rnp-reward pay --store db "${with[@]}" --trust "$payer" --mint "$mint"
		--cluster EtWTRABZaYq6iMfeYKouRu166VU2xqa1wcaWoxPkrZBG --rpc "${urls[0]}"
		--rpc "${urls[1]}" --rpc "${urls[2]}" --poll 20ms --timeout 60s --allow-unfunded-recipient "${also[@]}" "$@")
}

# pay [option ...]
pay() {
	paying "$@"
	"${command[@]}"
}

# finish: runs what paying has set until all is paid by honest servers. On a busy machine blocks that pass quickly
# outrun the payer; then they become slower, and it tries again. Where most servers were 100,000 blocks ahead when it
# signed, what did not land is in flight until these have passed.
finish() {
	local block_ms code pass=0
	for block_ms in 4 20 100 400; do
		control "{\"lies\": [[], [], []], \"forks\": 0, \"block_ms\": $block_ms, \"pass\": $pass}" >/dev/null
		code=0
		"${command[@]}" >out 2>err || code=$?
		((code)) || break
		pass=100000
	done
	control '{"block_ms": 4}' >/dev/null
	return "$code"
}

# audit [FILTER]: what the chain has against what is owed: nobody more, and all of it unless FILTER
# says otherwise; what the payer lost is what the wallets have; the ledger holds
audit() {
	local addresses list wrong
	mapfile -t addresses <wallets
	printf -v list '"%s",' "${addresses[@]}"
	control "{\"wallets\": [${list%,}]}" >chain
	# one jq: a start of it takes longer than all the rest
	wrong=$(jq -r --slurpfile expected expected '.has as $has | $expected[0] as $all |
		if any($all | to_entries[]; .value < $has[.key]) then "paid twice"
		elif any($all | '"${1:-.}"' | to_entries[]; .value != $has[.key]) then "not paid"
		elif .payer + (.has | add) != '"${pool:-1000000000000000}"' then "lost"
		else "" end' chain) || fail "no audit"
	[[ -z $wrong ]] || fail "$wrong: $(cat chain)"
	rnp-reward verify --store db >verified || fail "$(cat verified)"
}

# paid: what the ledger says is paid is what the wallets have
ledger_agrees() {
	rnp-reward pay --store db --status | jq -se --slurpfile chain chain '
		(map(select(.status == "finalised")) | group_by(.wallet) | map({(.[0].wallet): map(.base_units) | add}) | add // {}) ==
		($chain[0].has | to_entries | map(select(.value > 0)) | from_entries)' >/dev/null ||
		fail "the ledger says $(rnp-reward pay --store db --status), the chain $(cat chain)"
}
