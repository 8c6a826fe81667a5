# pay beside servers that send a byte a second: they cost seconds, no payout. Half a minute each.
load ../helper
load ../rnp-reward/solana

setup() {
	cd "$BATS_TEST_TMPDIR"
	need_solana
}

teardown() {
	stop_front
	[[ -z ${rude:-} ]] || kill "$rude" 2>/dev/null || true
}

# slow BEHAVIOUR...: pays six wallets, the last of three servers behaves like that; blocks take 400 ms, as Solana's do
slow() {
	owe 6
	front 8 400
	python3 "$ROOT/tests/tools/hostile_rpc.py" rude.url "${urls[2]}" "$@" 3>&- &
	rude=$!
	until [[ -s rude.url ]]; do sleep 0.05; done
	urls[2]=$(cat rude.url)
	SECONDS=0
	pay --timeout 3m >out 2>err
	assert_equal "$(jq -r .status out | sort | uniq -c | xargs)" "6 finalised"
	echo "# $* took $SECONDS s" >&3
	((SECONDS < 120))
	audit
	ledger_agrees
}

@test "pay: a byte a second, to all questions but the first" {
	slow slow
}

@test "pay: a byte a second where an honest server takes no time, and at once elsewhere" {
	slow slow@getSignatureStatuses
}

@test "pay: a byte a second of the body, to who sends" {
	slow slow-body@sendTransaction
}
