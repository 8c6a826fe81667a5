# One device behind several nodes: nodes that may share a device are challenged at the same instant, and a device
# that two nodes claim counts for neither until then.
# slow: challenges come at their own times
load ../helper
load ../rnp-register/registry

setup() {
	cd "$BATS_TEST_TMPDIR" || return
	make_key v
	make_key a
	make_key b
}

teardown() {
	# shellcheck disable=SC2046
	kill $(jobs -p) 2>/dev/null
	stopped_with=0
	stop_registry
	true
}

# join WALLET_A WALLET_B: registers both nodes
join() {
	rnp-register detect >detected
	jq -c --arg n "$a" --arg w "$1" '{kind, v, at, node: $n, wallet: $w}' detected | rnp-register sign --key a.json |
		rnp-register submit --registry "$url" >joined
	jq -c --arg n "$b" --arg w "$2" '{kind, v, at, node: $n, wallet: $w}' detected | rnp-register sign --key b.json |
		rnp-register submit --registry "$url" >>joined
	assert_equal "$(jq -c .pending joined | tr '\n' ' ')" "true true "
}

# beat KEY: sends heartbeats and answers challenges, in the background
beat() {
	timeout 600 rnp-register heartbeat --registry "$url" --key "$1.json" --interval 1s 2>/dev/null 3>&- |
		tee "$1.beats" | rnp-bench answer --key "$1.json" 2>/dev/null 3>&- |
		rnp-register submit --registry "$url" >/dev/null 2>&1 3>&- &
}

# verdicts N: waits for N verdicts and writes them to v.jsonl
verdicts() {
	judged() {
		get "/v1/records?kind=rnp.verdict"
		jq -c '.records[]' answer.json >v.jsonl
		(($(wc -l <v.jsonl) >= $1))
	}
	wait_until "$1 verdicts" judged "$1"
}

# proves_gpu KEY...: as if the last challenge had been about a GPU
proves_gpu() {
	local key
	for key; do
		sqlite3 registry.db "PRAGMA busy_timeout = 5000; INSERT OR REPLACE INTO proven_devices VALUES ('gpu-1', '${!key}', $(date +%s)000)" >/dev/null
	done
}

@test "joint: a device that two nodes claim is neither's without a joint challenge to both" {
	start_registry --key v.json --challenge-every 2s
	join "$a" "$b"
	sqlite3 registry.db "PRAGMA busy_timeout = 5000; INSERT INTO devices SELECT 'gpu-1', id FROM nodes" >/dev/null
	# the other node does not even appear; this one still gets its proof, and nothing fails
	beat a
	proven() { verdicts 1 && jq -es 'any(.proven)' v.jsonl >/dev/null; }
	wait_until 'a proof' proven
	proves_gpu a
	sqlite3 registry.db "SELECT body FROM challenges UNION ALL SELECT body FROM records WHERE kind = 'rnp.verdict'" |
		jq -es --arg b "$b" 'any(.node == $b) | not'
	get "/v1/nodes/$b"
	assert_equal "$(jq .pending answer.json)" true
	# now the other node appears
	beat b
	both_proven() {
		verdicts 1 && jq -es '[.[] | select(.joint and .proven)] | group_by(.joint) | any(length == 2)' v.jsonl >/dev/null
	}
	wait_until 'a proof of both at once' both_proven
	get "/v1/nodes/$b"
	jq -e '.proven_at and (has("pending") | not)' answer.json
}

# answer KEY...: answers the challenges that the next heartbeats bring; the answers are computed
# first and arrive together
answer() {
	local key
	for key; do
		asked_now() {
			rnp-register heartbeat --once --interval 2s --registry "$url" --key "$key.json" | jq -c 'select(.kind == "rnp.challenge")' >"$key.c"
			[[ -s $key.c ]]
		}
		wait_until 'a challenge' asked_now
		rnp-bench answer --key "$key.json" "$key.c" >"$key.answer"
		# the roots are sent first, because they are due earlier
		head -1 "$key.answer" | rnp-register submit --registry "$url" >/dev/null
		tail -1 "$key.answer" >"$key.body"
	done
	for key; do
		curl -s -o "$key.verdict" --data-binary "@$key.body" \
			"$url/v1/answers?node=${!key}&challenge=$(jq -r .challenge_sha256 "$key.body")" 3>&- &
		together+=($!)
	done
	wait "${together[@]}"
}

# changed KEY [WALLET]: posts a new record, so that the node's next heartbeat brings a
# challenge; the reply is in answer.json
changed() {
	node_record "$1" "{wallet: \"${2:-${!1}}\", name: \"$((++change))\"}" >n.json
	post /v1/nodes n.json
	heartbeat_record "$1" "{interval_s: 2}" >h.json
	post /v1/heartbeats h.json
	assert_equal "$status_code" 200
}

