# rnp-reward pay and what the chain knows: a ledger that was paid from since is not paid from again.
load ../helper
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
print(t)' "$ROOT/tests/tools" "$(tail -1 epoch | jq -r .merkle_root)"
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
		refused 65 "not in the ledger: it is a copy of before that" pay $how
	done
	assert_equal "$(control '{}' | jq .supply)" "$supply"
}

@test "pay: nobody but the payer can make the past, so that nobody can stop payments with it" {
	owe 6
	front
	root=$(root)
	# anybody can send something to the payer's account with the memo of an epoch, alone or together with others
	for with in false true; do
		control "{\"stranger\": \"$root\", \"witness\": $with}" >/dev/null
		run_split pay --max-per-run 0
		assert_failure 1
	done
	# a server can tell of what never was: with bytes that are nothing, and with none. It holds payments up, and is named
	forged() { # SIGNATURE BYTES
		control "{\"lies\": [[\"forged\"], [], []], \"forged\": [{\"signature\": \"$1\", \"memo\": \"[44] $root\"${2:+, \"bytes\": \"$2\"}}]}" >/dev/null
	}
	signature=$(python3 -c 'print("2" * 88)')
	forged "$signature" AAAA
	refused 75 "${urls[0]} tells of a payment that nobody shows" pay
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
	assert_equal "$(grep -c "has paid for an epoch that is not in the ledger: another one is paid from it, or this is an older copy" err)" 1
	assert_equal "$(jq -r .status out | sort | uniq -c | xargs)" "3 finalised"
	mv db second
	rm -f db-wal db-shm
	owe 2 3
	root=$(root)
	forged "$real" "$bytes"
	pay --shared >out
	assert_equal "$(jq -r .status out | sort | uniq -c | xargs)" "2 finalised"
}

@test "pay: of a stranger's transactions with an epoch's memo each is asked for once a run" {
	owe 4
	front
	root=$(root)
	for ((i = 0; i < 5; i++)); do
		control "{\"stranger\": \"$root\"}" >/dev/null
	done
	# those of the last blocks are not yet told of by the servers
	wait_until "all of them" sh -c '[ "$(curl -sS -d "{\"jsonrpc\": \"2.0\", \"id\": 1, \"method\": \"getSignaturesForAddress\",
		\"params\": [\"$0\"]}" "$1" | jq "[.result[].memo] | length")" = 5 ]' "$(jq -r .account front.json)" "${urls[0]}"
	pay >out
	assert_equal "$(jq -r .status out | sort | uniq -c | xargs)" "4 finalised"
	assert_equal "$(control '{}' | jq .shows)" 5
}

# untrue BYTES OTHER: other bytes with the signature of a transaction, one a line
untrue() {
	python3 - "$1" "$2" <<-'PY'
		import base64, sys
		paid, other = (base64.b64decode(x) for x in sys.argv[1:])
		signature, message = paid[1:65], paid[65:]
		print(*(base64.b64encode(it).decode() for it in (b"", bytes(3), bytes(300), other, b"\1" + signature, b"\1" + signature + other[65:],
				b"\1" + other[1:65] + message, paid[:-1], b"\2" + signature + other[1:],
				b"\3" + signature + bytes(64) + message, b"\1" + signature + bytes([128]) + message,
				b"\1" + signature + message[:4] + other[69:], b"\0" + paid, b"\x81\0" + paid[1:])), sep="\n")
	PY
}

