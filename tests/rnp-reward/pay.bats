# rnp-reward pay: payouts on Solana, executed by a real virtual machine behind servers that lie.
load ../helper
load solana

setup() {
	cd "$BATS_TEST_TMPDIR"
	need_solana
}

teardown() {
	stop_front
	[[ -z ${rude:-} ]] || kill "$rude" 2>/dev/null || true
	umount disk 2>/dev/null || true
}

@test "pay: messages are byte for byte kit's, addresses and bumps too" {
	tool=$RNP_BUILD/unit/chain/solana
	[[ -x $tool ]] || skip "make units"
	node "$ROOT/tests/tools/solana_kit.mjs" messages 500 11 "$tool"
	node "$ROOT/tests/tools/solana_kit.mjs" addresses 2000 12 "$tool"
}

@test "pay: every wallet is paid once; again, there is nothing to pay" {
	owe 40
	front
	pay --dry-run >plan
	# whose wallet it is suffices for that: nothing is signed
	by=(--wallet "$payer")
	pay --dry-run | cmp - plan
	refused 64 "--rpc, --keypair and --trust are needed" pay
	by=()
	assert_equal "$(jq -r .status plan | sort | uniq -c | xargs)" "40 planned"
	# each transaction creates at least 8 accounts
	assert_equal "$(jq -s 'map(.batch) | max' plan)" 4
	assert_equal "$(control '{}' | jq .landed)" 0
	assert_equal "$(rnp-reward ledger --store db | wc -l)" 1
	pay >out
	assert_equal "$(jq -r .status out | sort | uniq -c | xargs)" "40 finalised"
	audit
	ledger_agrees
	pay >again 2>err
	assert_equal "$(cat again)$(cat err)" "rnp-reward: nothing to pay: the wallets have all that signed epochs owe them"
	rnp-reward pay --store db --status --table | grep -q "[0-9] RENDER .*finalised"
	# on a busy machine a blockhash may have expired, and its transaction been made again
	rnp-reward pay --store db --status | grep -v '"status":"expired"' | cmp - out
	# the rows tell the whole history, with the steps of a transaction in their order
	rnp-reward ledger --store db | jq -sr 'map(select(.kind == "rnp.tx")) | group_by(.tx)[] |
		map(.status) | join(" ")' | sort -u >steps
	run grep -vE '^planned signed( sent)?( confirmed)? (finalised|expired)$' steps
	assert_output ""
	# the memo is the epoch's root
	assert_equal "$(rnp-reward ledger --store db | jq -r 'select(.memo).memo' | sort -u)" \
		"$(python3 -c 'import sys; sys.path.insert(0, sys.argv[1]); import merkle
n, t = int(sys.argv[2], 16), ""
while n: n, r = divmod(n, 58); t = merkle.ALPHABET[r] + t
print(t)' "$ROOT/tests/tools" "$(tail -1 epoch | jq -r .merkle_root)")"
}

@test "pay: what was signed is paid, and not what somebody has made of it in the ledger's file since" {
	owe 12
	front
	rnp-reward verify --store db >/dev/null
	changed() { # SQL REASON: refused before anything is signed
		cp db good
		python3 -c 'import sqlite3, sys; sqlite3.connect("db").executescript(sys.argv[1])' "$1"
		for how in --dry-run --issue ""; do
			# shellcheck disable=SC2086
			refused 65 "the ledger is not good: row 0: $2" pay $how
		done
		assert_equal "$(rnp-reward ledger --store db | wc -l)" 1
		mv good db
		rm -f db-wal db-shm
	}
	root="its claims do not have its Merkle root"
	thief=$(printf '2a%.0s' {1..32})
	first="(SELECT min(wallet) FROM claim)" last="(SELECT max(wallet) FROM claim)"
	changed "UPDATE claim SET wallet = x'$thief' WHERE wallet = $first" "$root"
	changed "UPDATE claim SET unlocked = unlocked + 1 WHERE wallet = $first;
		UPDATE claim SET unlocked = unlocked - 1 WHERE wallet = $last" "$root"
	changed "INSERT INTO claim SELECT epoch, x'$thief', 1, 0, 0, NULL FROM claim LIMIT 1" "$root"
	changed "DELETE FROM claim WHERE wallet = $first" "$root"
	changed "UPDATE epoch SET claimed = claimed + 7, owed = owed + 7, minted = minted + 7" "its balance is not"
	# nor what a run has planned and not signed yet: here the signer refuses
	by=(--signer 'cat >asked; exit 1' --wallet "$payer")
	run_split pay
	assert_failure 75
	cp db planned
	by=()
	for sql in "UPDATE payout SET wallet = x'$thief' WHERE wallet = $first" \
		"UPDATE payout SET base_units = base_units + 1 WHERE wallet = $first"; do
		python3 -c 'import sqlite3, sys; sqlite3.connect("db").executescript(sys.argv[1])' "$sql"
		refused 65 "transaction 0 does not pay what its claims are" pay --resume
		cp planned db
	done
	sql="UPDATE payout SET wallet = x'$thief' WHERE wallet = $first; UPDATE claim SET wallet = x'$thief' WHERE wallet = $first"
	python3 -c 'import sqlite3, sys; sqlite3.connect("db").executescript(sys.argv[1])' "$sql"
	refused 65 "row 0: $root" pay --resume
	cp planned db
	rm -f db-wal db-shm
	pay >out
	assert_equal "$(jq -r .status out | sort | uniq -c | xargs)" "12 finalised"
	audit
}

@test "pay: 17 wallets with accounts go into a transaction, in both forms of message" {
	owe 34
	front 8 10 1000000000000000 wallets
	pay --dry-run --unit-price 10 | jq -s 'map(.batch) | max' >batches
	assert_equal "$(cat batches)" 1
	pay --legacy --unit-price 10 >out
	assert_equal "$(jq -r .status out | sort | uniq -c | xargs)" "34 finalised"
	audit
}

