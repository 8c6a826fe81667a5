# The market: plans, bookings, leases, money, events, actions.
load ../helper
load registry
load sign
load market

teardown() {
	stopped_with=0
	stop_registry
	((stopped_with == 0)) || { cat serve.err; return 1; }
}

@test "market: a node is planned, booked, made ready, charged and released" {
	start_market
	sells a 2 800000
	make_key c
	pays c 5000000
	assert_equal "$status_code" 201

	plans '{gpu_count: 2, gpu_model: "RTX 4090"}'
	assert_equal "$status_code" 200
	jq -e --arg a "$a" '.offers | length == 1 and .[0].nodes[0].node == $a and
		.[0].nodes[0].gpus == ["gpu-a-0", "gpu-a-1"] and .[0].uusd_per_hour == 825000 and
		.[0].up_to_uusd == 3300000' proposal.json
	rnp-register verify --quiet proposal.json

	books c
	assert_equal "$status_code" 201
	jq -e '.state == "reserved" and .held_uusd == 825000 and .nodes[0].rank == 0' answer.json
	asks c /v1/account
	jq -e '.balance_uusd == 5000000 and .held_uusd == 825000 and .clusters == 1' answer.json

	asks a '/v1/work?after=0'
	jq -e --arg cluster "$cluster" '.work | length == 1 and .[0].cluster == $cluster and
		.[0].booking.signer != null and .[0].want == "run" and (.[0].go | not)' answer.json
	becomes_ready a 0
	asks c "/v1/clusters/$cluster"
	jq -e '.state == "ready" and .ends_at != null' answer.json
	asks a '/v1/work?after=0'
	jq -e '.work[0].go' answer.json

	# no more is charged than the time since ready arrived, whatever the node says
	says a 0 ready '{ready_ms: 3600000}'
	asks c "/v1/clusters/$cluster"
	jq -e '.spent_uusd < 82500' answer.json

	by c "{kind: \"rnp.action\", cluster: \"$cluster\", action: \"release\"}" >action.json
	post /v1/actions action.json
	assert_equal "$status_code" 200
	assert_equal "$(jq -r .state answer.json)" releasing
	asks a '/v1/work?after=0'
	assert_equal "$(jq -r '.work[0].want' answer.json)" release
	says a 0 released
	assert_equal "$status_code" 201
	asks c "/v1/clusters/$cluster"
	jq -e '.state == "released" and .held_uusd == 0' answer.json
	asks a '/v1/work?after=0'
	assert_equal "$(jq '.work | length' answer.json)" 0
	get "/v1/leases?node=$a"
	jq -e '.leases | length == 1 and .[0].gpus == ["gpu-a-0", "gpu-a-1"] and .[0].end != null and (.[0] | has("customer") | not)' answer.json
	asks c "/v1/events?cluster=$cluster"
	jq -e '[.events[].event.to] == ["reserved", "proving", "pulling", "pulling", "starting", "ready", "ready", "releasing", "released"]' answer.json ||
		fail "$(jq -c '[.events[].event.to]' answer.json)"
}
