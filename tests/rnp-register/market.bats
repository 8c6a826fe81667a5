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

@test "market: of customers who race for one GPU one gets it, and money is spent once" {
	start_market
	sells a
	local i
	for i in 1 2 3 4 5 6; do
		make_key "c$i"
		pays "c$i" 1000000
	done
	plans
	for i in 1 2 3 4 5 6; do booking "c$i" >"booking.$i"; done
	for i in 1 2 3 4 5 6; do
		curl -s -o "answer.$i" -w '%{http_code}\n' --data-binary "@booking.$i" "$url/v1/bookings" >"code.$i" &
	done
	wait $(jobs -p | grep -vx "$server")
	assert_equal "$(cat code.* | sort | uniq -c | tr -s ' ' | tr '\n' ';')" " 1 201; 5 409;"
	# the others are told so, and what there is instead: nothing
	jq -se 'map(select(.error)) | length == 5 and all(.cause == "taken" and .try != null and .proposal.offers == [])' answer.?
	assert_equal "$(sqlite3 registry.db 'SELECT count(*) FROM leases')" 1
	assert_equal "$(sqlite3 registry.db 'SELECT sum(held_uusd) FROM accounts')" 525000

	# one customer cannot spend the same dollar twice: two nodes, money for one
	sells b
	sells d
	make_key e
	pays e 600000
	plans '{exclude: ["'"$a"'"]}'
	booking e >booking.1
	booking e '{offer: 1}' >booking.2
	for i in 1 2; do
		curl -s -o "answer.$i" -w '%{http_code}\n' --data-binary "@booking.$i" "$url/v1/bookings" >"code.$i" &
	done
	wait $(jobs -p | grep -vx "$server")
	assert_equal "$(cat code.1 code.2 | sort | tr '\n' ' ')" "201 402 "
	jq -se 'map(select(.error))[0] | .cause == "credit" and .missing_uusd == 450000 and (.error | startswith("0.450000 $"))' answer.1 answer.2
	asks e /v1/account
	jq -e '.held_uusd == 525000 and .available_uusd == 75000' answer.json
}

@test "market: a GPU that two nodes claim is let once, whatever the case of its name" {
	start_market
	sells a
	make_key b
	node_record b '{gpus: [{vendor: "NVIDIA", model: "NVIDIA GeForce RTX 4090", memory_bytes: 25757220864, uuid: "gpu-A-0"}]}' >b.node
	post /v1/nodes b.node
	quotes b 100000
	heartbeat_record b '{interval_s: 3600}' >b.beat
	post /v1/heartbeats b.beat
	lists b
	make_key c
	pays c 9000000
	plans
	assert_equal "$(jq '[.offers[].nodes[0].node] | length' proposal.json)" 2
	books c
	assert_equal "$status_code" 201
	books c '{offer: 1}'
	error_is 409 "a device is let already"
	assert_equal "$(sqlite3 registry.db 'SELECT count(*) FROM leases WHERE to_ms IS NULL')" 1
}

@test "market: a device is sold by who has proven it alone, and free ones are not hoarded" {
	start_market
	sells a
	make_key b
	node_record b '{gpus: [{vendor: "NVIDIA", model: "NVIDIA GeForce RTX 4090", memory_bytes: 25757220864, uuid: "gpu-A-0"}]}' >b.node
	post /v1/nodes b.node
	signed b '{kind: "rnp.quote", ask_uusd: 0, customer_uusd: 0, floor_uusd: 0, why: []}' >free.quote
	post /v1/records free.quote
	heartbeat_record b '{interval_s: 3600}' >b.beat
	post /v1/heartbeats b.beat
	lists b
	make_key c
	pays c 9000000
	plans '{exclude: ["'"$a"'"]}'
	assert_equal "$(jq -r '.offers[0].nodes[0].node' proposal.json)" "$b"
	# who claims it books himself: the lease would keep the owner out
	cp proposal.json squat.json
	stop_registry
	sqlite3 registry.db "INSERT INTO proven_devices VALUES ('gpu-a-0', '$a', $(date +%s)000)"
	start_market
	plans
	assert_equal "$(jq -c '[.offers[].nodes[].node]' proposal.json)" "[\"$a\"]"
	cp squat.json proposal.json
	books c
	error_is 409 "is not for sale any more"
	# nor does a new record of the same
	node_record b '{gpus: [{vendor: "NVIDIA", model: "NVIDIA GeForce RTX 4090", memory_bytes: 25757220864, uuid: "GPU-a-0"}]}' >b.node
	post /v1/nodes b.node
	books c
	error_is 409 "is not for sale any more"
	assert_equal "$(sqlite3 registry.db 'SELECT count(*) FROM leases')" 0

	sells d 10 0 '{part_gpus: 1}'
	sells e 10 0 '{part_gpus: 1}'
	quotes d 0
	signed d '{kind: "rnp.quote", ask_uusd: 0, customer_uusd: 0, floor_uusd: 0, why: []}' >free.quote
	post /v1/records free.quote
	signed e '{kind: "rnp.quote", ask_uusd: 0, customer_uusd: 0, floor_uusd: 0, why: []}' >free.quote
	post /v1/records free.quote
	local i
	for i in {1..16}; do
		plans
		books c
		assert_equal "$status_code" 201
	done
	plans
	books c
	error_is 429 "16 clusters of yours are open"
	by c "{kind: \"rnp.action\", cluster: \"$(jq -r .cluster <(asks c /v1/clusters && jq -c '.clusters[0]' answer.json))\", action: \"release\"}" >action.json
	post /v1/actions action.json
	assert_equal "$status_code" 200
	plans
	books c
	assert_equal "$status_code" 201
}

