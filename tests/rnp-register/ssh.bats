# ssh.bats - a registry, a gateway, a node and a customer: who may do what goes from a booking to the gateway, and `rnp-register ssh`
# and plain ssh go the way of it. Host keys come from signed records alone.
load ../helper
load registry
load sign
load market
load gateway
load session

setup_file() {
	missing=$(session_missing)
	[[ -z $missing ]] || return 0
	make_image
}

setup() {
	missing=$(session_missing)
	[[ -z $missing ]] || skip "SSH NOT TESTED: ${missing//$'\n'/, }"
	cd "$BATS_TEST_TMPDIR" || return
	chmod 755 .
	machine_up
	# the registry is on the machine, too
	SERVE_UNDER=(nsenter -t "$machine" -n --)
	rnp-register keygen --out gate-key.json >/dev/null
	cp gate-key.json "/proc/$machine/root/mnt/state/key.json"
	chown 65533:65533 "/proc/$machine/root/mnt/state/key.json"
	make_ssh_key a
}
teardown() {
	stop_registry || true
	sessions_down
	machine_down
}

# The test's own requests are made on the machine
curl() { on "$(type -P curl)" "$@"; }
rnp() { on env XDG_CACHE_HOME="$BATS_TEST_TMPDIR/cache" HOME="$BATS_TEST_TMPDIR" "$RNP_BUILD/bin/rnp-register" "$@"; }

@test "ssh: from a booking to a command on its node, and not after its end" {
	start_market --trust "$(rnp-register address --key gate-key.json)"
	on setpriv --reuid 65533 --regid 65533 --clear-groups /mnt/bin/rnp-register gateway --dir /mnt/state --listen 127.0.0.1:2222 \
		--registry "$url" --key /mnt/state/key.json >gateway.json 2>>gateway.err 3>&- &
	wait_until "the gateway" table_is_there
	know_gateway
	rnp-register keygen --out host-n.json >/dev/null
	sells n 1 500000 "{host_key: \"$(ssh_public host-n.json)\"}"
	make_key c
	pays c 5000000
	plans '{gpu_count: 1}'
	books c "{ssh_keys: [\"$(cat a.pub)\"]}"
	assert_equal "$status_code" 201
	asks n '/v1/work?after=0'
	number=$(jq '.work[0].number' answer.json)
	jq -e --arg n "$n" '.work[0].peers[0] | .listing.node == $n and .ssh == "127.1.0.1" and (.address | startswith("10."))' answer.json
	# the public list is signed by the registry; who may do what is the gateway's alone
	get /v1/gateways
	jq -c '.gateways[0]' answer.json | rnp-register verify --quiet
	asks c /v1/access
	assert_equal "$status_code" 403
	asks gate-key /v1/access
	jq -e --arg n "$n" '(.nodes | length == 1) and .nodes[0].node == $n and .nodes[0].numbers == [1] and (.customers | length == 1)' answer.json

	start_lease n "$number"
	start_container n
	run rnp ssh --registry "$url" --key c.json --identity a "$cluster" -- sh -c "'hostname; exit 3'"
	assert_failure 3
	assert_line box
	rnp ssh --registry "$url" --key c.json --identity a --config "$cluster" >fragment
	run on ssh -F fragment -o BatchMode=yes "${cluster:0:8}" hostname
	assert_output box
	echo "some bytes" >file
	on scp -q -F fragment file "${cluster:0:8}-0:/tmp/file"
	run on ssh -F fragment "$cluster-0" cat /tmp/file
	assert_output "some bytes"
	# whose host key is another's is not logged in to
	rnp-register keygen --out other.json >/dev/null
	lists n "{host_key: \"$(ssh_public other.json)\"}"
	run rnp ssh --registry "$url" --key c.json --identity a "$cluster" hostname
	assert_failure 255
	assert_output --partial "Host key verification failed"
	# a listing that the node has not signed, a rank that is not there, another's cluster
	refused 69 "has no node of rank 5" rnp ssh --registry "$url" --key c.json --rank 5 "$cluster"
	make_key d
	refused 1 "" rnp ssh --registry "$url" --key d.json "$cluster"
	# open sessions end with the lease
	to -N -L 9000:127.0.0.1:1 n 3>&- &
	open=$!
	wait_until "a session" on sh -c 'ss -Hltn src 127.0.0.1:9000 | grep -q LISTEN'
	by c "{kind: \"rnp.action\", cluster: \"$cluster\", action: \"release\"}" >action.json
	post /v1/actions action.json
	says n 0 released
	SECONDS=0
	fails "$open"
	((SECONDS <= 60)) || fail "it took $SECONDS s" # 10 where there is time
	wait_until "silence" not_listening 127.1.0.1
	asks gate-key /v1/access
	jq -e '.nodes == [] and .customers == []' answer.json
}
