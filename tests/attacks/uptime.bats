# A node that claims to have been up when it was not: back-dated heartbeats, sparse ones, and
# those of a registry that signs.
load ../helper
load ../rnp-register/registry

setup() {
	cd "$BATS_TEST_TMPDIR" || return
}

teardown() {
	stopped_with=0
	stop_registry
	((stopped_with == 0)) || { cat serve.err; return 1; }
}

# uptimes FILE: waits until there are rnp.uptime records and writes them to FILE
uptimes() {
	signed_days() {
		get "/v1/records?kind=rnp.uptime"
		jq -c '.records[]' answer.json >"$1"
		[[ -s $1 ]]
	}
	wait_until 'a day' signed_days "$1"
}

@test "uptime: a day is signed as the heartbeats arrived, each for at most what it promised" {
	make_key v; make_key a; make_key b
	RNP_NOW=2026-05-01T10:00:00Z start_registry --key v.json
	for k in a b; do
		signed "$k" '{kind: "rnp.node", at: "2026-05-01T09:58:00Z"}' >n.json
		post /v1/nodes n.json
		assert_equal "$status_code" 201
	done
	stop_registry
	# a heartbeat each minute from 10:00 on except one; b sends all of its own at once, at
	# 10:04
	for minute in 00 01 03 04; do
		RNP_NOW=2026-05-01T10:$minute:00Z start_registry --key v.json
		heartbeat_record a "{at: \"2026-05-01T10:$minute:00Z\"}" >h.json
		post /v1/heartbeats h.json
		assert_equal "$status_code" 200
		if [[ $minute == 04 ]]; then
			for t in 10:00 10:01 10:02 10:03 10:04; do
				heartbeat_record b "{at: \"2026-05-01T${t}:00Z\", interval_s: 3600}" >h.json
				post /v1/heartbeats h.json
				assert_equal "$status_code" 200
			done
		fi
		stop_registry
	done
	RNP_NOW=2026-05-01T23:59:00Z start_registry --key v.json
	heartbeat_record a '{at: "2026-05-01T23:59:00Z", interval_s: 3600}' >h.json
	post /v1/heartbeats h.json
	stop_registry
	RNP_NOW=2026-05-02T00:10:00Z start_registry --key v.json
	uptimes up.jsonl
	rnp-register verify up.jsonl | jq -es --arg v "$v" 'length == 2 and all(.ok and .signer == $v)'
	jq -es --arg a "$a" --arg b "$b" 'map({(.node): .}) | add |
		(.[$a] | .up_ms == 300000 and .beats == 5 and .from == "2026-05-01T00:00:00Z" and .to == "2026-05-02T00:00:00Z"
			and .spans == [[36000000, 36120000], [36180000, 36300000], [86340000, 86400000]]) and
		(.[$b] | .up_ms == 3600000 and .beats == 5 and .spans == [[36240000, 39840000]])' up.jsonl
	# the hash covers what arrived, when, and with which interval: anybody with a list of
	# the heartbeats can check it
	assert_equal "$(jq -r --arg a "$a" 'select(.node == $a).beats_sha256' up.jsonl)" "$(
		for minute in 00 01 03 04; do
			ms=$(date -u -d "2026-05-01T10:$minute:00Z" +%s)000
			echo "$((36000000 + 10#$minute * 60000)) $ms 60"
		done | cat - <(echo "86340000 $(date -u -d 2026-05-01T23:59:00Z +%s)000 3600") | sha256sum | cut -d' ' -f1)"
	stop_registry
	# the promised interval continues into the next day, once, and no day is written twice
	RNP_NOW=2026-05-03T00:10:00Z start_registry --key v.json
	third() { uptimes up.jsonl && (($(wc -l <up.jsonl) >= 3)); }
	wait_until 'the third' third
	# a fourth would not be long in coming
	sleep 1
	uptimes up.jsonl
	assert_equal "$(wc -l <up.jsonl)" 3
	jq -es --arg a "$a" '.[2] | .node == $a and .from == "2026-05-02T00:00:00Z" and .beats == 0 and .spans == [[0, 3540000]]' up.jsonl
}

@test "uptime: nobody else can sign one" {
	make_key v; make_key a
	start_registry --key v.json
	node_record a >n.json
	post /v1/nodes n.json
	jq -nc --arg a "$a" '{kind: "rnp.uptime", v: 1, node: $a, signer: $a, at: (now | todate), from: "2026-05-01T00:00:00Z",
		to: "2026-05-02T00:00:00Z", beats: 1, up_ms: 86400000, spans: [[0, 86400000]]}' | rnp-register sign --key a.json >u.json
	post /v1/records u.json
	error_is 400 "are not taken here"
}