@test "market: the same booking is the same cluster; what was changed, or is another's, is refused" {
	start_market
	sells a
	make_key c
	make_key d
	pays c 5000000
	pays d 5000000
	plans
	books c
	assert_equal "$status_code" 201
	first=$cluster
	post /v1/bookings booking.json
	assert_equal "$status_code" 200
	assert_equal "$(jq -r .cluster answer.json)" "$first"
	assert_equal "$(sqlite3 registry.db 'SELECT count(*) FROM clusters')" 1

	# changed after it was signed; signed by another than it says; a proposal that was made dearer or cheaper
	jq -c '.hours = 1' booking.json >changed.json
	post /v1/bookings changed.json
	error_is 422 "has not signed"
	jq -c 'del(.proof)' booking.json | rnp-register sign --key d.json >changed.json
	post /v1/bookings changed.json
	error_is 422 "has not signed"
	jq -c '.offers[0].nodes[0].uusd_per_hour = 1 | .offers[0].uusd_per_hour = 1' proposal.json >cheap.json
	mv cheap.json proposal.json
	books d
	error_is 422 "was not signed by this registry"
	# the same, signed by somebody who calls himself a registry
	jq -c 'del(.proof)' proposal.json | rnp-register sign --key d.json >cheap.json
	mv cheap.json proposal.json
	books d
	error_is 422 "was not signed by this registry"
	# an offer that there is not, an image without a digest, a time that is over
	plans
	books d '{offer: 7}'
	error_is 422 "offer"
	sells b
	plans
	books d '{image: "debian:latest"}'
	error_is 422 "has no digest"
	books d '{deadline: "2026-01-01T00:00:00Z"}'
	error_is 422 "deadline"
	books d '{at: (now - 600 | todate)}'
	error_is 422 "5 minutes"
	books d '{ssh_keys: ["ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAAAgQC= me"]}'
	error_is 422 "ssh_keys[0]"
	assert_equal "$(sqlite3 registry.db 'SELECT count(*) FROM clusters')" 1
}

@test "market: deposits count once, and only of those whom the registry trusts" {
	start_market
	make_key c
	make_key thief
	pays c 700000 first
	assert_equal "$status_code" 201
	post /v1/deposits deposit.json
	assert_equal "$status_code" 200
	jq -c 'del(.proof) | .uusd = 900000' deposit.json | rnp-register sign --key bank.json >other.json
	post /v1/deposits other.json
	error_is 409 "first"
	jq -c '.uusd = 900000 | .id = "second"' deposit.json >forged.json
	post /v1/deposits forged.json
	error_is 422 "has not signed"
	by thief "{kind: \"rnp.deposit\", customer: \"$thief\", uusd: 1000000, source: \"paid\", id: \"third\"}" >forged.json
	post /v1/deposits forged.json
	error_is 403 "do not count here"
	asks c /v1/account
	assert_equal "$(jq .balance_uusd answer.json)" 700000
	asks thief /v1/account
	assert_equal "$(jq .balance_uusd answer.json)" 0
	# as a subcommand
	run_split rnp-register deposit --registry "$url" --key bank.json --to "$c" --usd 0.30 --id fourth
	assert_success
	# whoever does not know whether it arrived tells it again
	run_split rnp-register deposit --registry "$url" --key bank.json --to "$c" --usd 0.30 --id fourth
	assert_success
	assert_equal "$(jq .new <<<"$output")" false
	run_split rnp-register deposit --registry "$url" --key bank.json --to "$c" --usd 0.31 --id fourth
	assert_failure
	run_split rnp-register account --registry "$url" --key c.json
	assert_equal "$(jq .available_uusd <<<"$output")" 1000000
	refused 77 "do not count here" rnp-register deposit --registry "$url" --key thief.json --to "$thief" --usd 5 --id x
	# who has no account books nothing, what costs nothing neither
	sells n
	quotes n 0
	signed n '{kind: "rnp.quote", ask_uusd: 0, customer_uusd: 0, floor_uusd: 0, why: []}' >free.quote
	post /v1/records free.quote
	plans
	books thief
	assert_equal "$status_code" 402
	books c
	assert_equal "$status_code" 201
}

