# rnp-reward stake: what is locked of a node's earnings is released or slashed by rule, once.
load ../helper

setup() {
	cd "$BATS_TEST_TMPDIR"
	rnp-register keygen --out operator.json >/dev/null
	operator=$(rnp-register address --key operator.json)
}

# week N 'JQ': seals the epoch of that week, of the usages changed by JQ, at 2.00 dollars
week() {
	jq -c --argjson n "$1" "(.from, .to) |= (fromdate + \$n * 604800 | todate) | $2" \
		"$ROOT/tests/data/man/usage.jsonl" >"week$1"
	rnp-reward epoch -q --open --policy rnp-021 --price 2.00 --store db --key operator.json "week$1"
}

balance() {
	python3 - <<-'PY'
		import sqlite3
		print(*sqlite3.connect("db").execute('SELECT sum(minted), sum(claimed), sum(locked), sum("left") FROM epoch').fetchone())
	PY
}

@test "stake: what a node has at stake counts in its next epoch; losing challenges loses it" {
	week 0 . >first
	locked=$(tail -1 first | jq .locked_base_units)
	((locked > 0))
	rich=$(jq -r 'select(.locked_base_units == 5000000000).node' first | head -1)
	# usage --store says what the ledger holds
	rnp-reward usage -q --from 2026-11-16T00:00:00Z --to 2026-11-23T00:00:00Z --store db --heartbeats \
		<(jq -nc "{kind: \"rnp.heartbeat\", v: 1, node: \"$operator\", at: \"2026-11-17T00:00:00Z\",
			interval_s: 60, state: \"idle\"}" | rnp-register sign --key operator.json) >usage
	assert_equal "$(jq .staked_uusd usage)" 0
	# nobody was challenged, nobody left: nothing moves
	run_split rnp-reward stake --store db --key operator.json week0
	assert_success
	assert_equal "$output" ""
	assert_equal "$stderr" "rnp-reward: no stake is due to be released or slashed"
	# nor was anybody paid
	run_split rnp-reward pay --store db --status
	assert_equal "$status $output $stderr" "0  rnp-reward: 'db' has paid no wallet yet"
	week 1 "if .node == \"$rich\" then .passed_ppm = 499999 | .challenges_passed = 1 else . + {passed_ppm: 500000} end" >second
	before=$(balance)
	rnp-reward stake --store db --dry-run week1 >plan
	assert_equal "$(balance)" "$before"
	rnp-reward stake --store db --key operator.json week1 >slashed
	assert_equal "$(jq -c '[.action, .nodes, .stakes[0].node]' slashed)" "[\"slash\",1,\"$rich\"]"
	assert_equal "$(jq -c 'del(.sequence, .previous, .proof)' slashed)" "$(cat plan)"
	amount=$(jq .total_base_units slashed)
	# what was locked is left in the pool, and the sums hold
	read -r minted claimed locked left < <(echo "$before")
	assert_equal "$(balance)" "$minted $claimed $((locked - amount)) $((left + amount))"
	rnp-reward verify --store db
	# once
	run_split rnp-reward stake --store db --key operator.json week1
	assert_equal "$output" ""
	# nothing is moved by usages that are not the epoch's
	jq -c '.passed_ppm = 0' week1 | jq -c '.up_s = 1' >lie
	run_split rnp-reward stake --store db --key operator.json lie
	assert_failure 1
	[[ $stderr == *"nothing is moved: row 1: epoch:"* ]] || fail "$stderr"
}

@test "stake: what is no usage of the epoch moves nothing, whatever it is" {
	week 0 . >first
	cp db kept
	none() { # CODE WORDS argument ...
		run_split timeout 120 rnp-reward stake --store db --key operator.json "${@:3}"
		assert_equal "$status $output" "$1 "
		[[ $stderr == *"$2"* && $stderr != *$'\e'* ]] || fail "$stderr"
		cmp db kept
	}
	none 64 "--epoch" --epoch -1 week0
	none 64 "--epoch" --epoch 99999999999999999999 week0
	none 1 "no row 7" --epoch 7 week0
	none 1 "nothing is moved" /dev/null
	none 65 "longer than" /dev/zero
	none 65 "larger than" --policy /dev/zero week0
	cat week0 week0 >many
	none 65 "has a usage already" many
	jq -c '.passed_ppm = 0' week0 >many
	none 1 "nothing is moved" many
	jq -c '.node = "\u001b[2J\u202e"' week0 >many
	none 65 "is not a base58 address" many
	jq -c '.staked_uusd = 9007199254740991' week0 >many
	none 1 "nothing is moved" many
}

