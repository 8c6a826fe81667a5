# A registry's database of the version before: rnp-register at commit 177fd17e wrote it, its keys
# and its answers in tests/data/before/ (two nodes, heartbeats of two days, a verdict, the uptime of
# a day, and a challenge that was open when it stopped).
load ../helper
load registry

teardown() {
	stop_registry
}

@test "before: a registry goes on with the database of the version before, and answers the same" {
	local before=$ROOT/tests/data/before path
	cd "$BATS_TEST_TMPDIR"
	cp "$before/registry.db" .
	install -m 600 "$before/registry.key.json" registry.key
	install -m 600 "$before/registry.node.json" node.key
	export RNP_NOW=2026-06-02T00:31:01Z
	start_registry --key registry.key --trust "$(rnp-register address --key registry.key)" --challenge-every 1h

	while read -r path; do
		get "$path"
		assert_equal "$status_code" 200
		jq -c --arg path "$path" '{path: $path, answer: .}' answer.json
	done < <(jq -r .path "$before/registry.answers.jsonl") >answers.jsonl
	cmp answers.jsonl "$before/registry.answers.jsonl"

	# the challenge is still open, and delivered with the next heartbeat
	rnp-register heartbeat --once --registry "$url" --key node.key >beat.jsonl
	tail -n 1 beat.jsonl | cmp - "$before/registry.challenge.json"
	get "/v1/records?kind=rnp.heartbeat&node=$(rnp-register address --key node.key)"
	assert_equal "$(jq -r '.records[].at' answer.json | sort | tail -n 1)" "$RNP_NOW"
}