@test "pay: limits: of a run, of a payout, of a day; dust is carried over" {
	owe 10
	front
	run_split pay --max-per-run 3
	assert_failure 1
	total=$(jq -s 'map(select(.status == "finalised").base_units) | add' <<<"$output")
	((total <= 300000000 && total > 200000000))
	[[ $(jq -r 'select(.status == "held").reason' <<<"$output" | sort -u) == "over the limit of this run or day" ]]
	run_split pay --max-per-day 3.5
	assert_failure 1
	total=$((total + $(jq -s 'map(select(.status == "finalised").base_units) | add // 0' <<<"$output")))
	((total <= 350000000))
	run_split pay --max-per-payout 0.1
	assert_failure 1
	[[ $(jq -r .reason <<<"$output" | sort -u) == *"it is more than --max-per-payout" ]]
	run_split pay --dust 100
	assert_success
	assert_equal "$(jq -r 'select(.status != "finalised").status' <<<"$output" | sort -u)" carried
	pay >/dev/null
	audit
}

@test "pay: what is wrong is refused before a signature exists" {
	owe 3
	front
	refused 65 "no server is of the cluster" pay --cluster testnet -q
	# nothing is called RENDER that is not, and nothing else is paid in RENDER
	refused 64 "--mint $mint is not RENDER's on mainnet" pay --cluster mainnet
	refused 64 "--token TEST: the default --mint is RENDER's" rnp-reward pay --store db --keypair payer.json --trust "$payer" \
		--rpc http://127.0.0.1:1 --single-server --token TEST
	refused 65 "has no account for the mint" sh -c '
		rnp-register keygen --out other.json >/dev/null
		exec rnp-reward pay --store db --keypair other.json --trust "$@"' sh "$payer" --mint "$mint" \
		--cluster EtWTRABZaYq6iMfeYKouRu166VU2xqa1wcaWoxPkrZBG --rpc "${urls[0]}" --rpc "${urls[1]}"
	refused 65 "there is no such mint" pay --mint "$(head -1 wallets)"
	refused 64 "--need 2 of 1" pay --need 2
	refused 64 "stands there twice" pay --trust "$payer" --need 2
	# one server is one voice
	for again in "${urls[0]}/" "${urls[0]/127.0.0.1/LocalHost}" "${urls[0]/127.0.0.1/[::1]}/key" "${urls[0]/127.0.0.1/me@127.1}"; do
		refused 64 "--rpc: ${urls[0]} and http" pay --rpc "$again"
	done
	refused 64 "--rpc, --keypair and --trust are needed" rnp-reward pay --store db
	refused 66 "nowhere" pay --store nowhere
	# one server alone can say that all is paid: only who has said so goes on with it
	alone=(rnp-reward pay --store db --keypair payer.json --trust "$payer" --mint "$mint"
		--cluster EtWTRABZaYq6iMfeYKouRu166VU2xqa1wcaWoxPkrZBG --rpc "${urls[0]}" --allow-unfunded-recipient)
	refused 64 "--rpc: one server alone can say that payments were made which were not" "${alone[@]}"
	assert_equal "$("${alone[@]}" --dry-run | jq -r .status | uniq -c | xargs)" "3 planned"
	# no trusted key has signed: nothing is owed
	run_split rnp-reward pay --store db --keypair payer.json --trust "$(head -1 wallets)" --mint "$mint" \
		--cluster EtWTRABZaYq6iMfeYKouRu166VU2xqa1wcaWoxPkrZBG --rpc "${urls[0]}" --rpc "${urls[1]}"
	assert_success
	assert_equal "$output" ""
	assert_equal "$stderr" "rnp-reward: nothing to pay: no epoch of RENDER has 1 signatures of those who are trusted (--trust, --need)"
	exec 9<db
	flock 9
	refused 75 "another payer is at work" pay
	exec 9<&-
	# a file system without locks is no other payer, and a timer must not stay green
	echo '#include <errno.h>
		int flock(int fd, int how) { (void)fd, (void)how; errno = ENOLCK; return -1; }' >flock.c
	"${CC:-gcc}" -shared -fPIC -o flock.so flock.c
	LD_PRELOAD=$PWD/flock.so refused 69 "cannot lock 'db': its file system keeps no locks: No locks available" pay
	assert_equal "$(rnp-reward ledger --store db | wc -l)" 1
	assert_equal "$(control '{}' | jq .landed)" 0
	stop_front
	front 6
	refused 65 "the mint has 6 decimals" pay
	stop_front
	front 8 10 100
	refused 65 "the paying wallet has 0.00000100 tokens" pay
	assert_equal "$(rnp-reward ledger --store db | wc -l)" 1
}

@test "pay: a full disk, a disk that is read-only, a clock that goes back, test tokens: no signature exists" {
	owe 3
	front
	unsigned() { # STORE
		assert_equal "$(rnp-reward ledger --store "$1" | grep -c '"signed"')" 0
		assert_equal "$(control '{}' | jq .landed)" 0
	}
	mkdir disk
	if mount -t tmpfs -o size=600k none disk; then
		cp db disk/db
		head -c 10M /dev/zero >disk/filler 2>/dev/null || true
		refused 74 "db" pay --store disk/db
		rm disk/filler
		unsigned disk/db
		mount -o remount,ro disk
		refused 77 "db" pay --store disk/db
		mount -o remount,rw disk
		unsigned disk/db
		umount disk
	else
		echo "# no mount here: the full disk is not tested" >&3
	fi
	# an epoch of test tokens is not paid in another token, whoever signed it
	sed 's/"gpu_model":"[^"]*",//' usages | jq -c '.from = "2026-10-12T00:00:00Z" | .to = "2026-10-19T00:00:00Z"' >tested
	rnp-reward epoch -q --policy testnet --store tokens --key payer.json tested | tail -1 | jq -e '.total_base_units > 0'
	pay --store tokens >out 2>err
	assert_equal "$(cat out)" ""
	assert_equal "$(cat err)" "rnp-reward: nothing to pay: 'tokens' has epochs of TEST, and none of RENDER (--token)"
	pay --store tokens --token TEST --dry-run --table | grep -q "0\.[0-9]* TEST.*planned"
	# the day's limit counts what was planned before, also when the clock has gone back since
	least=$(jq 'map(.) | min / 100000000' expected)
	RNP_NOW=2026-12-01T12:00:00Z pay --max-per-run "$least" >out || true
	assert_equal "$(jq -s 'map(select(.status == "finalised")) | length' out)" 1
	RNP_NOW=2026-11-01T12:00:00Z run_split pay --max-per-day "$least"
	assert_failure 1
	assert_equal "$(jq -r .status <<<"$output" | sort -u)" held
	assert_equal "$(control '{}' | jq .landed)" 1
}

