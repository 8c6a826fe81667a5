# A script by somebody else finds what is wrong with an epoch, from the records alone.
load helper

@test "stranger: an epoch computed anew in Python, and 20 planted errors" {
	cd "$BATS_TEST_TMPDIR"
	rnp-register keygen --out op.json >/dev/null
	rnp-register keygen --out other.json >/dev/null
	op=$(rnp-register address --key op.json) other=$(rnp-register address --key other.json)
	from=2026-11-16T00:00:00Z to=2026-11-23T00:00:00Z
	i=0
	for model in H200 H100 L4 T4 A100 L40 H100 L4; do
		i=$((i + 1))
		rnp-register keygen --out "n$i.json" >/dev/null
		node=$(rnp-register address --key "n$i.json")
		wallet=$node
		((i < 7)) || wallet=$other # two nodes of one wallet
		uuid=GPU-$((i == 8 ? 2 : i))  # the last names a device of another
		jq -c --arg node "$node" --arg wallet "$wallet" --arg model "$model" --arg uuid "$uuid" '
			.node = $node | .wallet = $wallet | .at = "2026-11-15T00:00:00Z"
			| .gpus = [.gpus[0] | .model = $model | .uuid = $uuid | .memory_bytes = 85520809984]
			| if $model == "A100" then .gpus += [.gpus[0] | .uuid = "GPU-9"] else . end' \
			"$ROOT/tests/data/rtx4090.node.json" >n
		rnp-register sign --key "n$i.json" <n >>records
		sha=$(rnp-register canon <n | tr -d '\n' | sha256sum | cut -d' ' -f1)
		jq -nc "{kind: \"rnp.verdict\", v: 1, node: \"$node\", signer: \"$op\", at: \"2026-11-17T0$i:00:00Z\",
			passed: true, checks: [], readings: {}, node_record: \"$sha\",
			proven: ([\"$uuid\"] + (if \"$model\" == \"A100\" then [\"GPU-9\"] else [] end) | map({device: .}))},
			{kind: \"rnp.receipt\", v: 1, node: \"$node\", signer: \"$op\", job: \"j\", gpu_seconds: ($i * 10000),
			from: \"2026-11-1$((i % 3 + 5))T12:00:00Z\", to: \"2026-11-18T00:0$i:00Z\"},
			{kind: \"rnp.receipt\", v: 1, node: \"$node\", signer: \"$op\", job: \"k\", gpu_seconds: 99999,
			from: \"2026-11-17T23:00:00Z\", to: \"2026-11-18T01:00:00Z\"},
			{kind: \"rnp.uptime\", v: 1, node: \"$node\", signer: \"$op\", at: \"2026-11-24T00:00:00Z\",
			from: \"2026-11-17T00:00:00Z\", to: \"2026-11-18T00:00:00Z\", beats: 9, up_ms: 5000000,
			spans: [[$((i * 1000)), 2000000], [3000000, $((6000000 + i))]]}" >said
		rnp-register sign --key op.json <said >>records
	done
	# records that must not count: a stranger's receipt, a receipt twice, a changed one
	jq -c --arg n1 "$(rnp-register address --key n1.json)" '.node = $n1 | .signer = "'"$other"'" | .gpu_seconds = 400000
		| .from = "2026-11-20T00:00:00Z" | .to = "2026-11-21T00:00:00Z"' said | sed -n 3p |
		rnp-register sign --key other.json >>records
	grep -m1 rnp.receipt records >twice && cat twice >>records
	sed 's/"job":"j"/"job":"z"/' twice >>records
	publish() { # RECORDS [option ...]: the epoch that the operator publishes
		rm -f db
		rnp-reward usage -q --from $from --to $to --trust "$op" "${@:2}" "$1" >usage 2>/dev/null
		rnp-reward epoch --policy rnp-021 --store db --key op.json usage
	}
	stranger() {
		python3 "$ROOT/tests/stranger.py" "$ROOT/cmd/rnp-reward/policies/rnp-021.json" $from $to \
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
	assert_equal "$planted" 21
}
