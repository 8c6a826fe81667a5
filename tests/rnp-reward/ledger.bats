# The ledger of rnp-reward: what is sealed, signed and co-signed, and every way to falsify it.
load ../helper

usages=$ROOT/tests/data/man/usage.jsonl

setup() {
	cd "$BATS_TEST_TMPDIR"
	rnp-register keygen --out operator.json >/dev/null
	rnp-register keygen --out auditor.json >/dev/null
}

# week N: prints the usages moved by N weeks
week() {
	jq -c --argjson n "$1" '(.from, .to) |= (fromdate + $n * 604800 | todate)' "$usages"
}

# seal N [option ...]: adds the epoch of that week to db
seal() {
	week "$1" >"week$1"
	rnp-reward epoch -q --open --policy rnp-021 --store db "${@:2}" "week$1"
}

# bad_ledger REASON [STORE]: verify refuses the ledger and gives this reason
bad_ledger() {
	run_split rnp-reward verify --store "${2:-db}"
	assert_failure 1
	assert_equal "$(jq -r .reason <<<"$output")" "$1"
}

@test "ledger: an epoch that is not over is not sealed without --open, and whoever reckons it is told" {
	week 0 >week0
	export RNP_NOW=2026-11-10T00:00:00Z
	refused 65 "the epoch is not over yet" rnp-reward epoch --policy rnp-021 --store db week0
	[ ! -e db ] || [[ $(rnp-reward ledger --store db | wc -l) == 0 ]]
	times=(--from "$(head -1 week0 | jq -r .from)" --to "$(head -1 week0 | jq -r .to)")
	rnp-reward usage "${times[@]}" /dev/null 2>&1 | grep -q -- "--to is in the future: this is what was done so far"
	RNP_NOW=${times[3]} run_split rnp-reward usage "${times[@]}" /dev/null
	assert_equal "$status$output$stderr" 0
	rnp-reward epoch -q --policy rnp-021 --store db --open week0 >/dev/null
	assert_equal "$(rnp-reward ledger --store db | wc -l)" 1
}

@test "ledger: rows are chained and signed, the same epoch is not sealed twice" {
	seal 0 --key operator.json >first
	seal 1 --key operator.json >/dev/null
	seal 0 --key operator.json >again
	cmp first again
	rnp-reward ledger --store db >rows
	assert_equal "$(wc -l <rows)" 2
	rnp-register verify <rows >/dev/null
	# the hash of a row is SHA-256 of its canonical form
	assert_equal "$(sed -n 2p rows | jq -r .previous)" \
		"$(head -1 rows | rnp-register canon | tr -d '\n' | sha256sum | cut -d' ' -f1)"
	rnp-reward verify --store db
	rnp-reward verify --store db --usage week0 first
	# a proof must lead to the root of an epoch in the ledger
	node=$(head -1 "$usages" | jq -r .node)
	rnp-reward proof --node "$node" first | rnp-reward verify --store db -
	rnp-reward epoch --policy rnp-019 "$usages" | rnp-reward proof --node "$node" >foreign
	run_split rnp-reward verify --store db foreign
	assert_failure 1
	assert_equal "$(jq -r 'select(.what == "ledger").reason' <<<"$output")" \
		"no epoch in it has the root of proof 1"
}

