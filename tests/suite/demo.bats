# make demo, the main job, as the README shows it.
# slow: it trains for a minute
load ../helper

@test "demo: it is true, and its last line is one record" {
	cd "$BATS_TEST_TMPDIR"
	run_split "$ROOT/scripts/demo"
	assert_success
	tail -n 1 <<<"$output" >last
	# a person's last lines say what to do, and the page is there
	[[ $stderr == *"demo: all of it worked."*"rnp-register setup --registry URL"* ]] || fail "$stderr"
	man=$(grep -o 'man -l .*' <<<"$stderr")
	man=${man#man -l }
	[[ -s ${man//\'} ]] || fail "$man"
	jq -e '.kind == "rnp.demo" and .v == 1 and .ok == true and .seconds > 0 and (.node | length) > 30' last
	# the node of the last line is the one that was paid
	local node
	node=$(jq -r .node last)
	grep -q "\"kind\":\"rnp.reward\".*\"node\":\"$node\"" <<<"$output"
	jq -e --argjson units "$(grep -h "\"kind\":\"rnp.reward\".*$node" <<<"$output" | head -n 1 | jq .base_units)" \
		'.base_units == $units and $units > 0' last
}

@test "demo: the market trains on two nodes that it pays, and goes on when one is killed" {
	cd "$BATS_TEST_TMPDIR"
	run_split "$ROOT/scripts/demo-market"
	assert_success
	[[ $stderr != *"demo-market: left out; it needs"* ]] || skip "$stderr"
	tail -n 1 <<<"$output" >last
	jq -e '.kind == "rnp.demo" and .v == 1 and .ok == true and .uusd > 0 and .ready_ms > 0 and .restarts >= 1' last || fail "$stderr"
	grep -q '^{"nodes":2,"uusd_per_hour":156000,' <<<"$output"
	# both ranks trained, together
	grep -q '^\[0\] round 3 loss' <<<"$stderr"
	[[ ! -e $(grep -o '/var/tmp/rnp-demo-[A-Za-z0-9]*' <<<"$stderr" | head -n 1) ]] || fail "it left its folder"
}
