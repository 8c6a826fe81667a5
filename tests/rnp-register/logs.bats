# What ranks print: to the registry as they go, and from there to the customer.
load ../helper
load registry
load sign
load market

teardown() {
	stopped_with=0
	stop_registry
	((stopped_with == 0)) || { cat serve.err; return 1; }
}

# prints NODE RANK OFFSET FILE: its bytes from there on
prints() {
	sign_request "$1.json" POST "$url/v1/logs/$cluster/$2?offset=$3" >signed.headers
	status_code=$(curl -s -o answer.json -w '%{http_code}' -H @signed.headers --data-binary "@$4" "$url/v1/logs/$cluster/$2?offset=$3")
}

logs() {
	rnp-register logs --registry "$url" --key "$1.json" "${@:2}"
}

@test "logs: lines of all ranks, harmless, also after the node is gone" {
	start_market
	sells a
	sells b
	make_key c
	pays c 9000000
	plans '{nodes: 2, gpu_count: 2}'
	books c
	assert_equal "$status_code" 201
	mapfile -t nodes < <(jq -r '.nodes[].node' answer.json)
	[[ ${nodes[0]} == "$a" ]] && name=(a b) || name=(b a)
	becomes_ready "${name[0]}" 0
	becomes_ready "${name[1]}" 1

	printf 'step 1\n\033]0;mine\007step \033[31m2\033[0m\r\nstep' >first
	printf ' 3\n' >second
	printf 'other\n' >third
	prints "${name[0]}" 0 0 first
	assert_equal "$status_code" 200
	prints "${name[1]}" 1 0 third
	# who has another rank, or none
	prints "${name[1]}" 0 6 third
	assert_equal "$status_code" 404
	prints c 0 6 third
	assert_equal "$status_code" 404

	logs c --follow "$cluster" >followed &
	follower=$!
	wait_until "what was printed" grep -q other followed
	prints "${name[0]}" 0 "$(stat -c %s first)" second
	wait_until "what is printed" grep -q 'step 3' followed
	by c "{kind: \"rnp.action\", cluster: \"$cluster\", action: \"release\"}" >action.json
	post /v1/actions action.json
	says "${name[0]}" 0 released
	says "${name[1]}" 1 released
	ended "$follower"

	assert_equal "$(grep '^\[0\]' followed)" $'[0] step 1\n[0] ^[]0;mine^Gstep 2\n[0] step 3'
	assert_equal "$(grep '^\[1\]' followed)" '[1] other'
	# the nodes are gone; what they printed is there
	assert_equal "$(logs c --rank 1 "$cluster")" other
	assert_equal "$(logs c "$cluster" | sort)" "$(sort followed)"
	make_key d
	refused 1 "is not" logs d "$cluster"
	refused 1 "no such cluster" logs c 0123
}