@test "joint: nodes of one wallet are challenged at one instant, others are not" {
	change=0
	make_key c
	start_registry --key v.json --challenge-every 8760h
	for key in a c; do
		changed $key "${!key/$a/$v}"
		jq -e '.challenge and (has("challenge_in_ms") | not)' answer.json
		answer $key
		# two answers within a second would be another reason to be asked together
		sleep 1.2
	done
	heartbeat_record a "{interval_s: 2}" >h.json
	post /v1/heartbeats h.json
	changed b "$v"
	jq -e '.challenge_in_ms and (has("challenge") | not)' answer.json
	for key in a c; do
		heartbeat_record $key "{interval_s: 2}" >h.json
		post /v1/heartbeats h.json
		assert_equal "$key $(jq 'has("challenge_in_ms")' answer.json)" "$key $([[ $key == a ]] && echo true || echo false)"
	done
	answer a b
	# both were issued within a second of each other, although the nodes send heartbeats at their own times
	jq -s -e 'map(.joint) | length == 2 and .[0] and .[0] == .[1]' a.c b.c
	jq -s -e 'map(.issued_at[:19] + "Z" | fromdate) | max - min <= 1' a.c b.c
}

@test "joint: nodes that answered within the same second are asked at one instant, and not those that did not" {
	change=0
	start_registry --key v.json --challenge-every 8760h
	# they share nothing, neither wallet nor device
	changed a; changed b
	answer a
	sleep 1.5
	answer b
	jq -es 'all(.passed and (has("joint") | not))' <(sqlite3 registry.db "SELECT body FROM records WHERE kind = 'rnp.verdict'")
	changed a
	jq -e '.challenge and (has("challenge_in_ms") | not)' answer.json
	changed b
	jq -e '.challenge and (has("challenge_in_ms") | not)' answer.json
	# now they are challenged together; on a busy machine it may take several attempts
	for _ in {1..20}; do
		answer a b
		changed a
		[[ $(jq -c 'has("challenge_in_ms")' answer.json) != true ]] || break
		changed b
	done
	jq -e '.challenge_in_ms and (has("challenge") | not)' answer.json
	heartbeat_record b "{interval_s: 2}" >h.json
	post /v1/heartbeats h.json
	jq -e '.challenge_in_ms and (has("challenge") | not)' answer.json
	answer a b
	jq -s -e 'map(.joint) | length == 2 and .[0] and .[0] == .[1]' a.c b.c
	jq -s -e 'map(.issued_at[:19] + "Z" | fromdate) | max - min <= 1' a.c b.c
}

@test "joint: an instant with others of one wallet decides nothing about a device that a third node claims" {
	change=0
	make_key c
	start_registry --key v.json --challenge-every 8760h
	changed c "$v"
	answer c
	changed b
	answer b
	node_record a "{wallet: \"$v\"}" >n.json
	post /v1/nodes n.json
	heartbeat_record c "{interval_s: 2}" >h.json
	post /v1/heartbeats h.json
	heartbeat_record a "{interval_s: 2}" >h.json
	post /v1/heartbeats h.json
	jq -e '.challenge_in_ms' answer.json
	# only now does it turn out that b has proven the device
	sqlite3 registry.db "PRAGMA busy_timeout = 5000; INSERT INTO devices SELECT 'gpu-1', id FROM nodes WHERE address IN ('$a', '$b')" >/dev/null
	proves_gpu b
	heartbeat_record b "{interval_s: 60}" >h.json
	post /v1/heartbeats h.json
	assert_equal "$status_code" 200
	answer a
	jq -e '.joint' a.c
	sqlite3 registry.db "SELECT body FROM records WHERE kind = 'rnp.verdict' AND node = '$a'" >v.jsonl
	jq -es 'length == 1 and (.[0] | .passed and .joint and (has("proven") | not) and (.unknown.proven | test("another node claims")))' v.jsonl
}

@test "joint: any number of nodes that only claim a node's device do not keep it from being proven" {
	change=0
	start_registry --key v.json --challenge-every 8760h
	# twenty nodes are there, some with a challenge open that they never answer, and claim a's device
	for ((i = 0; i < 20; i++)); do
		rm -f k.json
		make_key k
		changed k
	done
	node_record a >n.json
	post /v1/nodes n.json
	assert_equal "$status_code" 201
	sqlite3 registry.db "PRAGMA busy_timeout = 5000; INSERT INTO devices SELECT 'gpu-1', id FROM nodes" >/dev/null
	answer a
	sqlite3 registry.db "SELECT body FROM records WHERE kind = 'rnp.verdict' AND node = '$a'" >v.jsonl
	jq -es 'length == 1 and (.[0] | .passed and .proven)' v.jsonl
	proves_gpu a
	# who then proves it as well, but not at an instant at which a was asked, gets nothing
	node_record b >n.json
	post /v1/nodes n.json
	stop_registry
	start_registry --key v.json --challenge-every 8760h
	sqlite3 registry.db "PRAGMA busy_timeout = 5000; INSERT INTO devices SELECT 'gpu-1', id FROM nodes WHERE address = '$b'" >/dev/null
	answer b
	sqlite3 registry.db "SELECT body FROM records WHERE kind = 'rnp.verdict' AND node = '$b'" >v.jsonl
	jq -es 'length == 1 and (.[0] | .passed and (has("proven") | not) and (.unknown.proven | test("another node claims")))' v.jsonl
}

@test "joint: a uuid in capitals is the same device" {
	start_registry --key v.json --challenge-every 8760h
	node_record a '{gpus: [{uuid: "GPU-ab", model: "NVIDIA H200"}]}' >n.json
	post /v1/nodes n.json
	node_record b '{gpus: [{uuid: "gpu-AB", model: "NVIDIA H200"}]}' >n.json
	post /v1/nodes n.json
	assert_equal "$(sqlite3 registry.db "SELECT uuid, count(*) FROM devices")" "gpu-ab|2"
}