@test "market: a proposal that is too old, and one that became dearer, get a new one" {
	start_market
	sells a
	make_key c
	pays c 5000000
	plans
	quotes a 700000
	books c
	error_is 409 "asks more by now"
	jq -e '.cause == "dearer" and .proposal.offers[0].uusd_per_hour == 725000' answer.json
	# the customer who thinks that over may book it; cheaper is no reason to refuse
	jq -c .proposal answer.json >proposal.json
	quotes a 600000
	books c
	assert_equal "$status_code" 201
	assert_equal "$(jq .nodes[0].uusd_per_hour answer.json)" 725000
	stop_registry

	sells_later() { sells b && plans; }
	start_market
	sells_later
	stop_registry
	RNP_NOW=$(date -u -d '11 min' +%FT%TZ) start_market
	booking c "{at: \"$(date -u -d '11 min' +%FT%TZ)\"}" >booking.json
	post /v1/bookings booking.json
	error_is 409 "10 minutes"
	jq -e '.cause == "old" and (.proposal.offers | length == 1)' answer.json
}

@test "market: what is somebody's own is read by his signature alone, each nonce once" {
	start_market
	sells a
	sells b
	make_key c
	make_key d
	pays c 5000000
	plans
	books c
	local path
	for path in "/v1/clusters/$cluster" /v1/clusters "/v1/events?cluster=$cluster" /v1/account /v1/work; do
		get "$path"
		error_is 401 "his key signed"
	done
	asks c "/v1/clusters/$cluster"
	assert_equal "$status_code" 200
	get "/v1/clusters/$cluster" -H @signed.headers
	error_is 401 "nonce was used before"
	asks d "/v1/clusters/$cluster"
	error_is 404 "you have no cluster"
	asks d "/v1/events?cluster=$cluster"
	error_is 404 "you have no cluster"
	asks d /v1/clusters
	assert_equal "$(jq '.clusters | length' answer.json)" 0
	# a signature for one path opens no other
	sign_request c.json GET "$url/v1/account" >signed.headers
	get "/v1/clusters/$cluster" -H @signed.headers
	error_is 401 "not by that key"
	# work is the node's; nothing of it is public
	asks c /v1/work
	assert_equal "$(jq '.work | length' answer.json)" 0
	get /v1/records?limit=1000
	run ! grep -qE 'rnp.booking|rnp.cluster|rnp.event|rnp.deposit|rnp.listing' answer.json
	by d "{kind: \"rnp.action\", cluster: \"$cluster\", action: \"release\"}" >action.json
	post /v1/actions action.json
	error_is 404 "you have no such cluster"
}

@test "market: a node says only what can be, of its own leases, each once" {
	start_market
	sells a
	sells b
	make_key c
	pays c 5000000
	plans '{exclude: ["'"$b"'"]}'
	books c
	says b 0 proving
	error_is 403 "another node has this rank"
	says a 0 ready
	error_is 409 "cannot become ready"
	jq -e '.state == "reserved" and .seq == 0' answer.json
	says a 1 proving
	error_is 404 "no such cluster"
	says a 0 proving
	assert_equal "$status_code" 201
	assert_equal "$(jq -r .state answer.json)" pulling
	post /v1/events event.json
	assert_equal "$status_code" 200
	assert_equal "$(jq .new answer.json)" false
	seq=1
	says a 0 pulling
	error_is 409 "a later event"
	jq -c '.cluster = "00000000000000000000000000000000"' event.json >forged.json
	post /v1/events forged.json
	error_is 422 "has not signed"
	seq=10
	says a 0 pulling '{bytes: 5, bytes_total: 10, cause: "1 of 2 layers"}'
	asks c "/v1/clusters/$cluster"
	jq -e '.nodes[0] | .bytes == 5 and .bytes_total == 10 and .cause == "1 of 2 layers"' answer.json
	says a 0 failed '{cause: "no space left"}'
	assert_equal "$status_code" 201
	says a 0 pulling
	error_is 409 "the lease is over"
	asks c "/v1/clusters/$cluster"
	jq -e '.state == "failed" and (.cause | contains("no space left")) and .held_uusd == 0' answer.json
	# its GPU is free again
	plans '{exclude: ["'"$b"'"]}'
	assert_equal "$(jq '.offers | length' proposal.json)" 1
}