@test "stake: a node that is gone for four weeks is paid what it had locked, and no tampering passes" {
	week 0 . >first
	gone=$(jq -r 'select(.locked_base_units == 5000000000).node' first | head -1)
	for i in 1 2 3; do
		week $i "select(.node != \"$gone\")" >/dev/null
		run_split rnp-reward stake --store db --key operator.json "week$i"
		assert_equal "$output" ""
	done
	week 4 "select(.node != \"$gone\")" >/dev/null
	rnp-reward stake --store db --key operator.json week4 >released
	assert_equal "$(jq -c '[.action, .stakes[0].node, .total_base_units]' released)" "[\"release\",\"$gone\",5000000000]"
	rnp-reward verify --store db
	# an auditor computes the move again before signing it
	rnp-register keygen --out auditor.json >/dev/null
	row=$(jq .sequence released)
	rnp-reward cosign --store db --key auditor.json --epoch "$row" week4 >/dev/null
	run_split rnp-reward cosign --store db --key auditor.json --epoch "$row" week3
	assert_failure 1
	[[ $stderr == *"not signed: row $row: epoch:"* ]] || fail "$stderr"
	rnp-reward verify --store db
	try() { # REASON SQL
		rm -f bad*
		python3 - "$2" <<-'PY'
			import sqlite3, sys
			sqlite3.connect("db").execute("VACUUM INTO 'bad'")
			db = sqlite3.connect("bad")
			db.executescript("PRAGMA ignore_check_constraints = 1; DROP TRIGGER stake_moves_once;" + sys.argv[1])
			db.commit()
		PY
		run_split rnp-reward verify --store bad
		assert_failure 1
		assert_equal "$(jq -r .reason <<<"$output")" "$1"
	}
	try "row 0: its balance is not what the epoch says" "UPDATE stake SET base_units = base_units + 1 WHERE moved IS NOT NULL"
	try "row 0: its stakes are not what its claims lock" "UPDATE stake SET base_units = base_units + 1 WHERE moved IS NULL AND epoch = 0"
	try "row 1: its stakes are not what its claims lock" "DELETE FROM stake WHERE epoch = 1"
	try "row $row: its claims do not have its Merkle root" "UPDATE claim SET unlocked = unlocked + 1 WHERE epoch = $row"
	try "row $row: it does not move what it says" "DROP TRIGGER stake_moves; UPDATE epoch SET locked = locked + 5000000000, \"left\" = \"left\" - 5000000000 WHERE sequence = 0; UPDATE stake SET moved = NULL WHERE moved IS NOT NULL"
	try "row 0: a node with a stake of it was last seen when no epoch ended" "UPDATE stake SET seen_ms = seen_ms + 1 WHERE moved IS NULL AND epoch = 0"
	try "row 1: a node with a stake of it was last seen when no epoch ended" \
		"UPDATE stake SET seen_ms = (SELECT to_ms FROM epoch WHERE sequence = 0) WHERE moved IS NULL AND epoch = 1"
	# of another epoch's end the newest epoch's seen_sha256 tells
	last=$(jq -s 'map(select(.kind == "rnp.epoch")) | last.sequence' <(rnp-reward ledger --store db))
	try "row $last: nodes with a stake were last seen when it or an epoch before it does not say" \
		"UPDATE stake SET seen_ms = (SELECT to_ms FROM epoch WHERE sequence = 1) WHERE moved IS NULL AND epoch = 1"
	# rules that SQLite no longer keeps
	try "the database: trigger 'stake_moves_once' is missing" ""
	kept="CREATE TRIGGER stake_moves_once BEFORE UPDATE ON stake WHEN old.moved IS NOT NULL"
	kept+=" BEGIN SELECT RAISE(ABORT, 'a stake moves once'); END"
	try "the database: trigger 'stake_moves_once' is not what it was made as" "${kept/NOT NULL/NULL}"
	try "the database: trigger 'a' is none of this program's" "$kept; CREATE TRIGGER a AFTER INSERT ON claim BEGIN DELETE FROM trouble; END"
	try "the database: table 'claim' is not what it was made as" "$kept; PRAGMA writable_schema = 1;
		UPDATE sqlite_schema SET sql = replace(sql, 'CHECK(state IN (0, 1, 2))', '') WHERE name = 'claim'"
	run python3 -c 'import sqlite3; sqlite3.connect("db").execute("UPDATE stake SET moved = 0 WHERE moved IS NOT NULL")'
	assert_failure
	[[ $output == *"a stake moves once"* ]]
}
