# epoch_records.bash - for tests of rnp-reward: the signed records of a week of eight nodes.

# epoch_records: writes records; sets op and other (addresses of op.json, other.json), from and to
epoch_records() {
	local i model node wallet uuid sha
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
			| .gpus = [.gpus[0] | .model = $model | .uuid = $uuid | .memory_bytes = (if $model == "H200" then 150754820096 else 85520809984 end)]
			| if $model == "A100" then .gpus += [.gpus[0] | .uuid = "GPU-9"] else . end' \
			"$ROOT/tests/data/rtx4090.node.json" >"n$i"
		rnp-register sign --key "n$i.json" <"n$i" >>records
		sha=$(rnp-register canon <"n$i" | tr -d '\n' | sha256sum | cut -d' ' -f1)
		jq -nc "{kind: \"rnp.verdict\", v: 1, node: \"$node\", signer: \"$op\", at: \"2026-11-17T0$i:00:00Z\",
			passed: true, checks: [], readings: {}, node_record: \"$sha\", challenge_sha256: (\"$i\" * 64),
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
	# passed on the challenge of node 1, after it: that proves nothing, neither that node 4 has an H200, nor
	# that node 8 had the device of node 2 first
	jq -c '.gpus[0] |= (.model = "H200" | .uuid = "GPU-44" | .memory_bytes = 150754820096)' n4 >n4b
	rnp-register sign --key n4.json <n4b >>records
	anothers() { # NODE AT UUID
		jq -nc "{kind: \"rnp.verdict\", v: 1, node: \"$(jq -r .node "$1")\", signer: \"$op\", at: \"2026-11-17T$2Z\",
			passed: true, checks: [], readings: {}, challenge_sha256: (\"1\" * 64),
			node_record: \"$(rnp-register canon <"$1" | tr -d '\n' | sha256sum | cut -d' ' -f1)\", proven: [{device: \"$3\"}]}"
	}
	{ anothers n4b 20:00:00 GPU-44; anothers n8 01:30:00 GPU-2; } | rnp-register sign --key op.json >>records
	# records that must not count: a stranger's receipt, a receipt twice, a changed one
	jq -c --arg n1 "$(rnp-register address --key n1.json)" '.node = $n1 | .signer = "'"$other"'" | .gpu_seconds = 400000
		| .from = "2026-11-20T00:00:00Z" | .to = "2026-11-21T00:00:00Z"' said | sed -n 3p |
		rnp-register sign --key other.json >>records
	grep -m1 rnp.receipt records >twice && cat twice >>records
	sed 's/"job":"j"/"job":"z"/' twice >>records
}