@test "market: a node that fails is replaced by a spare, at no higher price, until none is left" {
	start_market
	sells a 1 500000
	sells b 1 500000
	sells d 1 600000
	make_key c
	pays c 9000000
	plans
	jq -e '.spares | length == 2' proposal.json
	node=$(jq -r '.offers[0].nodes[0].node' proposal.json)
	books c
	held=$(jq .held_uusd answer.json)
	who() { [[ $1 == "$a" ]] && echo a || echo b; }
	says "$(who "$node")" 0 failed '{cause: "its disk is full"}'
	assert_equal "$status_code" 201
	asks c "/v1/clusters/$cluster"
	jq -e --arg node "$node" '.state == "reserved" and (.nodes | length == 2) and .nodes[0].state == "replaced" and
		.nodes[1].turn == 1 and .nodes[1].node != $node' answer.json
	assert_equal "$(jq .held_uusd answer.json)" "$held"
	second=$(jq -r '.nodes[1].node' answer.json)
	asks "$(who "$second")" /v1/work
	# its run had not begun: it does not begin again
	jq -e '.work[0] | .restarts == 0 and .turn == 1' answer.json
	# the last one costs more than the customer allows
	seq=0
	says "$(who "$second")" 0 failed
	asks c "/v1/clusters/$cluster"
	jq -e '.state == "failed" and (.cause | contains("no spare is free"))' answer.json
	assert_equal "$(sqlite3 registry.db 'SELECT count(*) FROM leases WHERE to_ms IS NULL')" 0

	# who allows it, gets it; and of one who wants an end, all is released
	plans '{exclude: ["'"$b"'"]}'
	books c '{replace_uusd_per_hour: 700000}'
	seq=0
	says a 0 failed
	asks c "/v1/clusters/$cluster"
	assert_equal "$(jq -r '.nodes[1].node' answer.json)" "$d"
	by c "{kind: \"rnp.action\", cluster: \"$cluster\", action: \"release\"}" >action.json
	post /v1/actions action.json
	assert_equal "$(jq -r .state answer.json)" released
}

@test "market: replace pays the node to its end, and what was refused stays refused" {
	start_market
	sells a 1 3600000000
	sells b 1 3600000000
	make_key c
	pays c 9000000000
	plans
	local first=a second=b
	[[ $(jq -r '.offers[0].nodes[0].node' proposal.json) == "$a" ]] || first=b second=a
	books c
	becomes_ready "$first" 0
	by c "{kind: \"rnp.action\", cluster: \"$cluster\", action: \"replace\", rank: 0}" >action.json
	post /v1/actions action.json
	assert_equal "$status_code" 200
	jq -e '.nodes[0] | .state == "releasing" and .cause == "its customer wants another"' answer.json
	post /v1/actions action.json
	assert_equal "$status_code" 200
	# until then it worked; what it says now is what it still gets
	says "$first" 0 ready '{ready_ms: 3600000}'
	assert_equal "$status_code" 201
	asks c "/v1/clusters/$cluster"
	jq -e '.spent_uusd > 0 and (.nodes | length == 1)' answer.json
	says "$first" 0 released
	assert_equal "$status_code" 201
	asks c "/v1/clusters/$cluster"
	jq -e --arg node "${!second}" '.state == "reserved" and .nodes[0].state == "replaced" and
		.nodes[1].turn == 1 and .nodes[1].node == $node' answer.json
	asks "$second" /v1/work
	jq -e '.work[0] | .turn == 1 and .restarts == 1' answer.json

	# no spare is left: the node that is there stays
	by c "{kind: \"rnp.action\", cluster: \"$cluster\", action: \"replace\", rank: 0}" >action.json
	local i
	for i in 1 2; do
		post /v1/actions action.json
		error_is 409 "no spare"
	done
	asks c "/v1/clusters/$cluster"
	jq -e '.state == "reserved" and .nodes[1].state == "reserved"' answer.json
	by c "{kind: \"rnp.action\", cluster: \"$cluster\", action: \"extend\", budget_uusd: 1}" >action.json
	for i in 1 2; do
		post /v1/actions action.json
		error_is 422 "is spent already"
	done
}

@test "market: a node that leaves is not replaced in a cluster that its customer releases" {
	start_market
	sells a
	sells b
	make_key c
	pays c 9000000
	plans
	local first=a
	[[ $(jq -r '.offers[0].nodes[0].node' proposal.json) == "$a" ]] || first=b
	books c
	becomes_ready "$first" 0
	local what
	for what in replace release; do
		by c "{kind: \"rnp.action\", cluster: \"$cluster\", action: \"$what\", rank: 0}" >action.json
		post /v1/actions action.json
		assert_equal "$status_code" 200
	done
	says "$first" 0 released
	asks c "/v1/clusters/$cluster"
	jq -e '.state == "released" and (.nodes | length == 1)' answer.json
}