@test "pay: an epoch is paid when m of n have signed it" {
	owe 3
	rnp-register keygen --out auditor.json >/dev/null
	auditor=$(rnp-register address --key auditor.json)
	front
	pay --trust "$auditor" --need 2 >out
	assert_equal "$(cat out)" ""
	rnp-reward cosign --store db --key auditor.json usages >/dev/null
	pay --trust "$auditor" --need 2 >out
	assert_equal "$(jq -r .status out | sort | uniq -c | xargs)" "3 finalised"
	audit
	# a different payer for the same ledger is an error
	rnp-register keygen --out other.json >/dev/null
	refused 65 "this ledger is paid with payer $payer" pay --keypair other.json
}

@test "pay: a wallet that cannot be paid stops nobody else" {
	owe 20
	front
	frozen=$(sed -n 3p wallets) stolen=$(sed -n 7p wallets)
	control "{\"freeze\": [\"$frozen\"], \"steal\": [\"$stolen\"]}" >/dev/null
	run_split pay
	assert_failure 1
	assert_equal "$(jq -r .status <<<"$output" | sort | uniq -c | xargs)" "18 finalised 2 held"
	assert_equal "$(jq -r --arg w "$frozen" 'select(.wallet == $w).reason' <<<"$output")" \
		"its associated account is frozen"
	assert_equal "$(jq -r --arg w "$stolen" 'select(.wallet == $w).reason' <<<"$output")" \
		"its associated account belongs to another wallet"
	audit "del(.\"$frozen\", .\"$stolen\")"
	ledger_agrees
}

# what its owner can switch on at an account of Token-2022: a memo is required; only confidential transfers; both after others
required_memo=0800010001
confidential=05002701$(printf '%0590d' 0)
guarded=070000000b000100010f00010000

@test "pay: what the owner of an account of Token-2022 has switched on holds him alone; paused and frozen mints are named" {
	owe 20
	RNP_FRONT='{"token_2022": true}' front
	mapfile -t w <wallets
	control "{\"extend\": {\"${w[2]}\": \"$required_memo\", \"${w[4]}\": \"$confidential\", \"${w[6]}\": \"$guarded\",
		\"${w[8]}\": \"$guarded$confidential$required_memo\", \"${w[10]}\": \"0800010000\"}}" >/dev/null
	run_split pay
	assert_failure 1
	why() { jq -r --arg w "$1" 'select(.wallet == $w) | .reason // .status' <<<"$output"; }
	assert_equal "$(jq -r .status <<<"$output" | sort | uniq -c | xargs)" "17 finalised 3 held"
	for k in 2 8; do
		assert_equal "$(why "${w[k]}")" "its associated account requires a memo with each transfer: its owner has to switch that off"
	done
	assert_equal "$(why "${w[4]}")" "its associated account takes only confidential transfers: its owner has to switch that off"
	audit "del(.\"${w[2]}\", .\"${w[4]}\", .\"${w[8]}\")"
	# (the payer's own account may require what it likes of others)
	stop_front
	rm db
	owe 4
	RNP_FRONT='{"token_2022": true, "extensions": "1a0021000707070707070707070707070707070707070707070707070707070707070707070701"}' front
	refused 75 "the mint is paused: nobody can transfer its tokens until its authority resumes it" pay
	stop_front
	RNP_FRONT='{"token_2022": true, "extensions": "0600010002"}' front
	mapfile -t w <wallets
	control "{\"extend\": {\"${w[1]}\": \"07000000\"}}" >/dev/null
	run_split pay
	assert_failure 1
	assert_equal "$(jq -r .status <<<"$output" | sort | uniq -c | xargs)" "1 finalised 3 held"
	assert_equal "$(why "${w[0]}")" "the mint freezes new accounts: its freeze authority has to thaw the wallet's account first"
}

@test "pay: a payment that servers refuse is made alone, then held by name, and the others of its transaction are paid" {
	owe 20
	RNP_FRONT='{"token_2022": true}' front 8 4
	mapfile -t w <wallets
	# two servers hide what is switched on, so that only the simulation reveals it (alone, the payment to who requires a memo
	# comes right after one)
	control "{\"extend\": {\"${w[2]}\": \"$confidential\", \"${w[5]}\": \"$required_memo\", \"${w[11]}\": \"$confidential\"}, \"lies\": [[\"plain\"], [\"plain\"], []]}" >/dev/null
	run_split pay
	assert_failure 1
	assert_equal "$(jq -r .status <<<"$output" | sort | uniq -c | xargs)" "18 finalised 2 held"
	for k in 2 11; do
		[[ $(jq -r --arg w "${w[k]}" 'select(.wallet == $w).reason' <<<"$output") == "servers refuse its payment: "*"simulation failed"* ]] ||
			fail "$output"
	done
	audit "del(.\"${w[2]}\", .\"${w[11]}\")"
	ledger_agrees
	# in flight it is named as well
	control "{\"block_ms\": 1000}" >/dev/null
	run_split pay --timeout 100ms
	assert_failure 75
	[[ $stderr == *"a server's first refusal: wallet ${w[2]}: "* || $stderr == *"a server's first refusal: wallet ${w[11]}: "* ]] ||
		fail "$stderr"
	# one server alone holds up nobody: what it refuses goes to another
	stop_front
	rm db
	owe 6 3
	front 8 4
	control '{"lies": [["blame"], [], []]}' >/dev/null
	run_split pay
	assert_success
	audit
	ledger_agrees
}

