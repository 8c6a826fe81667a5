# rnp-reward pay on other ways: nonces, signers outside, Token-2022, burns and issues on chain.
load ../helper
load solana

setup() {
	cd "$BATS_TEST_TMPDIR"
	need_solana
}

teardown() {
	stop_front
}

statuses() {
	jq -r '.status' "$1" | sort | uniq -c | xargs
}

# verified: the ledger follows from its rows, its signatures and what servers know
verified() {
	rnp-reward verify --store db --trust "$payer" --rpc "${urls[0]}" --rpc "${urls[1]}" --rpc "${urls[2]}" >checks ||
		fail "$(cat checks)"
}

@test "pay --nonce: paid with durable nonces, which do not expire, and are given up when they are advanced" {
	owe 20
	RNP_FRONT='{"nonces": 2}' front 8 4
	pay --nonce "${nonces[0]}" --nonce "${nonces[1]}" >out
	assert_equal "$(statuses out)" "20 finalised"
	audit
	ledger_agrees
	verified
	assert_equal "$(rnp-reward ledger --store db | jq -r 'select(.status == "signed").nonce' | sort -u | wc -l)" 2
	refused 64 "stands there twice" pay --nonce "${nonces[0]}" --nonce "${nonces[0]}"
	rm db
	also=(--shared)
	owe 10 2
	refused 65 "is not a nonce account that the payer controls" pay -q --nonce "$mint"
	# nobody takes it: after more blocks than a blockhash lives it is still in flight, and then lands
	control '{"lies": [["drop"], ["drop"], ["drop"]]}' >/dev/null
	for time in 1500ms 3s 6s 12s; do
		run_split pay --nonce "${nonces[0]}" --timeout $time
		assert_failure 75
		(($(control '{"lies": [["drop"], ["drop"], ["drop"]]}' | jq .height) <= 1200)) || break
	done
	control '{"lies": [["drop"], ["drop"], ["drop"]]}' | jq -e '.height > 1200'
	assert_equal "$(rnp-reward ledger --store db | grep -c '"expired"')" 0
	# somebody advances the nonce: what was signed with it is dead, and is planned anew
	control "{\"advance\": [\"${nonces[0]}\"], \"lies\": [[], [], []]}" >/dev/null
	pay --nonce "${nonces[0]}" >out
	assert_equal "$(statuses out)" "10 finalised"
	(($(rnp-reward ledger --store db | grep -c '"expired"') > 0))
	pool=$(control '{}' | jq '.payer')
	verified
}

@test "pay --signer: who signs is told in words, is asked for the same message again, and refuses" {
	owe 12
	front
	by=(--signer "node $ROOT/tests/tools/solana_signer.mjs payer.json asked" --wallet "$payer")
	refused 64 "--signer goes with --wallet" rnp-reward pay --store db --signer x --trust "$payer" --rpc http://127.0.0.1:1
	# killed while the signer thinks: nothing is signed
	by[1]='echo $$ >signer; cat >first; exec sleep 60'
	paying --timeout 30s
	"${command[@]}" >out 2>err 3>&- &
	pid=$!
	wait_file first
	kill -9 $pid
	wait $pid || true
	kill "$(<signer)"
	assert_equal "$(control '{}' | jq .landed)" 0
	# one that goes on after its answer, whatever it is sent, does not hold the ledger for ever
	by[1]='trap "" TERM; cat >/dev/null; exec sleep 60 >&- 2>&- 3>&-'
	paying --timeout 1s
	run_split timeout -k 1 120 "${command[@]}"
	assert_failure 75
	[[ $stderr == *"the signer did not answer in time"* ]] || fail "$stderr"
	for refusal in 'cat >/dev/null; exit 3' 'cat >/dev/null; echo 1111' 'cat >/dev/null; yes' 'exec 0<&-; true'; do
		by[1]=$refusal
		code=0
		pay >out 2>err || code=$?
		[[ $code == 75 || $code == 65 ]] || fail "$refusal: $code $(cat err)"
	done
	assert_equal "$(control '{}' | jq .landed)" 0
	# a signer that takes more than half of a blockhash's life for each of two transactions
	control '{"block_ms": 60}' >/dev/null
	by[1]="sleep 5; exec node $ROOT/tests/tools/solana_signer.mjs payer.json asked"
	pay --timeout 240s >out
	assert_equal "$(statuses out)" "12 finalised"
	control '{"block_ms": 10}' >/dev/null
	audit
	verified
	# the same message as before the kill, then others
	assert_equal "$(head -1 asked | jq .message)" "$(jq .message first)"
	[[ $(jq -r '.words[]' first) == *"transfer "*" to "* ]] || fail "$(cat first)"
	# another wallet's signature is none
	rm db
	also=(--shared)
	owe 3 2
	rnp-register keygen --out other.json >/dev/null
	by[1]="node $ROOT/tests/tools/solana_signer.mjs other.json asked"
	refused 65 "is not the payer's signature of this message" pay -q
}

