# rnp-register check: node records compared with the minimum requirements of a policy.
load helper

node=$ROOT/tests/data/rtx4090.node.json

# prints the example node with this jq program applied
with() {
	jq -c "$1" "$node"
}

@test "check: the example RTX 4090 qualifies, with its tier and pool" {
	run_split rnp-register check --policy rnp-021 "$node"
	assert_success
	assert_equal "$(jq -r '.qualified, .tier, .pool, (.reasons | length)' <<<"$output")" \
		$'true\nMed\nMed > US > GPU > NVIDIA > RTX 4090\n0'
	assert_equal "$(jq -r '.requirements[] | select(.name == "download") |
		"\(.actual) \(.unit) \(.met)"' <<<"$output")" "940000000 bit/s true"
}

@test "check: no GPU is a clear no with the reason and the remedy" {
	run_split rnp-register check --policy rnp-021 <<<"$(with '.gpus = []')"
	assert_failure 1
	assert_equal "$(jq -r '.qualified, .reasons[]' <<<"$output")" \
		$'false\ngpu_model: this machine has no GPU'
	[[ $(jq -r '.requirements[] | select(.name == "gpu_model").remedy' <<<"$output") == *testnet* ]]
}

@test "check: what was not measured is unknown, not zero, and does not qualify" {
	run_split rnp-register check --policy rnp-021 \
		<<<"$(with 'del(.network) | .unknown["network.down_bps"] = "nobody asked"')"
	assert_failure 1
	assert_equal "$(jq -c '.requirements[] | select(.name == "download") |
		[has("actual"), has("met"), .unknown]' <<<"$output")" '[false,false,"nobody asked"]'
	assert_equal "$(jq -r .tier <<<"$output")" Unknown
}

@test "check: minima must be exceeded, not only met" {
	run_split rnp-register check --policy rnp-021 <<<"$(with '.network.down_bps = 100000000')"
	assert_failure 1
	assert_equal "$(jq -r '.reasons[]' <<<"$output")" \
		"download: 100 Mbit/s is not more than 100 Mbit/s"
}

@test "check: a model that the policy does not know; a family that it does" {
	run_split rnp-register check --policy rnp-021 \
		<<<"$(with '.gpus[0].model = "NVIDIA GeForce GTX 1660" | del(.gpus[0].memory_bytes)')"
	assert_failure 1
	assert_equal "$(jq -r '.reasons[]' <<<"$output")" \
		"gpu_model: 'GTX 1660' is not among those of the policy"
	run_split rnp-register check --policy rnp-021 \
		<<<"$(with '.gpus[0].model = "NVIDIA H100 80GB HBM3" | .gpus[0].memory_bytes = 85520809984')"
	assert_success
}

@test "check: anything qualifies for the testnet" {
	rnp-register detect | rnp-register check --policy testnet
}

@test "check: good records before a bad one are written; policies that are not there" {
	run_split rnp-register check --policy rnp-021 - <<<"$(cat "$node"; echo '{"kind":"rnp.node"}')"
	assert_failure 65
	assert_equal "$(wc -l <<<"$output")" 1
	[[ $stderr == *stdin:2* ]]
	run_split rnp-register check --policy nonsense "$node"
	assert_failure 64
	[[ $stderr == *"no policy 'nonsense'"* && $stderr == *rnp-021* ]]
	# one that is near is named alone
	refused 64 "there is no policy 'testnt'; did you mean 'testnet'?" rnp-register check --policy testnt "$node"
	[[ $stderr != *rnp-021* ]]
	echo '{"kind":"rnp.policy","v":1}' >"$BATS_TEST_TMPDIR/p.json"
	refused 65 "is missing" rnp-register check --policy "$BATS_TEST_TMPDIR/p.json" "$node"
	run_split rnp-register check "$node"
	assert_failure 64
}

@test "check: what it and detect tell to run exists" {
	cd "$BATS_TEST_TMPDIR"
	rnp-register detect >node.json
	{ jq -r '.unknown[]' node.json; rnp-register check --policy rnp-021 node.json; } |
		grep -oE 'rnp-[a-z]+ [a-z]+( --suite [a-z]+)?' | sort -u >commands
	grep -q 'rnp-bench run --suite mem' commands
	while read -r command; do
		# shellcheck disable=SC2086 # words
		run $command --help
		assert_success
	done <commands
}

@test "check: for people it is a page, with units, what is missing and what helps" {
	local page=$BATS_TEST_TMPDIR/page
	with '.gpus = [] | .network.down_bps = 50000000' >"$BATS_TEST_TMPDIR/poor.json"
	COLUMNS=80 run_split rnp-register check --table --policy rnp-021 "$BATS_TEST_TMPDIR/poor.json"
	assert_failure 1
	echo "$output" >"$page"
	grep -qxE 'qualified +no: 2 of 4 requirements are not met' "$page"
	grep -qxE '  download +no: 50 Mbit/s \(more than 100 Mbit/s\)' "$page"
	grep -qxE '  upload +ok: 910 Mbit/s \(more than 75 Mbit/s\)' "$page"
	grep -qxE '  gpu model +no: none \(a model of the tables gpu, enterprise\)' "$page"
	# each remedy is there, whole
	rnp-register check --policy rnp-021 "$BATS_TEST_TMPDIR/poor.json" >"$BATS_TEST_TMPDIR/record" || true
	jq -r '.requirements[], .recommendations[] | .remedy // empty' "$BATS_TEST_TMPDIR/record" | while read -r remedy; do
		tr -s ' \n' ' ' <"$page" | grep -qF "$remedy" || fail "not on the page: $remedy"
	done
	assert_equal "$(awk 'length > 80' "$page")" ""
	COLUMNS=80 rnp-register check --table --policy rnp-021 "$node" | grep -qxE 'qualified +yes'
}