@test "ledger: time that is paid for is not paid for again, under any policy" {
	seal 0 >/dev/null
	refused 65 "closes this epoch already, with another result" \
		rnp-reward epoch --policy rnp-021 --store db --pool 1 week0
	refused 65 "pays for some of the same time" rnp-reward epoch --policy rnp-019 --store db week0
	# one second of overlap is enough
	jq -c '.from = "2026-11-15T23:59:59Z" | .to = "2026-11-16T23:59:59Z"
		| .up_s = 1 | .worked_s = 1' week0 >overlap
	refused 65 "row 0 (policy rnp-021, 2026-11-09T00:00:00Z to 2026-11-16T00:00:00Z)" \
		rnp-reward epoch --policy rnp-021 --store db overlap
	assert_equal "$output" ""
	jq -c 'del(.from, .to)' week0 >undated
	refused 65 "without times" rnp-reward epoch --policy rnp-021 --store db undated
	# one time alone is no date, however it is written
	for half in from to; do
		jq -c "del(.$half)" week0 >undated
		refused 65 "is there without '$half'" rnp-reward epoch --policy rnp-021 undated
		sed 's/"kind":"r/"kind":"\\u0072/' undated >escaped
		refused 65 "is there without '$half'" rnp-reward epoch --policy rnp-021 escaped
	done
	# test tokens belong to another network
	rnp-reward epoch --policy testnet --store db week0 >/dev/null
	# and a policy that is declared to complement another may share its time, but only under
	# its own name
	jq '.name = "jobs" | .complements = ["rnp-021"]' "$ROOT/cmd/rnp-reward/policies/rnp-021.json" >jobs.json
	rnp-reward epoch --policy ./jobs.json --store db week0 >/dev/null
	refused 65 "closes this epoch already" rnp-reward epoch --policy ./jobs.json --store db --pool 1 week0
	rnp-reward verify --store db
	assert_equal "$(rnp-reward ledger --store db | wc -l)" 3
}

@test "ledger: an auditor computes the epoch again before signing, and signs nothing that differs" {
	seal 0 --key operator.json >/dev/null
	# a name that is mistyped is not another ledger
	refused 66 "cannot open the database: 'none/bd': cannot write in its folder: No such file" rnp-reward epoch -q --policy rnp-021 --store none/bd --key auditor.json week0
	# a folder that takes no files, which SQLite calls a file that is not there
	mkdir closed shut
	cp db shut/db
	chmod 555 closed shut
	as=()
	((EUID)) || as=(setpriv --bounding-set=-dac_override,-dac_read_search)
	refused 77 "'closed/bd': cannot write in its folder: Permission denied" "${as[@]}" rnp-reward epoch -q --policy rnp-021 --store closed/bd --key auditor.json week0
	refused 66 "'closed/bd': unable to open database file: No such file" "${as[@]}" rnp-reward pay --store closed/bd --status
	refused 77 "'shut/db': cannot write in its folder: Permission denied" "${as[@]}" rnp-reward pay --store shut/db --status
	refused 77 "'shut/db': cannot write in its folder: Permission denied" "${as[@]}" rnp-reward epoch -q --policy rnp-021 --store shut/db --key auditor.json week0
	chmod 755 closed shut
	refused 66 "cannot open the database: 'bd': No such file" rnp-reward cosign --store bd --key auditor.json week0
	refused 66 "cannot open the database: 'bd': No such file" rnp-reward stake --store bd --key auditor.json week0
	refused 66 "cannot open the database: 'bd': No such file" rnp-reward ledger --store bd --add week0
	refused 66 "cannot open 'bd': No such file" rnp-reward pay --store bd --keypair operator.json \
		--rpc http://127.0.0.1:1 --single-server --trust "$(rnp-register address --key operator.json)"
	[ ! -e bd ]
	rnp-reward cosign --store db --key auditor.json week0 >cosign
	assert_equal "$(jq -r .signer cosign)" "$(rnp-register address --key auditor.json)"
	rnp-reward cosign --store db --key auditor.json week0 >/dev/null
	assert_equal "$(rnp-reward ledger --store db | jq -r .kind | xargs)" "rnp.epoch rnp.cosign"
	rnp-reward verify --store db
	head -1 week0 | jq -c '.up_s -= 1' >changed
	sed 1d week0 >>changed
	run_split rnp-reward cosign --store db --key operator.json changed
	assert_failure 1
	[[ $stderr == *"not signed: row 0: epoch: pool_base_units is"* ]] || fail "$stderr"
	assert_equal "$output" ""
	# a co-signer who has only a copy
	rnp-register keygen --out third.json >/dev/null
	rnp-reward cosign --store db --key third.json --print week0 >third
	rnp-reward ledger --store db --add third
	rnp-reward ledger --store db --add third
	assert_equal "$(rnp-reward ledger --store db | wc -l)" 3
	jq -c '.epoch_sha256 |= gsub("[0-9]"; "0")' third >forged
	refused 65 "not signed" rnp-reward ledger --store db --add forged
	jq -c 'del(.proof) | .epoch_sha256 |= gsub("[0-9]"; "0")' third |
		rnp-register sign --key third.json >other
	refused 65 "row 0 is not the epoch that was co-signed" rnp-reward ledger --store db --add other
	rnp-reward verify --store db
}

