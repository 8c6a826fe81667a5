# What operators put around the programs: units, dashboard, demo.
load helper

@test "ops: every metric of the dashboard is one that the registry serves" {
	cd "$BATS_TEST_TMPDIR"
	rnp-register serve --db r.db --listen 127.0.0.1:0 --port-file port 2>log &
	local pid=$!
	for _ in {1..100}; do [[ -s port ]] && break; sleep 0.05; done
	curl -s "http://127.0.0.1:$(cat port)/metrics" >metrics
	kill "$pid"
	wait "$pid" || true
	for metric in $(jq -r '.panels[].targets[].expr' "$ROOT/scripts/grafana-dashboard.json" |
		grep -o 'rnp_[a-z_]*' | sort -u); do
		grep -q "^# TYPE ${metric%_bucket} " metrics || fail "the registry has no $metric"
	done
}

@test "ops: systemd accepts the units" {
	command -v systemd-analyze >/dev/null || skip "no systemd-analyze"
	# the programs are not installed where the units look for them, and that alone may be said
	run systemd-analyze verify --man=no "$ROOT"/scripts/systemd/*.{service,timer}
	refute_line --regexp 'Unknown|Failed to parse|Invalid|ignoring'
}

@test "ops: the demo is true, and its last line is one record" {
	cd "$BATS_TEST_TMPDIR"
	run_split "$ROOT/scripts/demo"
	assert_success
	tail -n 1 <<<"$output" >last
	jq -e '.kind == "rnp.demo" and .v == 1 and .ok == true and .seconds > 0 and (.node | length) > 30' last
	# the node of the last line is the one that was paid
	local node
	node=$(jq -r .node last)
	grep -q "\"kind\":\"rnp.reward\".*\"node\":\"$node\"" <<<"$output"
	jq -e --argjson units "$(grep -h "\"kind\":\"rnp.reward\".*$node" <<<"$output" | head -n 1 | jq .base_units)" \
		'.base_units == $units and $units > 0' last
}
