# A script by somebody else finds what is wrong with an epoch, from the records alone.
load ../helper
load epoch_records

@test "stranger: an epoch computed anew in Python, and 23 planted errors" {
	cd "$BATS_TEST_TMPDIR"
	epoch_records
	publish() { # RECORDS [option ...]: the epoch that the operator publishes
		rm -f db
		rnp-reward usage -q --from $from --to $to --trust "$op" "${@:2}" "$1" >usage 2>/dev/null
		rnp-reward epoch --policy rnp-021 --store db --key op.json usage
	}
	# of the promised length, with its own explanation and without blank lines and comments
	assert [ "$(grep -cvE '^ *(#.*)?$' "$ROOT/tests/tools/stranger.py")" -le 100 ]
	stranger() {
		python3 "$ROOT/tests/tools/stranger.py" "$ROOT/cmd/rnp-reward/policies/rnp-021.json" $from $to \
			"${2:-records}" "$1" "$op"
	}
	publish records >good
	run stranger good
	assert_output "all as it should be"
	planted=0
	planted() { # EPOCH: it must be found
		planted=$((planted + 1))
		cmp -s "$1" good && fail "error $planted is none"
		run stranger "$1"
		assert_failure 1
		[[ $output == *": stated "* ]] || fail "error $planted: $output"
	}
	change() { # 'JQ over the list of lines': a change of what was published
		# $i: the first reward that is paid
		jq -sc "(map(.base_units) | map(. != null and . > 0) | index(true)) as \$i | $1 | .[]" good >bad
		planted bad
	}
	change '.[1].base_units += 1'
	change '.[$i].job_base_units -= 5 | .[$i].availability_base_units += 5'
	change '.[$i] as $a | .[$i] |= (.job_base_units = $a.availability_base_units | .availability_base_units = $a.job_base_units)'
	change '.[2].wallet = "'"$op"'"'
	change 'del(.[3])'
	change '[.[0]] + .'
	change '.[0:2] as [$a, $b] | .[0] = $b | .[1] = $a'
	change '(.[] | select(.qualified == false)).qualified = true'
	change '.[4].terms.worked_ppm += 1'
	change '.[-1].total_base_units += 1'
	change '.[-1].nodes -= 1'
	change '.[-1].claimants += 1'
	change '.[-1].merkle_root |= ((if .[:1] == "0" then "1" else "0" end) + .[1:])'
	change '.[-1].policy_sha256 |= ((if .[:1] == "0" then "1" else "0" end) + .[1:])'
	change '.[-1].from = "2026-11-15T00:00:00Z"'
	change '.[-1].proof.proofValue |= (.[:20] + (if .[20:21] == "a" then "b" else "a" end) + .[21:])'
	change '.[-1].previous |= gsub("0"; "1")'
	# an operator who counts records that must not count, or leaves some out
	publish records --trust "$other" >bad
	planted bad
	grep -v '"job":"k"' records >fewer
	publish fewer >bad
	planted bad
	# the device that two nodes name, paid to the second one
	first=$(jq -r 'select(.kind == "rnp.verdict" and (.at | contains("T02"))).node' records)
	grep -v "\"rnp.verdict\".*\"$first\"" records >without
	publish without >bad
	planted bad
	# a verdict by somebody else, and an uptime record that was never signed
	sed 's/\[3000000,/[2000001,/' records >forged
	jq -c 'if .kind == "rnp.uptime" then del(.proof) else empty end' forged | rnp-register sign --key op.json >resigned
	{ grep -v rnp.uptime records; cat resigned; } >more
	publish more >bad
	planted bad
	# verdicts on another node's challenge, which are made to look as if they were on none
	for hour in T20 T01:30; do
		jq -c --arg hour "$hour" 'select(.kind == "rnp.verdict" and (.at | contains($hour))) | del(.proof, .challenge_sha256)' \
			records | rnp-register sign --key op.json >anothers
		{ grep -v "\"rnp.verdict\".*$hour" records; cat anothers; } >more
		publish more >bad
		planted bad
	done
	assert_equal "$planted" 23
}