@test "pay: what is sent to a token account, a mint or a program is lost: held, each with its reason; new wallets by an option" {
	owe 7
	rm db
	mapfile -t w <wallets
	# (a program that the machine can run must be a real one)
	sed -i "s/\"wallet\":\"${w[2]}\"/\"wallet\":\"MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr\"/" usages
	w[2]=MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr
	rnp-reward epoch -q --policy rnp-021 --store db --key payer.json usages >epoch
	front
	control "{\"place\": {\"token\": [\"${w[0]}\"], \"mint\": [\"${w[1]}\"], \"stake\": [\"${w[3]}\"],
		\"wallet\": [\"${w[4]}\"]}}" >/dev/null
	why() { jq -r --arg w "$1" 'select(.wallet == $w) | .reason // .status' <<<"$output"; }
	paying
	# without the option only those that the chain knows are paid
	run_split "${command[@]/--allow-unfunded-recipient/--legacy}"
	assert_failure 1
	assert_equal "$(why "${w[0]}")" "it is a token account: give the wallet that owns it"
	assert_equal "$(why "${w[1]}")" "it is a mint: a token, not a wallet"
	assert_equal "$(why "${w[2]}")" "it is a program, not a wallet"
	assert_equal "$(why "${w[3]}")" "its account belongs to a program: it is not a wallet"
	assert_equal "$(why "${w[4]}")" finalised
	for new in "${w[5]}" "${w[6]}"; do
		assert_equal "$(why "$new")" "it is not funded: it has neither SOL nor an account for the token (--allow-unfunded-recipient)"
	done
	# who names such a wallet for a node is told at once, where a server is known
	held=$output
	for k in 0 1 2 3; do
		reason=$(output=$held why "${w[k]}")
		run_split rnp-register detect --share none --key payer.json --wallet "${w[k]}" --rpc "${urls[0]}"
		assert_success
		assert_equal "$stderr" "rnp-register: wallet ${w[k]} will not be paid: $reason"
		echo "$output" >node.json
		for policy in testnet rnp-021; do
			RNP_RPC=${urls[0]} run_split rnp-register check --policy "$policy" node.json
			assert_failure 1
			jq -e --arg r "wallet: $reason" '.reasons | map(select(. == $r)) | length == 1' <<<"$output" || fail "$output"
		done
		refused 64 "wallet ${w[k]} will not be paid: $reason" rnp-register setup --root image --registry http://127.0.0.1:1 \
			--wallet "${w[k]}" --rpc "${urls[0]}" </dev/null
		[ ! -e image/etc/rnp/node.env ]
	done
	rnp-register detect --share none --key payer.json --wallet "${w[5]}" --rpc "${urls[0]}" 2>&1 >/dev/null |
		grep -q "wallet ${w[5]} is not on the chain yet"
	run_split rnp-register detect --share none --key payer.json --wallet "${w[4]}" --rpc "${urls[0]}"
	assert_equal "$stderr" ""
	# without a server only the curve is looked at, and one that does not answer stops nobody
	pda=$(jq -r .account front.json)
	rnp-register detect --share none --key payer.json --wallet "$pda" 2>&1 >/dev/null | grep -q "will not be paid: it is not on the curve"
	run_split rnp-register detect --share none --key payer.json --wallet "${w[0]}" --rpc http://127.0.0.1:1
	assert_success
	[[ $stderr == *"the wallet could not be looked up: "* ]] || fail "$stderr"
	# two servers that differ about an address hold it up, whatever the option
	control '{"lies": [["noaccount"], [], []]}' >/dev/null
	run_split pay
	assert_failure 1
	assert_equal "$(jq -r .status <<<"$output" | sort | uniq -c | xargs)" "2 finalised 4 held"
	run_split rnp-reward verify --store db
	assert_success
	control "{\"wallets\": [$(printf '"%s",' "${w[@]}" | sed 's/,$//')]}" | jq -e '[.has[]] | map(select(. > 0)) | length == 3'
}

@test "pay: a payer without SOL is told why nothing lands" {
	owe 3
	RNP_FRONT='{"lamports": 1000000}' front 8 4
	run_split pay --timeout 300ms
	assert_failure 75
	[[ $stderr == *"go on with pay --resume; a server's first refusal: ${urls[0]}: Transaction simulation failed: "* ]] ||
		fail "$stderr"
	run_split pay --timeout 60s
	assert_failure 75
	[[ $stderr == *"expire again and again: the servers do not take them; a server's first refusal: "*"simulation failed"* ]] ||
		fail "$stderr"
}

@test "pay: one that fails on chain takes its batch with it once, and is then alone" {
	owe 12
	front
	frozen=$(sed -n 5p wallets)
	# two servers hide the frozen account, so that only execution reveals it
	control "{\"freeze\": [\"$frozen\"], \"lies\": [[\"noaccount\"], [\"noaccount\"], []], \"land_failures\": true}" >/dev/null
	run_split pay
	assert_failure 75
	assert_equal "$(jq -r .status <<<"$output" | sort | uniq -c | xargs)" "4 finalised 8 sent"
	failed=$(jq -r 'select(.reason).signature' <<<"$output" | sort -u)
	[[ $stderr == *"1 transaction failed, as servers say, and nothing is paid again on their word: look at $failed with an explorer, then run pay with --give-up $failed"* ]] ||
		fail "$stderr"
	# until a person decides it stays so; what is owed by a later epoch is paid, and no claim is taken twice
	sed 's/"to":"2026-11-16T/"to":"2026-11-23T/; s/2026-11-09T/2026-11-16T/' usages >later
	rnp-reward epoch -q --policy rnp-021 --store db --key payer.json later >more
	cp expected first
	jq -s --slurpfile first first '([.[] | select(.kind == "rnp.reward") | {(.wallet): .base_units}] | add) as $more |
		$first[0] | with_entries(.value += $more[.key])' more >expected
	control '{"lies": [[], [], []]}' >/dev/null
	refused 65 "no transaction of the ledger has the signature '$frozen'" pay --give-up "$frozen"
	run_split pay
	assert_failure 75
	[[ $stderr == *"--give-up $failed"* ]] || fail "$stderr"
	# (four of them from the first run, after the one in doubt)
	assert_equal "$(jq -r .status <<<"$output" | sort | uniq -c | xargs)" "15 finalised 1 held 8 sent"
	audit '{}'
	ledger_agrees
	# by a person's word each of the eight is paid in a transaction of its own
	control '{"lies": [["noaccount"], ["noaccount"], []]}' >/dev/null
	run_split pay --give-up "$failed"
	assert_failure 75
	again=$(jq -r 'select(.reason).signature' <<<"$output")
	assert_equal "$(jq -r .status <<<"$output" | sort | uniq -c | xargs)" "8 failed 22 finalised 1 sent"
	audit "del(.\"$frozen\")"
	# and the one that failed on its own is not tried again
	run_split pay --give-up "$failed" --give-up "$again"
	assert_failure 1
	assert_equal "$(jq -r 'select(.status == "held").reason' <<<"$output")" "its payment failed by itself before"
	ledger_agrees
}