@test "ledger: a changed byte, a missing row, swapped rows, a cut tail are named by row" {
	for i in 0 1 2 3; do seal $i --key operator.json >/dev/null; done
	rnp-reward verify --store db
	try() { # REASON SQL
		rm -f bad*
		python3 - "$2" <<-'PY'
			import sqlite3, sys
			sqlite3.connect("db").execute("VACUUM INTO 'bad'")
			db = sqlite3.connect("bad")
			db.executescript("PRAGMA ignore_check_constraints = 1;" + sys.argv[1])
			db.commit()
		PY
		bad_ledger "$1" bad
	}
	try "row 1: does not have the hash that was kept of it" \
		"UPDATE entry SET body = replace(body, '\"nodes\":4', '\"nodes\":5') WHERE sequence = 1"
	try "row 2: is missing" "DELETE FROM entry WHERE sequence = 2"
	try "row 3: is missing: the head counts 4 rows" "DELETE FROM entry WHERE sequence = 3"
	try "row 1: sequence: is 2, not 1" "UPDATE entry SET sequence = -9 WHERE sequence = 1;
		UPDATE entry SET sequence = 1 WHERE sequence = 2; UPDATE entry SET sequence = 2 WHERE sequence = -9"
	try "row 2: does not have the hash that was kept of it" \
		"UPDATE entry SET sha256 = zeroblob(32) WHERE sequence = 2"
	try "row 0: its claims do not have its Merkle root" \
		"UPDATE claim SET unlocked = unlocked + 1 WHERE epoch = 0"
	try "row 1: its balance is not the sum of its claims" \
		"UPDATE epoch SET paid = 1, owed = owed - 1 WHERE sequence = 1"
	try "row 1: its balance is missing" "DELETE FROM claim WHERE epoch = 1; DELETE FROM epoch WHERE sequence = 1"
	try "row 3: does not have the head's hash" "UPDATE head SET sha256 = zeroblob(32)"
	try "the head of the ledger is missing" "DELETE FROM head"
	cp db bad
	rm -f bad-*
	python3 -c 'import sqlite3; sqlite3.connect("bad").executescript(
		"PRAGMA ignore_check_constraints = 1; UPDATE claim SET wallet = substr(wallet, 1, 9)")'
	refused 65 "a value of wallet has not 32 bytes" rnp-reward verify --store bad
}

@test "ledger: an epoch that is filed under another time, token or policy is named; another program's database is left alone" {
	seal 0 >/dev/null
	for change in "to_ms = to_ms - 1000" "from_ms = NULL" "token = 'USDC'" "policy = 'rnp-019'" "payable = 0"; do
		python3 - "$change" <<-'PY'
			import os, sqlite3, sys
			if os.path.exists("bad"):
			    os.remove("bad")
			sqlite3.connect("db").execute("VACUUM INTO 'bad'")
			db = sqlite3.connect("bad")
			db.execute("UPDATE epoch SET " + sys.argv[1])
			db.commit()
		PY
		bad_ledger "row 0: is filed under another token, policy or time" bad
	done
	for version in 0 1 3; do
		rm -f other
		python3 -c "import sqlite3; sqlite3.connect('other').executescript(
			'CREATE TABLE photos(name); INSERT INTO photos VALUES(1); PRAGMA user_version = $version')"
		cp other before
		refused 65 "'other' is a database of something else" rnp-reward epoch --policy rnp-021 --store other week0
		refused 65 "'other' is a database of something else" rnp-reward verify --store other
		cmp before other
	done
}

