# rnp-reward: a ledger that the version before has written is read, and gone on with.
load ../helper
load solana

setup() {
	cd "$BATS_TEST_TMPDIR"
	kept=$ROOT/tests/data/before/ledger
	cp "$kept"/{db,epoch0,week1} .
	install -m 600 "$kept/payer.json" .
	payer=$(rnp-register address --key payer.json)
}

teardown() {
	stop_front
}

@test "ledger: of one that the version before has written the same is said as then" {
	. "$kept/say"
	say now
	diff "$kept/said" now
	# with what is locked, a reader in Python finds the same root
	assert_equal "$(python3 "$ROOT/tests/tools/merkle.py" <epoch0)" "$(jq -r 'select(.kind == "rnp.epoch").merkle_root' epoch0)"
}

@test "ledger: one of the version before is gone on with" {
	jq -c '(.from, .to) |= (fromdate + 604800 | todate) | .passed_ppm = 1000000' week1 >week2
	rnp-reward epoch -q --open --policy rnp-021 --price 2.00 --store db --key payer.json week2 | tail -1 >epoch
	assert_equal "$(jq .sequence epoch)" "$(rnp-reward ledger --store db | wc -l | awk '{print $1 - 1}')"
	# what is at stake counts: who had it slashed locks anew, the others are still short of the policy's sum
	jq -e '.locked_base_units > 0' epoch
	rnp-reward verify --store db
	# the time of an epoch that is sealed is taken
	refused 65 "row 1" rnp-reward epoch -q --policy rnp-021 --price 3.00 --store db --key payer.json week1
}

@test "pay: what the version before had in flight is followed to its end" {
	need_solana
	by=() also=()
	front
	pay --resume >out || fail "$(cat front.log)"
	assert_equal "$(rnp-reward pay --store db --status | jq -r 'select(.status != "finalised").status')" expired
	pay >out
	assert_equal "$(jq -r .status out | xargs)" "finalised finalised finalised finalised"
	assert_equal "$(rnp-reward verify --store db | jq .ok)" true
}