@test "pay: balances before and after are a second check: two servers that call final what is not are found out" {
	owe 6
	front
	control '{"lies": [["final", "drop"], ["final", "drop"], ["drop"]]}' >/dev/null
	run_split pay
	assert_failure 1
	had=1000000000000000 paid=$(jq '[.[]] | add' expected)
	[[ $stderr == *"the paying wallet had $had base units, has paid $paid by the ledger, and has $had: something else has moved its tokens, or servers lie"* ]] ||
		fail "$stderr"
	[[ $stderr == *"6 wallets have less than they had and were paid"* ]] || fail "$stderr"
	# a run with honest servers has nothing to say
	control '{"lies": [[], [], []]}' >/dev/null
	rm db
	owe 6 2
	pay 2>err >/dev/null
	assert_equal "$(cat err)" ""
}

@test "pay: what the payer pays to itself stays where it is, also when other payments expire and are planned again" {
	owe 40
	rm db
	head -1 usages | jq -c --arg w "$payer" '.node = $w | .wallet = $w' >>usages
	rnp-reward epoch -q --policy rnp-021 --store db --key payer.json usages >epoch
	front 8 20
	paying --in-flight 1 --timeout 240s
	"${command[@]}" >out 2>err &
	pid=$!
	wait_until "a payment" sh -c 'rnp-reward pay --store db --status | grep -q finalised'
	control '{"lies": [["drop"], ["drop"], ["drop"]]}' >/dev/null
	wait_until "a payment that has expired" sh -c 'rnp-reward ledger --store db | grep -q "\"expired\""'
	control '{"lies": [[], [], []]}' >/dev/null
	wait $pid || fail "$(cat err)"
	# its account is there already: it is among the first, which have not expired
	assert_equal "$(jq -r --arg w "$payer" 'select(.wallet == $w).batch' out)" "$(jq -s 'map(.batch) | min' out)"
	assert_equal "$(cat err)" ""
	assert_equal "$(jq -r .status out | sort | uniq -c | xargs)" "41 finalised"
}

@test "pay: when the time is over before all is planned, the rest is left to another run, and said" {
	owe 80
	front 8 20
	# a busy machine may plan nothing in the first second
	for time in 1s 2s 4s 8s 16s 32s; do
		refused 75 "wallets are not paid yet: run pay again" pay --in-flight 1 --timeout $time
		n=$(rnp-reward pay --store db --status | grep -vc expired || true)
		((n == 0)) || break
	done
	((n > 0 && n < 80))
	pay >out
	assert_equal "$(wc -l <out)" $((80 - n))
	audit
	ledger_agrees
}

