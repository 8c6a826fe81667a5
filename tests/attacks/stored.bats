# Records that a stranger has stored must neither crash the registry nor keep it from starting
# again.
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

# challenged KEY: sends heartbeats until a reply brings a challenge, which it stores in
# $challenge
challenged() {
	challenge=
	asked_now() {
		heartbeat_record "$1" >beat.json
		post /v1/heartbeats beat.json
		assert_equal "$status_code" 200
		challenge=$(jq -c '.challenge // empty' answer.json)
		[[ $challenge ]]
	}
	wait_until 'a challenge' asked_now "$1"
}

@test "stored: a uuid that is there twice, or that means the CPU, is refused" {
	make_key v
	start_registry --key v.json --challenge-every 1s
	make_key a
	cpu=cpu:$(rnp-register address --key a.json | tr -d '\n' | sha256sum | cut -c1-64)
	for uuids in '["GPU-1","GPU-1"]' '["cpu"]' '["CPU"]' "[\"$cpu\"]" '["GPU 1"]'; do
		node_record a "{gpus: [$uuids[] | {uuid: ., model: \"NVIDIA H200\", memory_bytes: 150754820096}]}" >n.json
		post /v1/nodes n.json
		assert_equal "$uuids $status_code" "$uuids 400"
	done
	get /v1/nodes
	assert_equal "$(cat answer.json)" '{"nodes":[]}'
}

@test "stored: a record of before, with one uuid twice and the CPU's, is asked for once, and the server lives" {
	make_key v
	start_registry --key v.json --challenge-every 1h
	make_key a
	node_record a '{gpus: [{uuid: "GPU-1", model: "NVIDIA H200"}, {uuid: "GPU-2", model: "NVIDIA H200"}, {uuid: "GPU-3", model: "L4"}]}' >n.json
	post /v1/nodes n.json
	assert_equal "$status_code" 201
	stop_registry
	sqlite3 registry.db "UPDATE records SET body = replace(replace(body, 'GPU-2', 'GPU-1'), 'GPU-3', 'cpu')"
	start_registry --key v.json --challenge-every 1s
	challenged a
	assert_equal "$(jq -c '[.devices[].device] | [length, .[1]]' <<<"$challenge")" '[2,"GPU-1"]'
	get /health
	assert_equal "$status_code" 200
}

@test "stored: a record that cannot be read, a tier that does not exist, a node that is no address" {
	make_key v
	start_registry --key v.json --challenge-every 1h
	make_key a; make_key b
	node_record a >n.json
	post /v1/nodes n.json
	node_record b >n.json
	post /v1/nodes n.json
	heartbeat_record b >beat.json
	post /v1/heartbeats beat.json
	stop_registry
	sqlite3 registry.db "UPDATE records SET body = '{\"gpus\":' WHERE node = '$a'; UPDATE nodes SET tier = 99;
		UPDATE nodes SET address = 'nobody' WHERE address = '$b'"
	start_registry --key v.json --challenge-every 1s
	for _ in {1..12}; do
		heartbeat_record a >beat.json
		post /v1/heartbeats beat.json
		assert_equal "$status_code" 200
		sleep 0.2
	done
	get /v1/pools
	assert_equal "$(jq -r '.pools[0].tier' answer.json)" unknown
	get '/v1/records?kind=rnp.heartbeat'
	assert_equal "$status_code" 200
	get /health
	assert_equal "$status_code" 200
	grep -q "node $a cannot be challenged" serve.err
}

# deep N: a record of that depth
deep() {
	node_record "$1" "{at: (now - 60 | todate), x: (reduce range($2) as \$i (1; [.]))}"
}

@test "stored: a record nested deeply does not make the lists unreadable that it is in" {
	make_key v; make_key a; make_key b
	start_registry
	deep a 24 >n.json
	post /v1/nodes n.json
	error_is 400 "nested deeper"
	deep a 23 >n.json
	post /v1/nodes n.json
	assert_equal "$status_code" 201
	node_record b '{at: (now - 50 | todate), wallet: $node}' >n.json
	post /v1/nodes n.json
	# one of before, as deep as a record may be
	deep a 31 >deep.json
	sqlite3 registry.db "PRAGMA busy_timeout = 5000; UPDATE records SET body = cast(readfile('deep.json') AS TEXT) WHERE node = '$a'" >/dev/null
	assert_equal "$(rnp-register list --registry "$url" | wc -l)" 2
	rnp-reward usage --registry "$url" --trust "$v" --from "$(date -u -d '-1 hour' +%FT%TZ)" --to "$(date -u +%FT%TZ)" >usage
	jq -es --arg b "$b" 'any(.node == $b and .wallet == $b)' usage
	for path in / "/nodes/$a"; do
		get "$path"
		assert_equal "$status_code" 200
		[[ $(head -c 15 answer.json) == "<!DOCTYPE html>" ]]
	done
}

@test "stored: pages for people stay small, whatever nodes are called and however many kinds there are" {
	make_key a
	start_registry
	# names of fields that add up, each with letters that HTML writes in five
	node_record a '{("&" * 5000): {("&" * 5000): {("&" * 5000): ([range(1000) | {key: "\(.)", value: 1}] | from_entries)}}}' >n.json
	post /v1/nodes n.json
	assert_equal "$status_code" 201
	get "/nodes/$a"
	assert_equal "$status_code" 200
	(($(stat -c %s answer.json) < 2000000))
	grep -q "It says more" answer.json
	sqlite3 registry.db "PRAGMA busy_timeout = 5000; WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000)
		INSERT INTO nodes (address, at_ms, sha256, record, tier, country, device, maker, model, gpus, gpu_memory_bytes)
		SELECT 'x' || i, 1, '', 1, 0, 'US', 'GPU', 'them', 'model ' || i, 1, 1 FROM n" >/dev/null
	get /
	assert_equal "$status_code" 200
	(($(stat -c %s answer.json) < 1000000))
	grep -q "and 1800 more" answer.json
	get /v1/pools
	assert_equal "$(jq '[.. | .model? // empty] | length' answer.json)" 2000
	get "/?limit=1000"
	assert_equal "$status_code" 400
}