@test "ledger: SQLite itself refuses what breaks conservation" {
	seal 0 >/dev/null
	try() {
		run python3 -c 'import sqlite3, sys; sqlite3.connect("db").executescript(sys.argv[1])' "$1"
		assert_failure
		[[ $output == *IntegrityError* ]]
	}
	try "UPDATE epoch SET claimed = claimed + 1"
	try "UPDATE epoch SET paid = 1"
	try "UPDATE claim SET state = 3"
	# moving a claim moves its amount with it, and what was paid stays paid
	python3 - <<-'PY'
		import sqlite3
		db = sqlite3.connect("db")
		db.execute("UPDATE claim SET state = 2 WHERE wallet = (SELECT min(wallet) FROM claim)")
		db.commit()
		paid, owed, claimed = db.execute("SELECT paid, owed, claimed FROM epoch").fetchone()
		assert paid > 0 and paid + owed == claimed
	PY
	try "UPDATE claim SET state = 0 WHERE state = 2"
}

@test "ledger: one of JSON Lines is imported as it is; a broken one is not, and names the line" {
	for i in 0 1 2; do seal $i >/dev/null; done
	rnp-reward ledger --store db >old.jsonl
	refused 65 "take it into a new one with rnp-reward ledger --import" \
		rnp-reward epoch --policy rnp-021 --store old.jsonl week0
	rnp-reward ledger --store new --import old.jsonl
	rnp-reward ledger --store new | cmp - old.jsonl
	rnp-reward verify --store new
	rnp-reward verify --store new --usage week0 <(rnp-reward epoch -q --policy rnp-021 --store db week0)
	refused 65 "import into a new ledger" rnp-reward ledger --store new --import old.jsonl
	# imported epochs count as paid: no new pay for the same time
	refused 65 "pays for some of the same time" rnp-reward epoch --policy rnp-019 --store new week1
	try() {
		rm -f bad*
		refused 65 "$1" rnp-reward ledger --store bad --import changed.jsonl
		assert_equal "$(rnp-reward ledger --store bad | wc -l)" 0
	}
	sed '1s/"nodes":4/"nodes":5/' old.jsonl >changed.jsonl
	try "changed.jsonl:2: previous: the row before has another hash"
	sed 2d old.jsonl >changed.jsonl
	try "changed.jsonl:2: sequence: is 2, not 1"
	{ sed -n 2p old.jsonl; sed -n 1p old.jsonl; } >changed.jsonl
	try "changed.jsonl:1: sequence: is 1, not 0"
	head -c -50 old.jsonl >changed.jsonl
	try "changed.jsonl:3"
}

@test "ledger: an epoch needs a ledger to be signed into, and a ledger that can be written" {
	refused 64 "--key signs what --store seals" rnp-reward epoch --policy rnp-021 --key operator.json "$usages"
	refused 66 "nowhere" rnp-reward verify --store nowhere
	refused 66 "nowhere" rnp-reward ledger --store nowhere
	echo "no ledger" >db
	refused 65 "db" rnp-reward epoch --policy rnp-021 --store db "$usages"
	rm db
	seal 0 >/dev/null
	refused 1 "no row 7" rnp-reward cosign --store db --key auditor.json --epoch 7 week0
}

@test "ledger: what somebody has written over a row is named, and stops no program but by that" {
	seal 0 --key operator.json >/dev/null
	rnp-reward cosign --store db --key auditor.json week0 >/dev/null
	cp db good
	auditor=$(rnp-register address --key auditor.json)
	for row in 0 1; do
		for body in '{}' '[]' '{"kind":5}' '{"kind":"rnp.cosign","v":1}' '{"kind":"rnp.epoch","v":1,"complements":[1]}' ''; do
			python3 -c 'import sqlite3, sys; db = sqlite3.connect("db")
db.execute("UPDATE entry SET body = ? WHERE sequence = ?", sys.argv[1:]); db.commit()' "$body" "$row"
			cp db bad
			run rnp-reward verify --store db
			assert_failure 1
			for command in "cosign --key operator.json --epoch 0 week0" "stake --key operator.json week0" \
				"report --html out.html" "ledger" "epoch --policy rnp-021-per-node --key operator.json week0" \
				"verify --trust $auditor --usages week0"; do
				cp bad db
				# shellcheck disable=SC2086
				run rnp-reward ${command%% *} --store db ${command#* }
				((status <= 1 || status == 64 || status == 65)) || fail "row $row, $body: $command: $status: $output"
				rm -f db-wal db-shm
			done
			cp good db
		done
	done
}