@test "market: an error of one rank ends the run on all, and is a failed node's fault where one has failed" {
	start_market
	sells a 1 500000
	sells b 1 500000
	sells d 1 520000
	make_key c
	pays c 9000000
	plans '{gpu_count: 2, nodes: 2, max_uusd_per_hour: 2000000}'
	books c '{replace_uusd_per_hour: 600000}'
	assert_equal "$status_code" 201
	first=$(jq -r '.nodes[0].node' answer.json)
	if [[ $first == "$a" ]]; then r0=a r1=b; else r0=b r1=a; fi
	work() { asks "$1" /v1/work && jq -e ".work[0] | $2" answer.json; }
	seq=0
	becomes_ready "$r0" 0
	work "$r0" '.go == false and .halt == false and .restarts == 0'
	becomes_ready "$r1" 1
	work "$r0" '.go == true and .halt == false'
	# rank 0 ends well, rank 1 is gone, which nobody knows yet: what ended well begins again, too
	says "$r0" 0 ready '{exit: 0, restarts: 0}'
	says "$r1" 1 failed '{cause: "its disk is full"}'
	assert_equal "$status_code" 201
	work d '.restarts == 1 and .go == false and .rank == 1'
	becomes_ready d 1
	work "$r0" '.go == true and .restarts == 1'
	# what is said late of the first run counts for nothing
	says "$r0" 0 ready '{exit: 9, restarts: 0}'
	work "$r0" '.go == true and .halt == false'
	says d 1 ready '{exit: 0, restarts: 1}'
	asks c "/v1/clusters/$cluster"
	jq -e '.state == "ready" and .restarts == 1' answer.json
	# the other has to end, and how it does is not what the job ended with
	says "$r0" 0 ready '{exit: 4, restarts: 1}'
	asks c "/v1/clusters/$cluster"
	jq -e '.state == "releasing" and .cause == "run of rank 0 ended with 4"' answer.json
}

@test "market: an error ends the run on the others before it is the job's" {
	start_market
	sells a 2 500000 '{part_gpus: 1}'
	sells b 2 500000 '{part_gpus: 1}'
	make_key c
	pays c 9000000
	plans '{gpu_count: 2, nodes: 2}'
	books c '{recovery: {max_restarts_on_errors: 1}}'
	assert_equal "$status_code" 201
	first=$(jq -r '.nodes[0].node' answer.json)
	if [[ $first == "$a" ]]; then r0=a r1=b; else r0=b r1=a; fi
	seq=0
	becomes_ready "$r0" 0
	becomes_ready "$r1" 1
	for restarts in 0 1; do
		says "$r1" 1 ready "{exit: 7, restarts: $restarts}"
		asks "$r0" /v1/work
		jq -e ".work[0] | .go == false and .halt == true and .restarts == $restarts" answer.json
		asks c "/v1/clusters/$cluster"
		jq -e '.state == "ready"' answer.json
		says "$r0" 0 ready "{exit: 143, restarts: $restarts}"
	done
	asks c "/v1/clusters/$cluster"
	jq -e '.state == "releasing" and .restarts == 1 and .nodes[1].exit == 7 and (.nodes[0] | has("exit") | not)' answer.json
}

@test "market: whoever does not take an assignment, or falls silent, loses it" {
	start_market
	sells a
	make_key c
	pays c 5000000
	plans
	books c
	stop_registry
	RNP_NOW=$(date -u -d '60 sec' +%FT%TZ) start_market
	failed() { asks c "/v1/clusters/$cluster" && [[ $(jq -r .state answer.json) == failed ]]; }
	wait_until 'the assignment is lost' failed
	jq -e '.cause | contains("did not take the assignment within 45 s")' answer.json
	stop_registry

	start_market
	sells b
	plans '{exclude: ["'"$a"'"]}'
	books c
	becomes_ready b 0
	says b 0 ready '{ready_ms: 60000}'
	stop_registry
	# heartbeats were promised every hour
	RNP_NOW=$(date -u -d '3 hours' +%FT%TZ) start_market
	silent() {
		sqlite3 registry.db "SELECT cause FROM members WHERE node = '$b'" | grep -q 'did not come'
	}
	# a registry that has just started gives all of them that long
	sleep 2
	run ! silent
}

@test "market: credit, budget and deadline end a cluster in time, after warnings" {
	start_market
	sells a 1 3575000
	make_key c
	pays c 3600000
	plans
	books c
	becomes_ready a 0
	seen() { sqlite3 registry.db 'SELECT group_concat(body) FROM events' | grep -q "$1"; }
	later() {
		stop_registry
		RNP_NOW=$(date -u -d "$1" +%FT%TZ) start_market
	}
	later '46 min'
	wait_until 'the first warning' seen 'the credit lasts for less than 15 min'
	later '56 min'
	wait_until 'the second warning' seen 'the credit lasts for less than 5 min'
	later '59 min 30 sec'
	wait_until 'the end' seen 'the credit ends'
	assert_equal "$(sqlite3 registry.db 'SELECT state FROM members')" 5
	# what the node says last is charged, and no more than there is
	jq -nc '{}' >/dev/null
	assert_equal "$(sqlite3 registry.db 'SELECT deposited_uusd - charged_uusd - held_uusd >= 0 FROM accounts')" 1
	stop_registry

	start_market
	sells b 1 900000
	pays c 50000000
	plans '{exclude: ["'"$a"'"]}'
	books c '{budget_uusd: 925000}'
	assert_equal "$status_code" 201
	seq=0
	becomes_ready b 0
	later '59 min 40 sec'
	wait_until 'the end' seen 'the budget ends'
}

