# rnp-reward verify --records: from the signatures of records to what a ledger claims.
load ../helper
load epoch_records

setup() {
	cd "$BATS_TEST_TMPDIR"
}

# publish RECORDS ['JQ' of the usages]: the operator's usage and ledger
publish() {
	rm -f db
	rnp-reward usage -q --from $from --to $to --trust "$op" "$1" >usage 2>/dev/null
	[[ -z ${2:-} ]] || { jq -c "$2" usage >lie && mv lie usage; }
	rnp-reward epoch --policy rnp-021 --store db --key op.json usage >epoch
}

# audit [option or file ...]: what verify finds, in $output
audit() {
	run_split rnp-reward verify -q --store db --trust "$op" "$@"
}

@test "verify --records: an epoch follows from the signed records; a claim that does not is named with its line" {
	epoch_records
	publish records
	cat records usage >all
	audit --records all epoch
	assert_success
	assert_equal "$(jq -r 'select(.what == "epoch 0").ok' <<<"$output")" true
	# the records and the claims may be in two files
	audit --records records --records usage
	assert_success

	read -r node worked < <(jq -r 'select(.gpu_model == "H200") | "\(.node) \(.worked_s)"' usage)
	publish records "if .node == \"$node\" then .worked_s += 3600 else . end"
	cat records usage >all
	audit --records all
	assert_failure 1
	line=$(grep -n rnp.receipt all | grep "\"node\":\"$node\"" | grep -v '"job":"z"' | tail -1 | cut -d: -f1)
	assert_equal "$(jq -r 'select(.ok | not) | [.what, .reason] | join(": ")' <<<"$output")" \
		"epoch 0: node $node: worked_s is $((worked + 3600)), receipts cover $worked (all:$line)"

	# without published usages, a wallet that claims too much is named, and its node
	publish records "if .node == \"$node\" then .gpu_worked_s += 3600 else . end"
	audit --records records
	assert_failure 1
	[[ $(jq -r 'select(.ok | not).reason' <<<"$output") == "node $node: wallet "*" claims "*", the records give "*" (records:"*")" ]] ||
		fail "$output"
	refused 64 "need --store and --trust" rnp-reward verify --records records
	refused 64 "they must be files" rnp-reward verify --store db --trust "$op" --records -
	misused "is not a base58 address" rnp-reward verify --store db --trust x --records records
	refused 66 "nowhere" rnp-reward verify --store db --trust "$op" --records nowhere
}

@test "verify --records: 20 planted errors" {
	epoch_records
	publish records
	cp epoch good && cp db kept
	planted=0
	planted() { # WORDS [option ...]: verify finds something of these words
		planted=$((planted + 1))
		audit "${@:2}"
		[[ $status == 1 ]] || fail "error $planted: exit $status: $output $stderr"
		[[ $(jq -r 'select(.ok | not) | [.what, .reason] | join(" ")' <<<"$output") == *"$1"* ]] || fail "error $planted: $output"
	}
	change() { # WORDS 'JQ over the list of lines': a change of what was published
		jq -sc "(map(.base_units) | map(. != null and . > 0) | index(true)) as \$i | $2 | .[]" good >bad
		cmp -s bad good && fail "no change: $2"
		planted "$1" --records records bad
	}
	claim() { # WORDS 'JQ of the usages': a usage that the records do not bear out
		publish records "$2"
		cp usage claims
		planted "$1" --records records --records claims
	}
	change "base_units is" '.[1].base_units += 1'
	change "job_base_units is" '.[$i].job_base_units -= 5 | .[$i].availability_base_units += 5'
	change "wallet is" '.[2].wallet = "'"$op"'"'
	change "nodes is" 'del(.[3])'
	change "nodes is" '[.[0]] + .'
	change "node is" '.[0:2] as [$a, $b] | .[0] = $b | .[1] = $a'
	change "qualified is" '(.[] | select(.qualified == false)).qualified = true'
	change "terms.worked_ppm is" '.[4].terms.worked_ppm += 1'
	change "total_base_units is" '.[-1].total_base_units += 1'
	change "merkle_root is" '.[-1].merkle_root |= ((if .[:1] == "0" then "1" else "0" end) + .[1:])'
	change "the epoch is not in it" '.[-1].previous |= gsub("0"; "1")'
	claim "up_s is" '.up_s += 1'
	claim "gpu_worked_s is" 'if .gpu_worked_s > 3600 then .gpu_worked_s -= 3600 else . end'
	claim "gpu_model is H200, verdicts prove L4" 'if .gpu_model == "L4" then .gpu_model = "H200" else . end'
	claim "wallet is" '.wallet = "'"$op"'"'
	claim "factors is" '.factors = {"gpu": 2}'
	claim "a usage is claimed, and no record names it" '., (select(.gpu_model == "L4") | .node = "'"$op"'" | del(.devices))'
	claim "records name it, and no usage is claimed" 'select(.gpu_model != "L4")'
	# an operator who counts records that must not count, or leaves some out
	grep -v '"job":"k"' records >fewer
	publish fewer
	planted "the records give" --records records
	first=$(jq -r 'select(.kind == "rnp.verdict" and (.at | contains("T02"))).node' records)
	grep -v "\"rnp.verdict\".*\"$first\"" records >without
	publish without
	planted "the records give" --records records
	assert_equal "$planted" 20
}

@test "verify --records: when the ledger has last seen a node follows from the records" {
	epoch_records
	mid=2026-11-17T01:30:00Z last=2026-11-24T00:00:00Z stakes=()
	for times in "$from $mid" "$mid $to" "$to $last"; do
		read -r a b <<<"$times"
		[[ ! -e db ]] || stakes=(--store db)
		rnp-reward usage -q --from "$a" --to "$b" --trust "$op" "${stakes[@]}" records >usage 2>/dev/null
		rnp-reward epoch --policy rnp-021 --price 2 --store db --key op.json usage >epoch
	done
	cp db kept
	audit --records records
	assert_success
	seen() { # TIME: when the node with a stake of the first epoch is said to be seen
		cp kept db
		python3 -c 'import sqlite3, sys
db = sqlite3.connect("db")
db.execute("UPDATE stake SET seen_ms = unixepoch(?) * 1000 WHERE epoch = 0", sys.argv[1:])
assert db.total_changes == 1
db.commit()' "$1"
		run_split rnp-reward verify -q --store db
		[[ $1 == "$to" ]] || assert_equal "$(jq -r .reason <<<"$output")" \
			"row 2: nodes with a stake were last seen when it or an epoch before it does not say"
		audit --records records
	}
	seen "$to"
	assert_success
	seen "$mid"
	assert_failure 1
	[[ $(jq -r 'select(.ok | not).reason' <<<"$output") == *"was up, and its stake says that it was last seen before"* ]]
	seen "$last"
	assert_failure 1
	[[ $(jq -r 'select(.ok | not).reason' <<<"$output") == *"was not up, and its stake says that it was last seen then"* ]]
	cp kept db
	python3 -c 'import sqlite3
sqlite3.connect("db").executescript("PRAGMA ignore_check_constraints = 1; UPDATE stake SET node = substr(node, 1, 9)")'
	refused 65 "a value of node has not 32 bytes" rnp-reward verify -q --store db
}
