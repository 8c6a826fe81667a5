# rnp-reward pay and what the chain knows: a ledger that was paid from since is not paid from again.
load helper
load solana

setup() {
	cd "$BATS_TEST_TMPDIR"
	need_solana
}

teardown() {
	stop_front
}

# back COPY: the ledger's file is that copy again
back() {
	rm -f db db-wal db-shm
	cp "$1" db
}

# root: of the epoch that was sealed last, as memos have it
root() {
	python3 -c 'import sys; sys.path.insert(0, sys.argv[1]); import merkle
n, t = int(sys.argv[2], 16), ""
while n: n, r = divmod(n, 58); t = merkle.ALPHABET[r] + t
print(t)' "$ROOT/tests" "$(tail -1 epoch | jq -r .merkle_root)"
}

@test "pay: an older copy of a ledger pays nothing again, as one server suffices to tell" {
	owe 12
	RNP_FRONT='{"authority": true}' front
	cp db sealed
	by=(--signer 'cat >asked; exit 1' --wallet "$payer")
	run_split pay
	assert_failure 75
	cp db planned
	rm asked
	by=()
	pay >out
	assert_equal "$(jq -r .status out | sort | uniq -c | xargs)" "12 finalised"
	paid=$(root)
	audit
	back sealed
	for how in --dry-run "" --issue; do
		# shellcheck disable=SC2086
		refused 65 "has paid for the epoch with root $paid, and is not in the ledger" pay $how
	done
	[[ $(jq -r .signature out) == *"$(sed 's/.*transaction \([^ ]*\) has paid.*/\1/' <<<"$stderr")"* ]] || fail "$stderr"
	# those that hide it, and those that do not answer, are not enough to be paid again
	for lies in '[["nopast"], ["nopast"], []]' '[["nopast"], [], ["html"]]' '[[], ["nopast"], ["nopast"]]'; do
		control "{\"lies\": $lies}" >/dev/null
		run_split pay
		assert_failure 65
		[[ $stderr == *"has paid for the epoch with root $paid"* ]] || fail "$stderr"
	done
	control '{"lies": [[], [], []]}' >/dev/null
	# nor is it signed for again what was only planned then
	back planned
	refused 65 "has paid for the epoch with root $paid" pay --resume
	by=(--signer 'cat >asked; exit 1' --wallet "$payer")
	refused 65 "has paid for the epoch with root $paid" pay
	[ ! -e asked ]
	by=()
	back sealed
	audit
}

@test "pay: what the ledger has given up, and has landed all the same, is not paid again" {
	owe 5
	front
	pay >out
	audit
	python3 - <<-'PY'
		import sqlite3
		db = sqlite3.connect("db")
		db.executescript("""DROP TRIGGER tx_ends; DROP TRIGGER claim_is_final;
			UPDATE claim SET state = 0, tx = NULL; UPDATE tx SET status = 'expired'""")
	PY
	refused 65 "has landed, which the ledger has given up: nothing is paid" pay
	[[ $stderr == *"127.0.0.1"*"says that transaction 0 "* ]] || fail "$stderr"
	cp chain before
	mapfile -t addresses <wallets
	control "$(jq -nc '{wallets: $ARGS.positional}' --args "${addresses[@]}")" >after
	diff <(jq .has before) <(jq .has after)
}

@test "pay: burns and issues of an older copy are not carried out again" {
	owe 2
	RNP_FRONT='{"authority": true}' front
	cp db sealed
	rnp-reward burn --policy rnp-021 --usd 20 --price 2 --job render-1 >burns
	pay --burn burns --issue --max-per-run 0 >out || [[ $? == 1 ]]
	assert_equal "$(jq -r 'select(.action) | .action + " " + .status' out | sort | xargs)" "burn finalised mint finalised"
	supply=$(control '{}' | jq .supply)
	back sealed
	for how in "--burn burns" --issue; do
		# shellcheck disable=SC2086
		refused 65 "and is not in the ledger: it is a copy of before that" pay $how
	done
	assert_equal "$(control '{}' | jq .supply)" "$supply"
}