@test "pay: Token-2022: executed, its fee shown; a mint whose tokens others can stop is refused" {
	owe 12
	RNP_FRONT='{"token_2022": true, "fee_bps": 100, "fee_max": 1500000}' front
	pay --dry-run >plan
	assert_equal "$(jq -s 'all(.fee_base_units == ([.base_units / 100, 1500000] | min | ceil))' plan)" true
	pay >out
	assert_equal "$(statuses out)" "12 finalised"
	control "$(jq -Rsc '{wallets: split("\n")[:-1]}' wallets)" >chain
	# what each wallet has is what it is paid less what the plan shows as the mint's fee
	jq -e --slurpfile plan plan '.has as $has | $plan | all($has[.wallet] == .base_units - .fee_base_units)' chain
	verified
	stop_front
	rm db
	owe 2 2
	RNP_FRONT='{"token_2022": true, "hook": true}' front
	refused 65 "the mint has a transfer hook" pay
}

@test "pay --issue and --burn: what epochs claim is issued once, what jobs burn is burned once" {
	owe 6
	RNP_FRONT='{"authority": true}' front 8 10 0
	claimed=$(jq -s 'map(select(.kind == "rnp.reward").base_units) | add' epoch)
	refused 65 "the payouts need" pay
	pay --issue >out
	assert_equal "$(statuses out)" "7 finalised"
	pool=$claimed audit
	assert_equal "$(control '{}' | jq .supply)" "$claimed"
	pay --issue >again
	assert_equal "$(cat again)" ""
	verified
	stop_front
	rm db
	owe 2 2
	front
	rnp-reward burn --policy rnp-021 --usd 20 --price 2 --job render-1 >burns
	rnp-reward burn --policy rnp-021 --usd 10 --price 2 --job render-2 >>burns
	pay --burn burns >out
	assert_equal "$(jq -c 'select(.action == "burn") | [.base_units, .status]' out | xargs)" \
		"[950000000,finalised] [475000000,finalised]"
	assert_equal "$(control '{}' | jq .supply)" $((1000000000000000 - 1425000000))
	pay --burn burns >again
	assert_equal "$(cat again)" ""
	verified
	# what a card paid is burned when its time has come; two jobs are two, however long a name they share; and a burn that
	# the servers drop until its blockhash is dead is planned again, in the same run
	name=$(printf 'ü%.0s' {1..119})
	rnp-reward burn --policy rnp-021 --usd 20 --price 2 --job later --payment card --at 2998-12-01T00:00:00Z >late
	for i in 1 2; do
		rnp-reward burn --policy rnp-021 --usd $((10 * i)) --price 2 --job "$name$i"
	done >>late
	control '{"lies": [["drop"], ["drop"], ["drop"]]}' >/dev/null
	paying --burn late
	"${command[@]}" >out 2>err 3>&- &
	pid=$!
	wait_until "a burn that has expired" sh -c 'rnp-reward ledger --store db | grep -q "\"expired\""'
	control '{"lies": [[], [], []]}' >/dev/null
	ended $pid || fail "$(cat err)"
	assert_equal "$(jq -c 'select(.action == "burn") | [.base_units, .status]' out | sort | xargs)" \
		"[475000000,finalised] [950000000,finalised]"
	grep -q "1 burns are not due yet, the first at 2999-03-31T00:00:00Z: left to a later run" err || fail "$(cat err)"
	assert_equal "$(control '{}' | jq .supply)" $((1000000000000000 - 1425000000 - 1425000000))
	RNP_NOW=2999-03-31T00:00:00Z pay --burn late >out
	assert_equal "$(jq -c '[.action, .status]' out)" '["burn","finalised"]'
	verified
	# a job is burned for once, and a burn that names none could be burned twice
	rnp-reward burn --policy rnp-021 --usd 30 --price 2 --job render-1 >other
	refused 65 "is in the ledger with another amount" pay --burn other
	rnp-reward burn --policy rnp-021 --usd 30 --price 2 >nameless
	refused 65 "it names no job" pay --burn nameless
	refused 65 "the payer is not the mint's authority" pay --issue
	# the ledger's history cannot be changed, even by who makes the chain of hashes anew
	python3 - <<-'PY'
		import hashlib, json, sqlite3
		db = sqlite3.connect("db")
		before, last = "0" * 64, None
		for sequence, body in db.execute("SELECT sequence, body FROM entry ORDER BY sequence").fetchall():
		    row = json.loads(body)
		    row["previous"] = before
		    if row.get("order") == "burn render-1":
		        row["base_units"] -= 1
		    row = {k: v for k, v in row.items()}
		    text = json.dumps(row, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
		    last = hashlib.sha256(text.encode()).digest()
		    before = last.hex()
		    db.execute("UPDATE entry SET body = ?, sha256 = ? WHERE sequence = ?", (json.dumps(row), last, sequence))
		db.execute("UPDATE head SET sha256 = ?", (last,))
		db.commit()
	PY
	run_split rnp-reward verify --store db --trust "$payer" --rpc "${urls[0]}"
	assert_failure 1
	[[ $(jq -r 'select(.ok | not) | [.what, .reason] | join(": ")' <<<"$output") == *"it does something else than what was ordered"* ]] ||
		fail "$output"
}

# sql STATEMENTS: what somebody writes into the ledger's file
sql() {
	python3 -c 'import sqlite3, sys; sqlite3.connect("db").executescript(sys.argv[1])' "$1"
}

@test "pay --signer: a message that was kept is held against what is planned, before it is asked for again" {
	owe 4
	front
	by=(--signer 'cat >asked; exit 1' --wallet "$payer")
	run_split pay
	assert_failure 75
	cp asked first
	cp db good
	message="(SELECT bytes FROM tx)"
	# the least byte of the last amount: its data is followed by one byte of decimals and one of no tables
	for change in "bytes = substr($message, 1, length($message) - 10) || x'2a' || substr($message, length($message) - 8)" \
		"bytes = substr($message, 1, 100)" "bytes = x'80'" "bytes = x''" \
		"bytes = substr($message, 1, 9) || x'2a' || substr($message, 11)" "blockhash = randomblob(32)"; do
		rm -f asked
		# what SQLite has joined is text
		sql "UPDATE tx SET ${change/bytes = /bytes = CAST(}$([[ $change == bytes* ]] && echo ' AS BLOB)')"
		refused 65 "the message of transaction 0 is not what is planned" pay --resume
		[ ! -e asked ]
		cp good db
	done
	# the same message is asked for again, also where options are others by now
	run_split pay --resume --unit-price 7 --legacy
	assert_failure 75
	assert_equal "$(jq -r .message asked)" "$(jq -r .message first)"
	by[1]="node $ROOT/tests/tools/solana_signer.mjs payer.json asked"
	pay >out
	assert_equal "$(statuses out)" "4 finalised"
	audit
}

@test "pay --issue and --burn: what is open or planned is carried out as its epoch or record has it, once" {
	owe 6
	RNP_FRONT='{"authority": true}' front
	sql "INSERT INTO supply_order VALUES('epoch 7', 'mint', 1000, NULL)"
	refused 65 "'epoch 7' is to be issued, 1000 base units, which no epoch claims that is signed" pay --issue
	sql "DELETE FROM supply_order WHERE tx IS NULL; INSERT INTO supply_order VALUES('epoch 0 ', 'mint', 1000, NULL)"
	refused 65 "'epoch 0 ' is to be issued" pay --issue
	# a burn that no record tells of is nobody's
	sql "DELETE FROM supply_order WHERE tx IS NULL; INSERT INTO supply_order VALUES('burn thief', 'burn', 1000, NULL)"
	rnp-reward burn --policy rnp-021 --usd 20 --price 2 --job render-1 >burns
	rnp-reward burn --policy rnp-021 --usd 10 --price 2 --job other >others
	pay --burn others >out 2>err
	grep -q "1 burns of earlier runs are open, and not in 'others'" err || fail "$(cat err)"
	claimed=$(jq -s 'map(select(.kind == "rnp.reward").base_units) | add' epoch)
	assert_equal "$(control '{}' | jq .supply)" $((1000000000000000 + claimed - 475000000))
	assert_equal "$(jq -c 'select(.action).base_units' out)" 475000000
	sql "DELETE FROM supply_order WHERE tx IS NULL"
	# one that is planned and not signed
	by=(--signer 'cat >asked; exit 1' --wallet "$payer")
	run_split pay --burn burns
	assert_failure 75
	rm asked
	cp db planned
	refused 65 "'burn render-1' is planned and not signed, 950000000 base units: go on with --burn" pay --resume
	refused 65 "is planned and not signed" pay --resume --burn others
	sql "UPDATE tx SET base_units = base_units + 1 WHERE action = 'burn' AND status = 'planned'"
	refused 65 "transaction 3 is not what was ordered" pay --resume --burn burns
	sql "DROP TRIGGER supply_order_stays; UPDATE supply_order SET base_units = base_units + 1 WHERE id = 'burn render-1'"
	refused 65 "'burn render-1' is planned and not signed" pay --resume --burn burns
	[ ! -e asked ]
	mv planned db
	by=()
	pay --burn burns >out
	assert_equal "$(jq -c 'select(.action) | [.base_units, .status]' out)" '[950000000,"finalised"]'
	# what is done is not done again, whoever says that it is open, or owed
	cp db good
	sql "UPDATE supply_order SET tx = NULL WHERE id = 'burn render-1'"
	refused 65 "what it carries out is open again" pay --burn burns
	cp good db
	sql "DROP TRIGGER claim_is_final; UPDATE claim SET state = 0, tx = NULL WHERE wallet = (SELECT min(wallet) FROM claim)"
	refused 65 "the ledger is not good: its transactions pay" pay
	mv good db
	rm -f db-wal db-shm
	pay >out
	assert_equal "$(cat out)" ""
	pool=$((1000000000000000 + claimed - 475000000 - 950000000)) audit
}

@test "pay --nonce: servers that are behind, and tell of a value that the nonce had before, give nothing up" {
	owe 4
	RNP_FRONT='{"nonces": 1}' front
	run_split pay --nonce "${nonces[0]}" --max-per-run 1
	assert_failure 1
	# the second one is in flight when those that it was not sent to fall behind, and the other one does not answer
	control '{"lies": [["drop"], ["drop"], ["drop"]]}' >/dev/null
	run_split pay --nonce "${nonces[0]}" --timeout 1s
	assert_failure 75
	control '{"lies": [["drop", "500"], ["drop", "oldnonce"], ["drop", "oldnonce"]]}' >/dev/null
	run_split pay --nonce "${nonces[0]}" --resume --timeout 2s
	assert_failure 75
	assert_equal "$(rnp-reward ledger --store db | grep -c '"expired"')" 0
	control '{"lies": [[], [], []]}' >/dev/null
	pay --nonce "${nonces[0]}" >out
	assert_equal "$(rnp-reward pay --store db --status | jq -r .status | sort | uniq -c | xargs)" "4 finalised"
	audit
}