@test "market: news is answered when it comes, and streamed" {
	start_market
	sells a
	make_key c
	pays c 5000000
	plans
	books c
	sign_request c.json GET "$url/v1/clusters/$cluster?wait=25&after=1" >one
	curl -s -H @one "$url/v1/clusters/$cluster?wait=25&after=1" >waited.json &
	waiter=$!
	sign_request c.json GET "$url/v1/events?cluster=$cluster&after=0" >two
	curl -sN -H @two -H 'Accept: text/event-stream' "$url/v1/events?cluster=$cluster&after=0" >stream &
	streamer=$!
	sign_request a.json GET "$url/v1/work?wait=1&after=99999999" >three
	assert_equal "$(curl -s -H @three "$url/v1/work?wait=1&after=99999999" | jq '.work | length')" 1
	waiting() { get /metrics && grep -qx 'rnp_market_waiting 2' answer.json; }
	wait_until 'both wait' waiting
	says a 0 proving
	wait "$waiter"
	jq -e '.seq > 1' waited.json
	by c "{kind: \"rnp.action\", cluster: \"$cluster\", action: \"release\", cause: \"enough\"}" >action.json
	post /v1/actions action.json
	says a 0 released
	# the stream ends with the cluster
	wait "$streamer"
	assert_equal "$(grep '^data: ' stream | cut -c 7- | jq -r .to | tr '\n' ' ')" \
		"reserved proving pulling releasing released "
	grep -qx 'id: 5' stream
	# one that begins again goes on where it was
	sign_request c.json GET "$url/v1/events?cluster=$cluster" >four
	curl -sN -H @four -H 'Accept: text/event-stream' -H 'Last-Event-ID: 4' "$url/v1/events?cluster=$cluster" >rest
	assert_equal "$(grep -c '^data: ' rest)" 1
	# SIGTERM leaves nobody waiting
	sign_request a.json GET "$url/v1/work?wait=25&after=99999999" >five
	curl -s -o last -H @five "$url/v1/work?wait=25&after=99999999" &
	waiter=$!
	waits() { get /metrics && grep -qx 'rnp_market_waiting 1' answer.json; }
	wait_until 'it waits' waits
	stop_registry
	wait "$waiter" || true
}

@test "market: plans leave nothing behind, and say what does not fit" {
	start_market
	sells a 2
	sells b 1 500000 '{max_hours: 2}'
	make_key c
	pays c 5000000
	before=$(sqlite3 registry.db 'SELECT count(*) FROM records, (SELECT count(*) FROM clusters)')
	plans '{gpu_model: "H100"}'
	jq -e '.offers == [] and .left_out.model == 2' proposal.json
	plans '{gpu_memory_bytes: 90000000000}'
	jq -e '.offers == [] and .left_out.gpu_memory == 2' proposal.json
	plans '{gpu_count: 64}'
	jq -e '.offers == []' proposal.json
	plans '{places: [{country: "DE"}]}'
	jq -e '.offers == [] and .left_out.place == 2' proposal.json
	plans '{gpu_count: 3, nodes: 2}'
	error_is 422 "equal parts"
	# a misspelt wish is not passed over
	plans '{gpu_cuont: 1}'
	error_is 400 "gpu_cuont"
	plans '{disk_bytes: 100000000000, cpu_cores: 4, memory_bytes: 1000000000, tier: "low"}'
	jq -e '.offers == [] and .left_out.tier == 2' proposal.json
	jq -nc '{kind: "rnp.job", v: 1, job: "job"}' >job.json
	curl -s -Z --parallel-max 8 --data-binary @job.json -o 'plan.#1' "$url/v1/plans?[1-300]"
	jq -se 'length == 300 and all(.offers | length == 2)' plan.*
	assert_equal "$(sqlite3 registry.db 'SELECT count(*) FROM records, (SELECT count(*) FROM clusters)')" "$before"
	get /metrics
	(($(sed -n 's/^rnp_market_plans_total //p' answer.json) >= 300))
	# how long a node may be had is its own word
	plans '{exclude: ["'"$a"'"]}'
	books c '{hours: 3}'
	error_is 409 "not let for so long"
}

@test "market: a registry without one says so, and one that was killed knows its leases" {
	start_registry
	get /v1/account
	error_is 404 "has no market"
	stop_registry
	misused "--default-image" rnp-register serve --db x.db --listen 127.0.0.1:0 --default-image debian
	refused 64 "has no digest" rnp-register serve --db x.db --listen 127.0.0.1:0 --market --key /dev/null --default-image debian || true

	start_market
	sells a
	sells b
	make_key c
	pays c 5000000
	plans
	books c
	kill -9 "$server"
	ended "$server" || true
	start_market
	plans
	assert_equal "$(jq '.offers | length' proposal.json)" 1
	asks c "/v1/clusters/$cluster"
	assert_equal "$(jq -r .state answer.json)" reserved
	asks c /v1/account
	assert_equal "$(jq .held_uusd answer.json)" 525000
	post /v1/bookings booking.json
	assert_equal "$status_code" 200
}