# lie 'LIES' LABEL: pays new wallets under these lies, then again with honest servers until all is paid;
# nothing is paid twice, and nothing lands late of what was signed for the lies before
lie() {
	local code=0
	rm -f db*
	# each time a new ledger is paid from the same wallet
	also=(--shared)
	owe 12 $((++seed))
	[[ -n ${front:-} ]] || front 8 4
	[[ $(control '{}') =~ \"payer\":([0-9]+) ]]
	pool=${BASH_REMATCH[1]}
	control "{\"lies\": $1, \"forks\": ${3:-0}}" >/dev/null
	pay -q --timeout "${4:-2s}" >out 2>err || code=$?
	[[ $code == 0 || $code == 1 || $code == 75 || $code == 69 || $code == 65 ]] || fail "$2: exit $code: $(cat err)"
	audit '{}'
	paying -q --timeout 60s
	finish || fail "$2: $(cat err)"
	audit
	ledger_agrees
}

@test "pay: servers that lie, each by itself: nobody is paid twice, and in the end all are" {
	for l in null ahead behind genesis stale early fakehash 429 500 html truncated id \
		accept-hangup drop late confirmed noaccount error; do
		lie "[[\"$l\"], [], []]" "$l"
	done
}

@test "pay: a server that calls final what is not is outvoted" {
	lie '[["final"], [], []]' final
	# the server that sends a transaction drops it, and reports that it is final
	lie '[["final", "drop"], [], []]' "final, drop"
}

# next_epoch N SEED: N more wallets are owed, of the week after
next_epoch() {
	python3 "$ROOT/tests/tools/reward.py" wallets "$1" "$2" >more
	while read -r wallet; do
		head -1 usages | jq -c --arg w "$wallet" '.node = $w | .wallet = $w | .from = .to | .to = "2026-11-23T00:00:00Z"'
	done <more >later
	rnp-reward epoch -q --policy rnp-021 --store db --key payer.json later >epoch
	cat more >>wallets
	jq -cn --slurpfile old expected '[inputs | select(.kind == "rnp.reward") | {(.wallet): .base_units}] | add + $old[0]' epoch >all
	mv all expected
}

@test "pay: one server that contradicts the others is named, and stops no payment of others" {
	owe 3
	front 8 10
	control '{"lies": [["failed"], [], []]}' >/dev/null
	pay >out 2>err
	liar=${urls[0]}
	assert_equal "$(cat err)" "rnp-reward: $liar says that transaction 0 failed, and more than half of the servers that it is final: it counts as paid, leave that server out"
	assert_equal "$(jq -r '.status + " " + .reason' out | uniq -c | xargs)" \
		"3 finalised $liar says that it failed, others that it is final"
	# with two servers there is no majority: both are named, and a person's word does not decide between them
	next_epoch 2 71
	paying --timeout 300ms
	for word in "${command[@]}"; do
		two+=("$word")
		[[ $word != "${urls[2]}" ]] || two=("${two[@]::${#two[@]}-2}")
	done
	both="go on with pay --resume; servers differ: transaction 1 is failed ($liar), final (${urls[1]})"
	refused 75 "1 transactions are still in flight: $both" "${two[@]}"
	signature=$(rnp-reward pay --store db --status | jq -rs 'map(select(.status != "finalised"))[0].signature')
	refused 75 "1 transactions are still in flight: $both" "${two[@]}" --resume --give-up "$signature"
	pay -q >out
	assert_equal "$(jq -r .status out | uniq -c | xargs)" "2 finalised"
	audit
}

@test "pay: what one server keeps in flight stops no other epoch, also when it sends first" {
	also=(--shared)
	local turn=0
	for lies in '"processed", "drop"' '"behind"'; do
		rm -f db*
		owe 3 $((80 + turn++))
		[[ -n ${front:-} ]] || front 8 10
		[[ $(control '{}') =~ \"payer\":([0-9]+) ]]
		pool=${BASH_REMATCH[1]}
		control "{\"lies\": [[$lies], [], []]}" >/dev/null
		held=''
		if [[ $lies == *drop* ]]; then
			held=' 3 sent'
			run_split pay --timeout 10s
			assert_failure 75
			[[ $stderr == *"1 transactions are still in flight"*"${urls[0]} alone says that transaction 0 may still land" ]] || fail "$stderr"
		else
			pay -q >out
		fi
		next_epoch 2 $((90 + turn))
		code=0
		pay --timeout 10s >out 2>err || code=$?
		assert_equal "$code $(jq -r .status out | sort | uniq -c | xargs)" \
			"$([[ -z $held ]] && echo 0 || echo 75) 2 finalised$held"
		[[ -z $held ]] || grep -q "${urls[0]} alone says that transaction 0 may still land; what else is owed is paid meanwhile" err
		paying
		finish || fail "$(cat err)"
		control '{"block_ms": 10}' >/dev/null
		audit
		ledger_agrees
	done
}

@test "pay: lies in pairs, at one server and at two" {
	i=0
	for pair in '"null", "ahead"' '"null", "late"' '"early", "null"' '"early", "ahead"' '"drop", "ahead"' \
		'"error", "null"' '"accept-hangup", "null"' '"stale", "behind"' '"fakehash", "early"' '"late", "ahead"'; do
		if ((i++ % 2)); then
			lie "[[$pair], [], []]" "$pair"
		else
			lie "[[${pair%,*}], [${pair#*,}], []]" "$pair at two"
		fi
	done
	# servers that claim that nothing landed and the blockhash has expired, against one that
	# knows better
	lie '[["null", "ahead"], ["null", "ahead"], []]' "two against one"
	lie '[["null", "ahead", "late"], ["null", "ahead", "late"], []]' "two late ones against one"
}

# rude BEHAVIOUR...: puts tests/tools/hostile_rpc.py before the last server
rude() {
	rm -f rude.url
	[[ -z ${rude:-} ]] || kill "$rude"
	python3 "$ROOT/tests/tools/hostile_rpc.py" rude.url "${honest:=${urls[2]}}" "$@" 3>&- &
	rude=$!
	wait_file rude.url
	urls[2]=$(cat rude.url)
}

@test "pay: a server whose answers do not end, are cut, are deep, lead elsewhere: it is left out, and all are paid" {
	bad=(endless endless-headers endless-chunks to-file to-other to-get loop deep cut bomb twice shout)
	owe 30
	front
	# from the first question on
	for how in "${bad[@]}"; do
		rude "$how@getGenesisHash"
		pay --dry-run >plan 2>err
		assert_equal "$(jq -r .status plan | sort -u) $(grep -c 'left out$' err)" "planned 1"
	done
	urls[2]=https${urls[2]#http}
	pay --dry-run 2>&1 >plan | grep -q 'left out$'
	# and one that begins as the others do
	rude "${bad[@]}" shapes shapes shapes
	# Two other servers than the sender must say that a blockhash has expired, and this one never does: on a busy
	# machine no blockhash may expire between signing and sending.
	control '{"block_ms": 100}' >/dev/null
	pay --timeout 300s >out 2>err || fail "$(tail -5 err)"
	control '{"block_ms": 4}' >/dev/null
	assert_equal "$(rnp-reward pay --store db --status | jq -r .status | grep -v expired | sort | uniq -c | xargs)" "30 finalised"
	# nobody has been asked what a redirect named, and no terminal is told anything
	[[ ! -e rude.url.got ]] || fail "$(cat rude.url.got)"
	run grep -P '[\x00-\x08\x0b-\x1f\x{80}-\x{9f}\x{202e}]' err
	assert_output ""
	assert [ "$(wc -c <err)" -lt 100000 ]
	audit
	ledger_agrees
}

@test "pay: an address of this machine is no second server; nobody's key is in the ledger or in messages" {
	owe 3
	front
	# a relay that listens on all addresses, and the one by which others know this machine
	timeout 300 python3 - "${urls[0]}" relay.port 3>&- <<-'PY' &
		import http.server, os, sys, urllib.request
		class Relay(http.server.BaseHTTPRequestHandler):
		    def do_POST(self):
		        body = self.rfile.read(int(self.headers["Content-Length"]))
		        text = urllib.request.urlopen(urllib.request.Request(sys.argv[1], body)).read()
		        self.send_response(200)
		        self.send_header("Content-Length", str(len(text)))
		        self.end_headers()
		        self.wfile.write(text)
		    def log_message(self, *_): pass
		server = http.server.ThreadingHTTPServer(("0.0.0.0", 0), Relay)
		open("part", "w").write(str(server.server_port))
		os.rename("part", sys.argv[2])
		server.serve_forever()
	PY
	rude=$!
	wait_file relay.port
	address=$(python3 -c 'import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
		s.connect(("192.0.2.1", 9)); print(s.getsockname()[0])' 2>/dev/null) || address=
	if [[ -n $address && $address != 127.* ]]; then
		chain=(--mint "$mint" --cluster EtWTRABZaYq6iMfeYKouRu166VU2xqa1wcaWoxPkrZBG --trust "$payer")
		two=(--rpc "http://localhost:$(<relay.port)" --rpc "http://$address:$(<relay.port)")
		run_split rnp-reward pay --store db --keypair payer.json "${chain[@]}" "${two[@]}" --timeout 20s
		assert_failure 69
		[[ $stderr == *"http://$address:$(<relay.port): is the server of http://localhost"*"only 1 of 2 servers"* ]] ||
			fail "$stderr"
	fi
	honest=("${urls[@]}")
	for i in 0 1 2; do
		urls[i]=${urls[i]/127.0.0.1/me:SECRET@127.0.0.1}/v2/SECRET?api-key=SECRET
	done
	# one of them answers nothing that a server says
	urls[2]=http://me:SECRET@127.0.0.1:1/SECRET
	# with one server missing no expiry can be confirmed, so none may happen on a busy machine
	curl -sS -m 120 -d '{"block_ms": 100}' "${honest[0]}/control" >/dev/null
	pay -v --timeout 300s >out 2>err
	assert_equal "$(jq -r .status out | sort | uniq -c | xargs)" "3 finalised"
	grep -q "http://127.0.0.1:1" err
	for said in out err <(rnp-reward ledger --store db); do
		run grep -c SECRET "$said"
		assert_output 0
	done
	rnp-reward ledger --store db | jq -se 'map(.sender // empty) | length > 0 and all(test("^http://127.0.0.1:[0-9]+$"))'
	urls=("${honest[@]}")
	audit
}

@test "pay: TLS connections of every server break off, after the question has arrived and in the answer: paid once" {
	owe 30
	front 8 10
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout k.pem -out c.pem -days 1 \
		-subj /CN=localhost -addext subjectAltName=IP:127.0.0.1 2>/dev/null
	python3 "$ROOT/tests/tools/tls_cut_rpc.py" cut.url c.pem k.pem "${urls[@]}" 3>&- &
	rude=$!
	wait_file cut.url
	honest=("${urls[@]}")
	mapfile -t urls <cut.url
	# a certificate that nobody vouches for is no server
	run_split pay --dry-run
	assert_failure 69
	[[ $stderr == *"left out"* ]] || fail "$stderr"
	paying --ca c.pem
	urls=("${honest[@]}")
	for _ in {1..8}; do
		! finish || break
	done
	assert_equal "$(rnp-reward pay --store db --status | jq -r .status | grep -v expired | uniq -c | xargs)" "30 finalised"
	# who checks it later hears the same through such connections, and no server has two voices
	mapfile -t urls <cut.url
	for _ in {1..20}; do
		rnp-reward verify --store db --trust "$payer" --ca c.pem --rpc "${urls[0]}" --rpc "${urls[1]}" --rpc "${urls[2]}" >checks &&
			break
	done
	jq -se 'all(.ok)' checks
	refused 64 "are one server" rnp-reward verify --store db --trust "$payer" --rpc "${urls[0]}" --rpc "${urls[0]}/"
	urls=("${honest[@]}")
	for how in silent record body; do
		grep -q "send-$how" cut.url.cut || fail "$how: $(cat cut.url.cut)"
	done
	grep -q "handshake.* reset" cut.url.cut || fail "$(cat cut.url.cut)"
	audit
	ledger_agrees
}

@test "pay: what was confirmed is gone after a fork, and is not paid again until it is dead" {
	lie '[[], [], []]' "a fork" 1 20s
	lie '[["late"], [], []]' "a fork, and a late sender" 1 20s
}

@test "pay: a blockhash that was used before is not signed with again" {
	owe 6
	front 8 4
	control '{"lies": [["drop"], ["drop"], ["drop"]]}' >/dev/null
	run pay -q --timeout 1500ms
	passed=$(control '{}' | jq '.height + 150')
	# the virtual machine starts anew, with new blockhashes
	stop_front
	front 8 4
	paying -q
	code=0
	"${command[@]}" 2>err || code=$?
	[[ $code == 0 ]] || grep -q "a blockhash is offered that was used before" err || fail "$code $(cat err)"
	# until those of the first machine have passed
	control '{"block_ms": 1}' >/dev/null
	have_passed() { (($(control '{}' | jq .height) >= passed)); }
	wait_until 'the first blockhashes to pass' have_passed
	finish || fail "$(cat err)"
	audit
	ledger_agrees
}

@test "pay: signed with a height far ahead, it ends when most have seen its blockhash go, and none denies it" {
	owe 3
	front 8 5
	is() { rnp-reward pay --store db --status | grep -q "\"$1\""; }
	for fresh in "" ', "fresh"'; do
		# most of them say what is far ahead while it signs, and nothing lands
		control "{\"lies\": [[\"ahead\", \"drop\"$fresh], [\"ahead\", \"drop\"], [\"drop\"]]}" >/dev/null
		paying -q --timeout 120s
		"${command[@]}" >out 2>err 3>&- &
		pid=$!
		wait_until 'it is sent' is sent
		control "{\"lies\": [[\"drop\"$fresh], [\"drop\"], [\"drop\"]]}" >/dev/null
		# one that says that it is good, still
		if [[ $fresh ]]; then
			passed=$(control '{}' | jq '.height + 400')
			have_passed() { (($(control '{}' | jq .height) >= passed)); }
			wait_until 'the blockhash to go' have_passed
			sleep 0.2
			! is expired || fail "given up"
			control '{"lies": [["drop"], ["drop"], ["drop"]]}' >/dev/null
		fi
		wait_until 'it expires' is expired
		control '{"lies": [[], [], []]}' >/dev/null
		wait "$pid" || fail "$(cat err)"
		audit
		ledger_agrees
		rm -f db*
		also=(--shared)
		owe 3 2
		pool=$(control '{}' | jq .payer)
	done
}

@test "pay: what a run has seen of a blockhash the next one knows: it ends what is in flight when that has gone" {
	owe 3
	front 8 5
	is() { rnp-reward pay --store db --status | grep -q "\"$1\""; }
	noted() { (($(sqlite3 db 'SELECT count(*) FROM good_hash' || echo 0) == $1)); }
	control '{"lies": [["ahead", "drop"], ["ahead", "drop"], ["drop"]], "block_ms": 1000}' >/dev/null
	paying -q --timeout 120s
	"${command[@]}" >out 2>err 3>&- &
	pid=$!
	wait_until 'it is sent' is sent
	control '{"lies": [["drop"], ["drop"], ["drop"]]}' >/dev/null
	wait_until 'all have said that it is good' noted 3
	kill -9 "$pid"
	wait "$pid" || true
	# its blockhash goes while nobody looks
	passed=$(control '{"block_ms": 1}' | jq '.height + 400')
	have_passed() { (($(control '{}' | jq .height) >= passed)); }
	wait_until 'the blockhash to go' have_passed
	control '{"lies": [[], [], []], "block_ms": 100}' >/dev/null
	"${command[@]}" >out 2>err || fail "$(cat err)"
	is expired
	noted 0
	audit
	ledger_agrees
}

@test "pay: kill -9 at any instant, while servers lie: each wallet is paid once, none is lost" {
	killed=0 seed=1
	owe 40
	front 8 4
	while ((killed < ${RNP_KILLS:-25})); do
		control '{"lies": [["500", "accept-hangup"], ["late"], []], "forks": 1}' >/dev/null
		paying -q --timeout 30s --in-flight 3 --poll 5ms
		"${command[@]}" >out 2>err 3>&- &
		pid=$!
		sleep "0.$(printf %03d $((RANDOM % 300)))"
		kill -9 $pid 2>/dev/null || true
		code=0
		wait $pid 2>/dev/null || code=$?
		audit '{}'
		if ((code == 137)); then
			((++killed % 100)) || echo "# $killed killed" >&3
			continue
		fi
		# it ended by itself: all are paid, and other wallets are owed something
		settle
		rm -f db*
		also=(--shared)
		owe 40 $((++seed))
		pool=$(control '{}' | jq .payer)
	done
	settle
}

# settle: honest servers; what is left is paid
settle() {
	control '{"lies": [[], [], []], "forks": 0}' >/dev/null
	"${command[@]}" --resume >/dev/null 2>&1 || true
	finish || fail "$(cat err)"
	audit
	ledger_agrees
}

@test "pay: rnp-epoch.service closes the epoch, waits for the co-signer, pays, and does nothing twice" {
	owe 5
	rm db epoch
	rnp-register keygen --out auditor.json >/dev/null
	front
	mkdir state credentials
	cp payer.json credentials/operator && cp payer.json credentials/payer
	export STATE_DIRECTORY=$PWD/state CREDENTIALS_DIRECTORY=$PWD/credentials RNP_EPOCH_S=604800
	export RNP_EPOCH_WAIT_S=0 RNP_POLICY=rnp-021 RNP_EPOCH_OPTIONS="" RNP_REGISTRY=http://127.0.0.1:1 RNP_TRUST="--trust $payer"
	export RNP_PAY_OPTIONS="--trust $payer --trust $(rnp-register address --key auditor.json) --need 2 --mint $mint
		--cluster EtWTRABZaYq6iMfeYKouRu166VU2xqa1wcaWoxPkrZBG --rpc ${urls[0]} --rpc ${urls[1]} --rpc ${urls[2]} --poll 20ms --allow-unfunded-recipient"
	# the script as systemd runs it: lines joined, %% is %
	script=$(sed -n "/^ExecStart=/,/'\$/p" "$ROOT/scripts/systemd/rnp-epoch.service" |
		sed "s/^ExecStart=\/bin\/sh -c '//; s/'\$//; s/\\\\\$//; s/%%/%/g; s|/usr/local/bin/||" | tr -d '\n')
	# systemd would put its own variables, and no defaults, where braces are
	refute [ "$script" != "${script//\$\{/}" ]
	# the registry is unavailable: nothing is started
	run sh -c "$script"
	assert_failure 69
	to=$(($(date +%s) / 604800 * 604800))
	assert_equal "$(ls state | xargs) $(cat state/next)" "next usage.part $((to - 604800))"
	# three epochs have ended since the last run: of one there are records, in the next nobody worked,
	# and the registry is gone before the last
	echo $((to - 3 * 604800)) >state/next
	jq -c --argjson to $((to - 2 * 604800)) '.from = ($to - 604800 | todate) | .to = ($to | todate)' usages \
		>state/usage-$((to - 3 * 604800)).jsonl
	: >state/usage-$((to - 2 * 604800)).jsonl
	run sh -c "$script"
	assert_failure 69
	assert_equal "$(cat state/next)" $((to - 604800))
	assert_equal "$(cd state && ls epoch-*)" epoch-$((to - 3 * 604800)).jsonl
	cp state/net.db* .
	assert_equal "$(rnp-reward ledger --store state/net.db | jq -r .kind | xargs)" rnp.epoch
	assert_equal "$(control '{}' | jq .landed)" 0
	rnp-reward cosign --store state/net.db --key auditor.json state/usage-*.jsonl >/dev/null
	# what is signed is paid, although the last epoch cannot be closed yet
	run_split sh -c "$script"
	assert_failure 69
	assert_equal "$(jq -r .status <<<"$output" | sort | uniq -c | xargs)" "5 finalised"
	: >state/usage-$((to - 604800)).jsonl
	sh -c "$script" >again
	assert_equal "$(cat again)" ""
	# one that ended less than an hour ago waits for the registry's signatures, by itself for six hours
	mkdir waits
	export STATE_DIRECTORY=$PWD/waits RNP_EPOCH_S=3600
	env -u RNP_EPOCH_WAIT_S sh -c "$script"
	assert_equal "$(ls waits)" next
	run sh -c "$script"
	assert_failure 69
	mv state/net.db db
	audit
}
