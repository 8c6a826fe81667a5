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
	python3 "$ROOT/tests/reward.py" wallets "$n" "$seed" >wallets
	jq -Rc '{kind: "rnp.usage", v: 1, node: ., wallet: ., gpu_model: "RTX 4090", gpu_count: 1,
		from: "2026-11-09T00:00:00Z", to: "2026-11-16T00:00:00Z", gpu_worked_s: 0,
		up_s: (150000 + 400 * (input_line_number % 1000))}' wallets >usages
	rnp-reward epoch -q --policy rnp-021 --store db --key payer.json "${@:3}" usages >epoch
	# what each wallet is to have in the end
	jq -c 'select(.kind == "rnp.reward") | {(.wallet): .base_units}' epoch | jq -s add >expected
}

# front [DECIMALS [BLOCK_MS [POOL [FILE]]]]: start the servers
front() {
	rm -f front.json
	node "$ROOT/tests/solana_front.mjs" . "$payer" "$@" >front.log 2>&1 3>&- &
	front=$!
	for _ in $(seq 600); do
		[[ -e front.json ]] && break
		kill -0 "$front" || break
		sleep 0.05
	done
	[[ -e front.json ]] || fail "the servers do not start: $(cat front.log)"
	mapfile -t urls < <(jq -r '.urls[]' front.json)
	mint=$(jq -r .mint front.json)
	mapfile -t nonces < <(jq -r '.nonces[]' front.json)
}

stop_front() {
	rm -f front.json
	[[ -z ${front:-} ]] || kill "$front" 2>/dev/null || true
}

# control JSON: see solana_front.mjs
control() {
	curl -sS -d @- "${urls[0]}/control" <<<"$1"
}

# paying [option ...]: sets the array command to what pays with payer.json, or with the options in the array by.
# To kill it: "${command[@]}" &. In the background a function is a shell of its own, and killing that leaves the
# payer alive.
paying() {
	local with=("${by[@]}")
	((${#with[@]})) || with=(--keypair payer.json)
	command=(rnp-reward pay --store db "${with[@]}" --trust "$payer" --mint "$mint"
		--cluster EtWTRABZaYq6iMfeYKouRu166VU2xqa1wcaWoxPkrZBG --rpc "${urls[0]}"
		--rpc "${urls[1]}" --rpc "${urls[2]}" --poll 20ms --timeout 60s "$@")
}

# pay [option ...]
pay() {
	paying "$@"
	"${command[@]}"
}

# audit [FILTER]: what the chain has against what is owed: nobody more, and all of it unless FILTER
# says otherwise; what the payer lost is what the wallets have; the ledger holds
audit() {
	control "$(jq -Rsc '{wallets: split("\n")[:-1]}' wallets)" >chain
	jq -e --slurpfile expected expected '.has as $has | $expected[0] | to_entries
		| all(.value >= $has[.key])' chain >/dev/null || fail "paid twice: $(cat chain)"
	jq -e --slurpfile expected expected '.has as $has | $expected[0] | '"${1:-.}"' | to_entries
		| all(.value == $has[.key])' chain >/dev/null || fail "not paid: $(cat chain)"
	jq -e '.payer + (.has | add) == '"${pool:-1000000000000000}" chain >/dev/null || fail "lost: $(cat chain)"
	rnp-reward verify --store db | jq -e .ok >/dev/null
}

# paid: what the ledger says is paid is what the wallets have
ledger_agrees() {
	rnp-reward pay --store db --status | jq -c 'select(.status == "finalised") | {(.wallet): .base_units}' |
		jq -s add >said
	jq -e --slurpfile said said '.has | to_entries | map(select(.value > 0)) | from_entries == ($said[0] // {})' \
		chain >/dev/null || fail "the ledger says $(jq -c . said), the chain $(cat chain)"
}