@test "market: extend lengthens and raises, release of one rank leaves the rest" {
	start_market
	sells a
	sells b
	make_key c
	pays c 9000000
	plans '{gpu_count: 2, nodes: 2}'
	books c '{hours: 1}'
	assert_equal "$status_code" 201
	by c "{kind: \"rnp.action\", cluster: \"$cluster\", action: \"extend\", hours: 2}" >action.json
	post /v1/actions action.json
	assert_equal "$status_code" 200
	assert_equal "$(sqlite3 registry.db 'SELECT hours, limit_uusd FROM clusters')" "3|3150000"
	# the same wish is done once
	post /v1/actions action.json
	assert_equal "$status_code" 200
	assert_equal "$(sqlite3 registry.db 'SELECT hours FROM clusters')" 3
	by c "{kind: \"rnp.action\", cluster: \"$cluster\", action: \"release\", rank: 1}" >action.json
	post /v1/actions action.json
	jq -e '.nodes[0].state == "reserved" and .nodes[1].state == "released" and .held_uusd == 525000' answer.json
	by c "{kind: \"rnp.action\", cluster: \"$cluster\", action: \"extend\"}" >action.json
	post /v1/actions action.json
	error_is 422 "by how many hours"
	# what nobody can count is refused, and ends no registry
	for wish in 'budget_uusd: 9007199254740991' 'hours: 800000'; do
		by c "{kind: \"rnp.action\", cluster: \"$cluster\", action: \"extend\", $wish}" >action.json
		post /v1/actions action.json
	done
	error_is 422 "would cost more than there is"
	get /health
	assert_equal "$status_code" 200
}

@test "market: of offers at one price the one whose node has the image is first, and plan says so" {
	start_market
	sells a
	sells b 1 500000 '{images: ["sha256:\("0" * 64)", "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"]}'
	sells d 1 400000
	plans
	jq -e '[.offers[].nodes[0].node] as $n | $n == [$d, $b, $a]' --arg a "$a" --arg b "$b" --arg d "$d" proposal.json
	jq -e '[.offers[].nodes[0] | .image_there // false] == [false, true, false] and .offers[1].nodes[0].country == "SI"' proposal.json
	# whoever lists again without it has lost it
	lists b
	plans '{exclude: ["'"$d"'"]}'
	jq -e '[.offers[].nodes[0] | .image_there // false] == [false, false]' proposal.json
	lists a '{images: ["sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"]}'
	make_key c
	pays c 5000000
	rnp-register book --registry "$url" --key c.json --hours 1 job.json >booked 2>book.err
	grep -q '1 x RTX 4090 (SI), image there' book.err || fail "$(cat book.err)"
}

@test "market: status of a node that sells says so, or why customers are not offered it" {
	start_market
	sells a 2
	make_key c
	pays c 9000000
	status_of() { rnp-register status --registry "$url" --node "$a" >status; }
	status_of
	jq -e '.for_sale and .leases == 0 and .price_uusd == 500000 and (has("not_for_sale") | not)' status
	rnp-register --schema rnp.status >schema
	python3 -c 'import json, jsonschema
jsonschema.Draft202012Validator(json.load(open("schema"))).validate(json.load(open("status")))'
	plans '{gpu_count: 2}'
	books c
	status_of
	jq -e '.for_sale and .leases == 1' status
	fails() { # CUSTOMER [MORE]
		[[ $(jq .leases status) == 1 ]] || { plans '{gpu_count: 2}' && books "$1"; }
		says a 0 proving
		says a 0 failed "${2:-{cause: \"the disk broke\"\}}"
		[[ $status_code == 201 ]] || fail "$(cat answer.json)"
		status_of
	}
	# one customer cannot take a node off the market, nor can what is his own fault, which no spare is tried for
	for who in k l; do make_key $who && pays $who 9000000; done
	for who in c c c c k; do fails $who && jq -e .for_sale status; done
	for who in c k l l l; do
		fails $who '{cause: "no such image", fault: "customer"}'
		jq -e .for_sale status
		asks $who "/v1/clusters/$cluster"
		jq -e '.state == "failed" and (.cause | contains("has failed, and would on any node: no such image"))' answer.json
	done
	fails l
	jq -e '(.for_sale | not) and (.not_for_sale | startswith("three customers'"'"' starts on it failed within a day")) and .leases == 0' status
	# whoever does not sell reads nothing of it
	make_key d
	node_record d '{gpus: []}' >d.node
	post /v1/nodes d.node
	rnp-register status --registry "$url" --node "$d" | jq -e 'has("for_sale") | not'
	sells b
	signed b '{kind: "rnp.listing", until: $now, engine: "podman", cpu_cores: 8}' >b.listing
	post /v1/listings b.listing
	rnp-register status --registry "$url" --node "$b" |
		jq -e '.not_for_sale == "its agent (rnp-work.service) has ended, or cannot reach the registry"'
}

