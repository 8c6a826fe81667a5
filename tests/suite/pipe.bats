# Programs in pipes: each reads what the one before it writes, and nothing is lost between them.
load ../helper

setup() {
	cd "$BATS_TEST_TMPDIR" || return
	rnp-register keygen --out key.json >/dev/null
	address=$(rnp-register address --key key.json)
	export RNP_NOW=2026-11-21T12:00:00Z
}

teardown() {
	if [[ ${registry-} ]]; then kill "$registry" 2>/dev/null || true; fi
}

# starts a registry at $url
start_registry() {
	rnp-register serve --db registry.db --listen 127.0.0.1:0 --port-file port "$@" 2>serve.log 3>&- &
	registry=$!
	wait_file port
	url=http://127.0.0.1:$(grep -oE '[0-9]+$' port)
}

@test "pipe: detect | sign | verify" {
	rnp-register detect --key key.json | rnp-register sign --key key.json | rnp-register verify >checks
	assert_equal "$(jq -r '.ok, .signer' checks)" $'true\n'"$address"
}

@test "pipe: a record that went through three programs and jq has the same canonical form" {
	rnp-register detect --key key.json >node
	rnp-register sign --key key.json node | jq -c 'del(.proof)' | rnp-register canon >after
	rnp-register canon node | cmp - after
	rnp-register sign --key key.json node | jq -S . | jq -c . | rnp-register verify
}

@test "pipe: what the registry lists still carries the node's good signature" {
	start_registry
	rnp-register detect --key key.json --wallet "$address" | rnp-register sign --key key.json |
		tee signed | rnp-register submit --registry "$url"
	rnp-register list --registry "$url" >listed
	rnp-register verify listed >checks
	assert_equal "$(jq -r '.ok, .signer' checks)" $'true\n'"$address"
	diff <(rnp-register canon signed) <(rnp-register canon listed)
}

@test "pipe: numbers at the edges survive sign and canon" {
	echo '{"a":9007199254740991,"b":-9007199254740991,"c":1e20,"d":5e-324,"e":0.1,"f":1e21,"g":"9223372036854775807"}' |
		rnp-register sign --key key.json | rnp-register sign --key key.json >twice
	rnp-register verify <twice
	assert_equal "$(jq -c 'del(.proof)' twice | rnp-register canon)" \
		'{"a":9007199254740991,"b":-9007199254740991,"c":100000000000000000000,"d":5e-324,"e":0.1,"f":1e+21,"g":"9223372036854775807"}'
}

@test "pipe: a slow writer's records come out one by one" {
	mkfifo in
	exec 5<>in
	rnp-register canon <in >out 3>&- 5>&- &
	for n in 1 2 3; do
		printf '{"n":%d}\n' "$n" >&5
		is_out() { (($(wc -l <out) >= n)); }
		wait_until "record $n" is_out
		assert_equal "$(wc -l <out)" "$n"
	done
	exec 5>&-
	ended $!
}

@test "pipe: 20000 records keep their order on all cores" {
	seq -f '{"n":%.0f}' 20000 >many
	rnp-register sign --key key.json many | rnp-register verify | jq -e 'select(.ok | not)' && fail 'a bad one'
	diff <(rnp-register sign --key key.json many | jq -c '{n}') many
}

# heartbeats FILE: writes a signed node record and signed heartbeats of one day
heartbeats() {
	RNP_NOW=2026-11-20T00:00:00Z rnp-register detect --key key.json --wallet "$address" |
		rnp-register sign --key key.json >"$1"
	for hour in {0..23}; do
		printf '{"kind":"rnp.heartbeat","v":1,"node":"%s","at":"2026-11-20T%02d:00:00Z","interval_s":3600,"state":"idle"}\n' \
			"$address" "$hour"
	done | RNP_NOW=2026-11-20T00:00:00Z rnp-register sign --key key.json >>"$1"
}

@test "pipe: heartbeats | usage | epoch | proof | verify" {
	heartbeats records
	rnp-reward usage --heartbeats --from 2026-11-20T00:00:00Z --to 2026-11-21T00:00:00Z records >usage
	assert_equal "$(jq -r '.node, .up_s' usage)" "$address"$'\n86400'
	rnp-reward epoch --policy testnet --pool 10 usage | tee rewards |
		rnp-reward proof --node "$address" | tee proof | rnp-reward verify >check
	assert_equal "$(jq -r .ok check)" true
	assert_equal "$(jq -r .merkle_root proof)" "$(jq -r 'select(.kind == "rnp.epoch").merkle_root' rewards)"
	rnp-reward verify --usage usage --policy testnet rewards
}

# say KEY NODE JQ PROGRAM: signs that record of NODE with KEY and sends it to the registry
say() {
	jq -nc --arg node "$2" "{v: 1, node: \$node} + $3" | rnp-register sign --key "$1.json" |
		rnp-register submit --registry "$url" >>stored
}

# beats KEY NODE TIME...: sends heartbeats that announce the next within a minute
beats() {
	local key=$1 node=$2 t
	shift 2
	for t; do
		printf '{"kind":"rnp.heartbeat","v":1,"node":"%s","at":"2026-11-21T%sZ","interval_s":60,"state":"idle"}\n' "$node" "$t"
	done | rnp-register sign --key "$key.json" | rnp-register submit --registry "$url" >>stored
}

