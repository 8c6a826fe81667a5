# Records that a stranger has stored must neither crash the registry nor keep it from starting
# again.
load ../helper
load ../registry

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
	for _ in {1..40}; do
		heartbeat_record "$1" >beat.json
		post /v1/heartbeats beat.json
		assert_equal "$status_code" 200
		challenge=$(jq -c '.challenge // empty' answer.json)
		[[ -z $challenge ]] || return 0
		sleep 0.2
	done
	return 1
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