@test "market: a gateway that is trusted learns who may do what, as it changes" {
	make_key_there() { cd "$BATS_TEST_TMPDIR" && make_key gate && make_key other; }
	make_key_there
	start_market --trust "$gate"
	sells a
	sells b
	make_key c
	pays c 9000000
	ssh-keygen -q -t ed25519 -N '' -C 'me@home' -f one
	ssh-keygen -q -t ed25519 -N '' -f two
	gateway_record() {
		jq -nc --arg gateway "${!1}" --arg now "$(date -u +%FT%T.%3NZ)" --arg key "$(cut -d ' ' -f 1,2 one.pub)" \
			'{kind: "rnp.gateway", v: 1, gateway: $gateway, at: $now, host: "gate.example", port: 22, user: "rnp", host_key: $key}' |
			rnp-register sign --key "$1.json" >gateway.json
	}
	gateway_record other
	post /v1/gateways gateway.json
	error_is 403 "none of this registry"
	# what a registry says one can do is said by every program
	refused 77 "none of this registry's (the registry's operator names its gateways, by serve --trust)" \
		rnp-register submit --registry "$url" gateway.json
	gateway_record gate
	run_split rnp-register submit --registry "$url" gateway.json
	assert_success
	get /v1/gateways
	jq -c '.gateways[0]' answer.json | rnp-register verify --quiet
	jq -e --arg r "$REGISTRY" '.gateways[0] | .signer == $r and .host == "gate.example"' answer.json
	asks c /v1/access
	error_is 403 "is no gateway"

	plans '{gpu_count: 2, nodes: 2}'
	books c "{ssh_keys: [\"$(cat one.pub)\"]}"
	assert_equal "$status_code" 201
	numbers=$(jq -c '[.nodes[].number]' answer.json)
	asks gate /v1/access
	cp answer.json access.json
	jq -e --argjson n "$numbers" --arg key "$(cut -d ' ' -f 1,2 one.pub)" '(.nodes | length == 2) and
		.nodes[0].numbers == [$n[0]] and .nodes[0].peers == [$n[1]] and .customers == [{key: $key, numbers: $n}]' access.json
	# it is what a gateway takes
	jq -c . access.json >table.json
	rnp-register --schema rnp.access >/dev/null

	# a key that is taken back, and one that is given, are told at once
	at="$url/v1/access?wait=25&after=$(jq .seq access.json)"
	sign_request gate.json GET "$at" >signed.headers
	curl -s -H @signed.headers "$at" >waited.json &
	waiter=$!
	waiting() { get /metrics && grep -qx 'rnp_market_waiting 1' answer.json; }
	wait_until 'it waits' waiting
	by c "{kind: \"rnp.action\", cluster: \"$cluster\", action: \"keys\", ssh_keys: [\"$(cat two.pub)\"]}" >action.json
	post /v1/actions action.json
	assert_equal "$status_code" 200
	wait "$waiter"
	jq -e --arg key "$(cut -d ' ' -f 1,2 two.pub)" '[.customers[].key] == [$key]' waited.json
	by c "{kind: \"rnp.action\", cluster: \"$cluster\", action: \"release\"}" >action.json
	post /v1/actions action.json
	asks gate /v1/access
	jq -e '.nodes == [] and .customers == []' answer.json
}

@test "market: devices are proven before a customer has them, and left alone while he does" {
	start_market --challenge-every 1s
	make_key a
	node_record a '{}' >a.node
	post /v1/nodes a.node
	quotes a 100000
	beat() { rnp-register heartbeat --registry "$url" --once --interval 1h --key a.json; }
	challenged() { beat >beat.json && jq -se 'any(.kind == "rnp.challenge")' beat.json; }
	lists a
	make_key c
	pays c 5000000
	wait_until 'a challenge' challenged
	plans '{gpu_count: 0}'
	books c
	assert_equal "$status_code" 201
	says a 0 proving
	assert_equal "$status_code" 201
	assert_equal "$(jq -r .state answer.json)" proving
	says a 0 pulling
	error_is 409 "cannot become pulling"
	jq -c 'select(.kind == "rnp.challenge")' beat.json | rnp-bench answer --key a.json |
		rnp-register submit --registry "$url" >verdict.json
	proven() { asks c "/v1/clusters/$cluster" && [[ $(jq -r .state answer.json) == pulling ]]; }
	wait_until 'the verdict to count' proven
	jq -e '.nodes[0].cause == "its devices are proven"' answer.json
	# a customer has them: whatever is due waits
	local i
	for i in 1 2 3 4; do
		sleep 1
		run ! challenged
	done
	by c "{kind: \"rnp.action\", cluster: \"$cluster\", action: \"release\"}" >action.json
	post /v1/actions action.json
	seq=9
	says a 0 released
	assert_equal "$status_code" 201
	wait_until 'the next challenge' challenged
}