@test "pay: nobody but the payer can make the past, so that nobody can stop payments with it" {
	owe 6
	front
	root=$(root)
	# anybody can send something to the payer's account with the memo of an epoch
	control "{\"stranger\": \"$root\"}" >/dev/null
	run_split pay --max-per-run 0
	assert_failure 1
	# a server can tell of what never was: with bytes that are nothing, and of somebody else
	forged() { # SIGNATURE BYTES
		control "{\"lies\": [[\"forged\"], [], []], \"forged\": [{\"signature\": \"$1\", \"memo\": \"[44] $root\"${2:+, \"bytes\": \"$2\"}}]}" >/dev/null
	}
	signature=$(python3 -c 'print("2" * 88)')
	forged "$signature" AAAA
	run_split pay --max-per-run 0
	assert_failure 1
	forged "$signature" "$(head -c 300 /dev/zero | base64 -w 0)"
	run_split pay --max-per-run 0
	assert_failure 1
	# what nobody shows holds payments up, and who tells of it is named
	forged "$signature"
	refused 75 "${urls[0]} tells of a payment that nobody shows" pay
	# one that never ends, and one that answers something else, are not counted
	python3 -c 'import json; print(json.dumps({"lies": [["endless"], [], []],
		"forged": [{"signature": "2" * 88, "memo": None}] * 1000}))' >endless
	control "$(cat endless)" >/dev/null
	run_split pay --max-per-run 0
	assert_failure 1
	[[ $stderr == *"${urls[0]}: the past of the payer's account has no end"* ]] || fail "$stderr"
	control '{"lies": [["html", "500"], ["endless"], []]}' >/dev/null
	run_split pay --max-per-run 0
	[[ $status == 69 ]] || assert_failure 1
	control '{"lies": [["forged"], [], []]}' >/dev/null
	control "{\"lies\": [[\"forged\"], [], []], \"forged\": [{\"signature\": \"$signature\", \"memo\": \"[3] abc\"}]}" >/dev/null
	pay >out
	assert_equal "$(jq -r .status out | sort | uniq -c | xargs)" "6 finalised"
	audit
	# a payment of the payer for another epoch is no payment for this one
	real=$(jq -r .signature out | head -1)
	bytes=$(rnp-reward ledger --store db | jq -r --arg s "$real" 'select(.signature == $s).transaction')
	mv db first
	rm -f db-wal db-shm
	owe 3 2
	refused 65 "and both are not in the ledger" pay
	[[ $stderr == *"; if another ledger has paid it, give --shared" ]] || fail "$stderr"
	pay --shared >out 2>err
	grep -q "has paid for an epoch that is not in the ledger: another one is paid from it, or this is an older copy" err ||
		fail "$(cat err)"
	assert_equal "$(jq -r .status out | sort | uniq -c | xargs)" "3 finalised"
	mv db second
	rm -f db-wal db-shm
	owe 2 3
	root=$(root)
	forged "$real" "$bytes"
	pay --shared >out
	assert_equal "$(jq -r .status out | sort | uniq -c | xargs)" "2 finalised"
}

# sql STATEMENTS: what somebody writes into the ledger's file
sql() {
	python3 -c 'import sqlite3, sys; sqlite3.connect("db").executescript(sys.argv[1])' "$1"
}

@test "pay: a row that was signed once is not paid at two places of the ledger, nor one time by two epochs" {
	owe 4
	front
	cp db sealed
	pay >out
	audit
	n=$(rnp-reward ledger --store db | wc -l)
	sql "INSERT INTO entry SELECT $n, kind, body, sha256 FROM entry WHERE sequence = 0;
		UPDATE head SET entries = entries + 1;
		INSERT INTO epoch SELECT $n, token, policy, from_ms, to_ms, 1, minted, claimed, locked, \"left\", 0, 0, claimed
			FROM epoch WHERE sequence = 0;
		INSERT INTO claim SELECT $n, wallet, unlocked, locked, 0, NULL FROM claim WHERE epoch = 0"
	refused 65 "the ledger is not good: row $n: is not what was signed for this place" pay
	# another ledger of the same signer has an epoch of the same time in the next place
	rm -f db-wal db-shm
	mv sealed first
	rm db
	sed 's/2026-11-09T/2026-11-02T/; s/2026-11-16T/2026-11-09T/' usages >before
	rnp-reward epoch -q --policy rnp-021 --store db --key payer.json before >/dev/null
	rnp-reward epoch -q --policy rnp-021-per-node --store db --key payer.json usages >/dev/null
	mv db second
	mv first db
	sql "ATTACH 'second' AS o; INSERT INTO entry SELECT * FROM o.entry WHERE sequence = 1;
		UPDATE head SET entries = 2, sha256 = (SELECT sha256 FROM o.head);
		INSERT INTO epoch SELECT * FROM o.epoch WHERE sequence = 1; INSERT INTO claim SELECT * FROM o.claim WHERE epoch = 1"
	refused 65 "the ledger is not good: rows 0 and 1 pay for the same time" pay
}
