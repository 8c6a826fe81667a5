# What the tests of rnp-price floor, quote, fit and backtest share: to be loaded behind helper.

setup() {
	cd "$BATS_TEST_TMPDIR" || return
	NODE=$ROOT/tests/data/rtx4090.node.json
	COSTS=$ROOT/tests/data/man/costs.json
	export RNP_NOW=2026-11-20T18:30:00Z
}

# offer MODEL COUNT UUSD [MORE]: prints an offer
offer() {
	echo "{\"kind\":\"rnp.offer\",\"v\":1,\"market\":\"test\",\"offer_id\":\"$1-$3\",\"gpu_model\":\"$1\",\"gpu_count\":$2,\"uusd_per_gpu_hour\":$3,\"spot\":false${4:+,$4}}"
}

# node GPUS...: prints a node record
node() {
	jq -nc '{kind:"rnp.node",v:1,at:"2026-11-20T12:00:00Z",gpus:($ARGS.positional|map({model:.}))}' --args "$@"
}

# costs UUSD: a node whose only cost is this many uusd an hour
costs() {
	echo "{\"watts_load\":0,\"uusd_per_kwh\":0,\"network_uusd_per_hour\":$1}"
}

quote() {
	run_split rnp-price quote --node "$@"
	assert_success
	jq -e . <<<"$output" >/dev/null
}

why_has() {
	jq -e --arg t "$1" '.why | any(startswith($t))' <<<"$output" >/dev/null ||
		fail "why lacks '$1': $(jq -c .why <<<"$output")"
}