@test "pay: bytes that nobody has signed with a payment's signature do not tell whose it is: nothing is paid again" {
	owe 6
	front
	cp db sealed
	pay >out
	paid=$(jq -r .signature out | head -1)
	bytes=$(rnp-reward ledger --store db | jq -r 'select(.transaction).transaction')
	other=$(control '{"stranger": "hello"}' | jq -r .last)
	untrue "$bytes" "$other" >given
	assert_equal "$(wc -l <given)" 14
	back sealed
	# lie LIES BYTES: all tell of the payment; what they give for it when they are asked
	lie() {
		control "{\"lies\": $1, \"shown\": [\"$2\", \"$2\", \"$2\"]}" >/dev/null
	}
	while read -r given; do
		lie '[["noshow"], ["swapped"], ["noshow"]]' "$given"
		refused 75 "tells of a payment that nobody shows, $paid: leave it out, or ask again later" pay
	done <given
	# alone, in pairs, and where the other one hides it
	for lies in '[["swapped"], ["noshow"], ["noshow"]]' '[["swapped"], ["noshow"], ["swapped"]]' \
		'[["swapped"], ["swapped"], ["swapped"]]' '[["nopast", "noshow"], ["nopast", "swapped"], ["noshow"]]' \
		'[["noshow"], ["nopast", "swapped"], ["nopast", "swapped"]]'; do
		lie "$lies" "$(sed -n 6p given)"
		refused 75 "tells of a payment that nobody shows, $paid" pay
	done
	# one that shows it suffices, and what others give is no matter
	for lies in '[["swapped"], ["swapped"], []]' '[[], ["nopast", "swapped"], ["nopast", "swapped"]]' \
		'[["nopast"], ["swapped"], ["nopast"]]'; do
		lie "$lies" "$([[ $lies == *'["nopast"], ["swapped"], ["nopast"]'* ]] && echo "$bytes" || sed -n 6p given)"
		refused 65 "transaction $paid has paid for the epoch with root $(root), and is not in the ledger" pay
	done
	control '{"lies": [[], [], []]}' >/dev/null
	audit
}

@test "pay: a server that gives few transactions at a time is asked until it has no more" {
	owe 6
	front
	cp db sealed
	pay >out
	for ((i = 0; i < 3; i++)); do
		control '{"stranger": "hello"}' >/dev/null
	done
	back sealed
	control '{"lies": [["short"], ["short"], ["short"]]}' >/dev/null
	refused 65 "has paid for the epoch with root $(root), and is not in the ledger" pay
	audit
}

@test "pay: two servers that call a payment failed while it is under way do not have it made again" {
	owe 6
	front 8 400 # no blockhash dies within a minute
	# the first takes its time to send it
	control '{"lies": [["failed", "late"], ["failed"], []]}' >/dev/null
	for how in "" --resume; do
		# shellcheck disable=SC2086
		refused 75 "1 transactions are still in flight: go on with pay --resume" pay --timeout 300ms $how
	done
	paying
	finish || fail "$(cat err)"
	assert_equal "$(jq -r .status out | sort | uniq -c | xargs)" "6 finalised"
	audit
	ledger_agrees
}

