# The market with its agent: what a customer books on a registry runs on a node, in a real container.
load ../helper
load registry
load sign
load market
load containers

setup_file() {
	need_podman
	need_sandbox
	make_machine
	start_images
	PLAIN=$(push_image plain)
	export PLAIN
}

teardown_file() {
	stop_images
	end_machine
}

teardown() {
	stop_agent
	stop_registry
	end_leases "$BATS_TEST_TMPDIR/work" "/run/rt-$$"
	rm -rf "/run/rt-$$"
}

start_agent() {
	"${IN_MACHINE[@]}" rnp-register work --images 64MiB --private-images --registry "$url" --key a.json --dir "$BATS_TEST_TMPDIR/work" --run-dir "/run/rt-$$" \
		--memory 512MiB --disk 128MiB --cpu-cores 1 --grace 5s "$@" 2>>agent.err 3>&- &
	agent=$!
}

stop_agent() {
	[[ -n ${agent:-} ]] || return 0
	kill "$agent" 2>/dev/null || true
	ended "$agent" || true
	agent=
}

# put_blob KEY TEXT: prints its hash; the registry has it
put_blob() {
	local sha
	printf %s "$2" >blob
	sha=$(sha256sum <blob | cut -d' ' -f1)
	sign_request "$1.json" PUT "$url/v1/blobs/$sha" >signed.headers
	curl -sf -X PUT -H @signed.headers --data-binary @blob "$url/v1/blobs/$sha" >/dev/null || return
	echo "$sha"
}

listed() {
	plans '{gpu_count: 0, cpu_cores: 1, memory_bytes: 134217728, disk_bytes: 67108864}' && [[ $(jq '.offers | length' proposal.json) == 1 ]]
}

cluster_is() {
	asks c "/v1/clusters/$cluster"
	[[ $(jq -r .state answer.json) == "$1" ]]
}

@test "market: a booked container runs on a node, its exit code arrives, its log is read, and its time is paid" {
	use_machine
	SERVE_UNDER=("${IN_MACHINE[@]}")
	start_market
	make_key a
	node_record a '{labels: {country: "SI"}}' >a.node
	post /v1/nodes a.node
	quotes a 800000
	heartbeat_record a '{interval_s: 3600}' >a.beat
	post /v1/heartbeats a.beat
	make_key c
	pays c 5000000
	start_agent
	wait_until "an offer" listed
	run_sha=$(put_blob c 'echo "hello, $RNP_CLUSTER"; sleep 2; exit 3')
	books c "{hours: 1, image: \"$PLAIN\", run_sha256: \"$run_sha\"}"
	assert_equal "$status_code" 201
	wait_until "its end" cluster_is released
	asks c "/v1/events?cluster=$cluster"
	# less than the two seconds that it slept, by one look; a busy machine makes more of them
	jq -e '[.events[].event | select(.exit == 3)] | length == 1' answer.json || fail "$(cat answer.json)"
	jq -e '[.events[].event.ready_ms // 0] | max | . >= 1500 and . < 60000' answer.json || fail "$(cat answer.json)"
	asks c "/v1/clusters/$cluster"
	jq -e '.spent_uusd >= 300' answer.json || fail "$(cat answer.json)"
	asks c "/v1/logs/$cluster/0"
	grep -q "hello, rnp-$cluster" answer.json || fail "$(cat answer.json)"
}