@test "pipe: a registry's records | usage | epoch | proof | verify, numbers by hand" {
	for name in judge b c; do
		rnp-register keygen --out "$name.json" >/dev/null
		printf -v "$name" '%s' "$(rnp-register address --key "$name.json")"
	done
	start_registry --trust "$judge"
	# the epoch is 11:56:30 to 12:03:10, 400 s; a and b have the same wallet, a's; c has
	# none
	say key "$address" "{kind: \"rnp.node\", at: \"2026-11-21T11:58:00Z\", wallet: \"$address\"}"
	say b "$b" "{kind: \"rnp.node\", at: \"2026-11-21T11:58:00Z\", wallet: \"$address\"}"
	say c "$c" '{kind: "rnp.node", at: "2026-11-21T11:58:00Z"}'
	# each covers a minute at most: 11:56:30 to 11:59 is 150 s, 12:00 to 12:01 60 s,
	# 12:02:01 to the end 69 s
	beats key "$address" 11:56:00 11:57:00 11:58:00 12:00:00 12:02:01 12:03:01 12:04:01
	# up for 120 s: a minute each
	beats b "$b" 12:00:00 12:01:00
	beats c "$c" 11:56:{00..59..30} 11:57:{00..59..30} 11:58:00 11:59:00 12:0{0..4}:00
	receipt() { # FROM TO UUSD
		say judge "$address" "{kind: \"rnp.receipt\", job: \"$1\", from: \"2026-11-21T$1Z\",
			to: \"2026-11-21T$2Z\", earned_uusd: $3, at: \"2026-11-21T11:50:00Z\"}"
	}
	receipt 11:55:30 11:57:30 1001 # half of it in the epoch
	receipt 11:57:00 11:58:30 90   # overlaps: worked until 11:58:30, 120 s
	receipt 11:50:00 11:56:30 5000 # ends as the epoch begins
	say judge "$address" '{kind: "rnp.verdict", at: "2026-11-21T12:00:00Z", passed: true, checks: [],
		readings: {}, score_ppm: 1000000}'
	# another wallet, after the epoch: it does not change what was earned in the epoch
	say key "$address" "{kind: \"rnp.node\", at: \"2026-11-21T12:04:30Z\", wallet: \"$judge\"}"
	assert_equal "$(jq -c .new stored | sort | uniq -c | xargs)" "$(wc -l <stored) true"

	rnp-reward usage --heartbeats --registry "$url" --trust "$judge" --from 2026-11-21T11:56:30Z \
		--to 2026-11-21T12:03:10Z >usage
	of() { jq -c --arg n "$1" "select(.node == \$n) | $2" "$3"; }
	assert_equal "$(wc -l <usage)" 3
	assert_equal "$(of "$address" '[.wallet, .up_s, .worked_s, .earned_uusd, .score_ppm]' usage)" \
		"[\"$address\",279,120,591,1000000]"
	assert_equal "$(of "$b" '[.up_s, .worked_s, .earned_uusd, .score_ppm]' usage)" '[120,0,0,null]'
	assert_equal "$(of "$c" '[.wallet, .up_s]' usage)" '[null,400]'
	# the same query on another day
	RNP_NOW=2027-01-01T00:00:00Z rnp-reward usage --heartbeats --registry "$url" --trust "$judge" \
		--from 2026-11-21T11:56:30Z --to 2026-11-21T12:03:10Z | cmp - usage

	rnp-reward epoch --policy testnet --store ledger --open usage >rewards
	# 10 x 120/400 + 3 x 0.7 x 279/400 and 2 x 279/400; 2 x 120/400; 2
	assert_equal "$(of "$address" '[.job_base_units, .availability_base_units]' rewards)" \
		'[446475000,139500000]'
	assert_equal "$(of "$b" .base_units rewards)" 60000000
	assert_equal "$(of "$c" .base_units rewards)" 200000000
	assert_equal "$(tail -1 rewards | jq -c '[.nodes, .total_base_units]')" '[3,845975000]'
	assert_equal "$(tail -1 rewards | jq -r .merkle_root)" "$(python3 "$ROOT/tests/tools/merkle.py" <rewards)"
	for node in "$address" "$b" "$c"; do rnp-reward proof --node "$node" rewards; done >proofs
	assert_equal "$(jq -c .unlocked_base_units proofs | xargs)" '645975000 645975000 200000000'
	rnp-reward verify proofs | jq -se 'length == 3 and all(.ok)'
	rnp-reward verify --usage usage --store ledger rewards | jq -se 'length > 0 and all(.ok)'
}

@test "pipe: a base unit more, in the reward or in its proof, is a clear no" {
	heartbeats records
	rnp-reward usage --heartbeats --from 2026-11-20T00:00:00Z --to 2026-11-21T00:00:00Z records >usage
	rnp-reward epoch --policy testnet --pool 10 usage >rewards
	rnp-reward proof --node "$address" rewards | jq -c '.unlocked_base_units += 1' >proof
	run_split rnp-reward verify proof
	assert_equal "$status" 1
	assert_equal "$(jq -r .ok <<<"$output")" false
	jq -c 'if .kind == "rnp.reward" then .base_units += 1 else . end' rewards >more
	run_split rnp-reward verify --usage usage --policy testnet more
	assert_equal "$status" 1
}

@test "pipe: a forged heartbeat is named and nothing is computed from it" {
	heartbeats records
	sed '5s/"interval_s":3600/"interval_s":36000/' records >forged
	refused 65 'forged:5' rnp-reward usage --heartbeats --from 2026-11-20T00:00:00Z --to 2026-11-21T00:00:00Z forged
	assert_equal "$output" ""
}

@test "pipe: feed | quote, with the feed's offers as rivals" {
	cp "$ROOT"/tests/data/man/* .
	rnp-price feed --market vast vast.json >offers
	rnp-price quote --node node.json --costs costs.json offers >quote
	assert_equal "$(jq -r .kind quote)" rnp.quote
	(($(jq .ask_uusd quote) >= $(jq .floor_uusd quote)))
	rnp-register sign --key key.json quote | rnp-register verify
}