@test "pay: what landed is not paid again on the word of one server, nor of two while the third is gone" {
	for how in one two; do
		rm -f db*
		owe 3 "$((++seed))"
		[[ $how != one ]] || front 8 4
		[[ $(control '{}') =~ \"payer\":([0-9]+) ]]
		pool=${BASH_REMATCH[1]}
		honest=("${urls[@]}")
		also=(--shared)
		paying
		if [[ $how == one ]]; then
			command=(rnp-reward pay --store db --keypair payer.json --trust "$payer" --mint "$mint" --poll 20ms --shared
				--cluster EtWTRABZaYq6iMfeYKouRu166VU2xqa1wcaWoxPkrZBG --rpc "${urls[0]}" --single-server --allow-unfunded-recipient)
		else
			command=("${command[@]/${urls[2]}/http://127.0.0.1:1}")
		fi
		control '{"lies": [["failed"], ["failed"], []]}' >/dev/null
		for _ in 1 2; do
			run_split "${command[@]}"
			assert_failure 75
			[[ $stderr == *"1 transaction failed, as servers say, and nothing is paid again on their word"* ]] || fail "$stderr"
		done
		assert_equal "$(rnp-reward pay --store db --status | jq -r .status | uniq -c | xargs)" "3 sent"
		# honest ones contradict even a person, and it is over
		control '{"lies": [[], [], []]}' >/dev/null
		"${command[@]}" --give-up "$(rnp-reward pay --store db --status | jq -rs '.[0].signature')" >out 2>err || fail "$(cat err)"
		assert_equal "$(jq -r .status out | uniq -c | xargs)" "3 finalised"
		urls=("${honest[@]}")
		audit
	done
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

@test "pay, verify: a payment that somebody writes into an older copy without the claims that it paid is no payment" {
	owe 4
	front
	cp db sealed
	pay >out
	cp db paid
	back sealed
	sql "ATTACH 'paid' AS p; INSERT INTO tx SELECT * FROM p.tx"
	refused 65 "the ledger is not good: transaction 0: its payouts do not add up" pay
	sql "ATTACH 'paid' AS p; INSERT INTO entry SELECT * FROM p.entry WHERE sequence > 0;
		UPDATE head SET entries = (SELECT entries FROM p.head), sha256 = (SELECT sha256 FROM p.head)"
	refused 65 "the ledger is not good: transaction 0: its payouts do not add up" pay
	run rnp-reward verify --store db
	assert_failure 1
	assert_equal "$(jq -r .reason <<<"$output")" "transaction 0: its payouts do not add up"
	# with one of the claims, as if it had paid no more
	sql "ATTACH 'paid' AS p; INSERT INTO payout SELECT * FROM p.payout LIMIT 1;
		DROP TRIGGER tx_ends; UPDATE tx SET base_units = (SELECT base_units FROM payout);
		UPDATE claim SET state = 2, tx = 0 WHERE wallet = (SELECT wallet FROM payout)"
	refused 65 "the ledger is not good: transaction 0: its bytes do not pay what it does" pay
	cp paid db
	audit
}

@test "pay: a burn before the first epoch is not made again from an older copy, nor where the wallet is shared" {
	owe 2
	mv db later
	: >none
	rnp-reward ledger -q --store db --import none
	cp db empty
	front
	rnp-reward burn --policy rnp-021 --usd 20 --price 2 --job render-1 >burns
	pay --burn burns >out
	assert_equal "$(jq -r '.action + " " + .status' out)" "burn finalised"
	rnp-reward verify --store db >verified || fail "$(cat verified)"
	supply=$(control '{}' | jq .supply)
	for copy in empty later; do
		for how in "" --shared; do
			back "$copy"
			# shellcheck disable=SC2086
			refused 65 "has carried out 'burn render-1', and is not in the ledger" pay --burn burns $how
		done
	done
	refused 65 "and both are not in the ledger" pay
	assert_equal "$(control '{}' | jq .supply)" "$supply"
	# a second burn is none of these, and the first is known where it was made
	back later
	rnp-reward burn --policy rnp-021 --usd 20 --price 2 --job render-2 >burns
	pay --shared --burn burns >out 2>err
	assert_equal "$(jq -r 'select(.action).status' out)" finalised
	pay --shared --burn burns >out
	assert_equal "$(cat out)" ""
}

@test "pay: an epoch that was sealed and paid before it begins is not paid again either" {
	owe 3
	rm db
	sed -i 's/2026-11-/2040-11-/g' usages
	rnp-reward epoch -q --policy rnp-021 --open --store db --key payer.json usages >epoch
	front
	cp db sealed
	pay >out
	assert_equal "$(jq -r .status out | sort | uniq -c | xargs)" "3 finalised"
	back sealed
	refused 65 "has paid for the epoch with root $(root), and is not in the ledger" pay
	audit
}

@test "pay: an imported epoch that somebody makes payable is not paid again under another one's root" {
	owe 4
	rm db
	sed 's/2026-11-09T/2026-11-02T/; s/2026-11-16T/2026-11-09T/' usages >before
	for usages in before usages; do
		rnp-reward epoch -q --policy rnp-021 --store db --key payer.json "$usages" >/dev/null
	done
	rnp-reward ledger --store db >rows
	front
	cp db sealed
	pay >out
	rm -f db db-wal db-shm
	rnp-reward ledger -q --store db --import rows
	# an imported ledger owes nothing, and its past is none of a later epoch's business
	pay >out
	assert_equal "$(cat out)" ""
	sql "ATTACH 'sealed' AS o; UPDATE epoch SET payable = 1 WHERE sequence = 0;
		INSERT INTO claim SELECT * FROM o.claim WHERE epoch = 0"
	refused 65 "and is not in the ledger: it is a copy of before that, or was changed" pay
	rm -f db db-wal db-shm
	rnp-reward ledger -q --store db --import rows
	sed 's/2026-11-16T/2026-11-23T/; s/2026-11-09T/2026-11-16T/' usages >after
	rnp-reward epoch -q --policy rnp-021 --store db --key payer.json after >epoch
	pay >out
	assert_equal "$(jq -r .status out | sort | uniq -c | xargs)" "4 finalised"
}

@test "pay: servers that have forgotten what may have been paid are not counted, and say since when they know" {
	owe 4
	front
	cp db sealed
	pay >out
	back sealed
	control '{"lies": [["pruned"], ["pruned"], ["pruned"]]}' >/dev/null
	run_split pay
	assert_failure 69
	[[ $stderr == *"only 0 of 3 servers tell of past transactions"* ]] || fail "$stderr"
	[[ $stderr == *"${urls[0]}: knows transactions since "*" only, and there may be payments since 2026-11-08T00:00:00Z"* ]] ||
		fail "$stderr"
	control '{"lies": [["pruned"], ["nopast"], ["pruned"]]}' >/dev/null
	run_split pay
	assert_failure 69
	[[ $stderr == *"only 1 of 3 servers tell of past transactions"* ]] || fail "$stderr"
	# what one of them knows it tells
	control '{"lies": [[], ["pruned"], ["pruned"]]}' >/dev/null
	refused 65 "and is not in the ledger" pay
	audit
	rm -f db db-wal db-shm
	owe 3 2
	control '{"lies": [["pruned"], [], []]}' >/dev/null
	pay --shared >out 2>err
	assert_equal "$(grep -c "${urls[0]}: knows transactions since " err)" 1
	assert_equal "$(jq -r .status out | sort | uniq -c | xargs)" "3 finalised"
}

@test "pay: what was still under way and an older copy has paid again is named at the end of that run" {
	owe 4
	front 8 400 # no blockhash dies within a minute
	cp db sealed
	control '{"lies": [["late"], ["late"], ["late"]]}' >/dev/null
	run_split pay --timeout 300ms
	assert_failure 75
	first=$(rnp-reward pay --store db --status | jq -rs '.[0].signature')
	back sealed
	# with the same blockhash it would be the same transaction
	paying --unit-price 1
	"${command[@]}" >out 2>err &
	pid=$!
	wait_until "a transaction that is sent" sh -c 'rnp-reward pay --store db --status | grep -q "\"sent\""'
	control '{"block_ms": 10}' >/dev/null
	code=0
	wait $pid || code=$?
	assert_equal "$code" 1
	grep -q "after the payments: transaction $first has paid for the epoch with root $(root), and is not in the ledger" err ||
		fail "$(cat err)"
}

@test "pay: what an older copy does not know and is still under way is not paid again with --settle, nor with --nonce" {
	owe 4
	RNP_FRONT='{"nonces": 1}' front 8 400 # no blockhash dies within a minute
	refused 64 "--settle: one server alone cannot tell" rnp-reward pay --store db --keypair payer.json --trust "$payer" \
		--rpc "${urls[0]}" --settle
	n=1
	for how in --settle "--nonce ${nonces[0]}"; do
		cp db sealed
		read -ra also <<<"$how"
		[[ $how == --nonce* ]] || also=()
		control '{"lies": [["late"], ["late"], ["late"]], "block_ms": 400}' >/dev/null
		run_split pay --timeout 300ms --shared
		assert_failure 75
		[[ $stderr == *"1 transactions are still in flight"* ]] || fail "$stderr"
		back sealed
		read -ra also <<<"$how"
		control '{"lies": [[], [], []], "block_ms": 10}' >/dev/null
		run_split pay --shared
		# with the nonce it may have made the same transaction, as long as the first one was under way: then
		# balances may have seen that before (1)
		if [[ $how == --settle || ! $status =~ ^[01]$ ]]; then
			assert_failure 65
			[[ $stderr == *"has paid for the epoch with root $(root), and is not in the ledger"* ]] || fail "$stderr"
		fi
		pool=$((${pool:-1000000000000000} - $(jq '[.[]] | add' expected)))
		mapfile -t addresses <wallets
		control "$(jq -nc '{wallets: $ARGS.positional}' --args "${addresses[@]}")" >chain
		assert_equal "$(jq -c '.has | to_entries | sort' chain)" "$(jq -c 'to_entries | sort' expected)"
		assert_equal "$(jq .payer chain)" "$pool"
		# the next one is another ledger of the same wallet
		rm -f db db-wal db-shm
		owe 4 $((++n))
	done
}
