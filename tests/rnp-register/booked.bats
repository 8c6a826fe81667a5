# The market as a whole: a registry, a node's agent and a customer, each the real program, with real containers. They stand in a
# network namespace with nothing but loopback.
load ../helper
load registry
load containers
load sign
load market
load booked

# put_blob KEY TEXT: prints its hash; the registry has it
put_blob() {
	local sha
	printf %s "$2" >blob
	sha=$(sha256sum <blob | cut -d' ' -f1)
	sign_request "$1.json" PUT "$url/v1/blobs/$sha" >signed.headers
	curl -sf -X PUT -H @signed.headers --data-binary @blob "$url/v1/blobs/$sha" >/dev/null || return
	echo "$sha"
}

is_offered() { plans "$1" && jq -e '.offers | length == 1' proposal.json >/dev/null; }

cluster_is() {
	asks c "/v1/clusters/$cluster"
	[[ $(jq -r .state answer.json) == "$1" ]]
}

@test "booked: a work directory runs in a container, what it prints and its code come home, and the bill is right" {
	node n
	mkdir -p work/part
	echo 'from the file' >work/part/word
	echo secret >work/.hidden
	echo '*.tmp' >work/.rnpignore
	touch work/left.tmp
	cat >job.yaml <<-'E'
		name: hello
		workdir: work
		resources: {cpus: 1, memory: 0.125, disk_size: 0.0625}
		envs: {WORD: 'a b"c'}
		setup: echo "set up" >made
		run: |
		  cat made part/word
		  echo "rank $SKYPILOT_NODE_RANK of $SKYPILOT_NUM_NODES, $WORD"
		  ls -A | tr '\n' ' '
		  sleep 2
		  exit 3
	E
	code=0
	launch --exit-code job.yaml || code=$?
	[[ $code == 3 ]] || said "launch ended with $code"
	cluster=$(jq -r .cluster out)
	jq -e '.state == "failed" and .exit == 3 and .restarts == 0' out || said "$(cat out)"
	assert_equal "$(rnp-register logs --registry "$url" --key c.json "$cluster" | sed 's/^[^ ]* *//' | paste -sd'|')" \
		'set up|from the file|rank 0 of 1, a b"c|.hidden .rnpignore made part '
	# what the agent saw of two seconds: a busy machine looks seldom
	rnp-register invoice --check --registry "$url" --key c.json "$cluster" >invoice || said "the bill is wrong"
	jq -e '.nodes[0].ready_ms > 0 and .uusd == (825000 * .nodes[0].ready_ms / 3600000 | floor) and
		.uusd == .nodes[0].node_uusd + .fee_uusd' invoice || said "$(cat invoice)"
	rnp-register account --registry "$url" --key c.json >account
	assert_equal "$(jq -r '"\(.balance_uusd) \(.held_uusd)"' account)" "$((50000000 - $(jq .uusd invoice))) 0"
	wait_until "an empty machine" nothing_left
	assert_equal "$(cat n.state)" idle
}

@test "booked: two nodes begin together, and where one fails the other ends too" {
	node n
	node m 900000
	cat >job.yaml <<-'E'
		num_nodes: 2
		resources: {cpus: 1, memory: 0.125, disk_size: 0.0625}
		run: |
		  echo "rank $SKYPILOT_NODE_RANK of $SKYPILOT_NUM_NODES"
		  while [ ! -e on ]; do sleep 0.1; done
		  exit 7
	E
	launch job.yaml &
	launched=$!
	# one may be over before the other has begun: it waits to be told
	both() { [[ $(grep -o '^\[[01]\] rank . of 2' err | sort | paste -sd,) == "[0] rank 0 of 2,[1] rank 1 of 2" ]]; }
	wait_until "both ranks" both
	touch "$(echo "$BOX"/*/volumes/*-1-0/data/work)/on"
	code=0
	wait "$launched" || code=$?
	[[ $code == 1 ]] || said "launch ended with $code"
	jq -e '.exit == 7 and .state == "failed"' out || said "$(cat out)"
	wait_until "an empty machine" nothing_left
}

@test "booked: ranks reach each other on ports that nobody declared, and a session is what makes them ready; nobody has their secrets" {
	local canary=k7Qz0vXw9-canary launched pids cluster
	gateway
	node n
	node m 900000
	cat >job.yaml <<-'E'
		num_nodes: 2
		secrets: {TOKEN: null}
		resources: {cpus: 1, memory: 0.125, disk_size: 0.0625}
		run: |
		  echo "$TOKEN" >token
		  first=$(echo "$SKYPILOT_NODE_IPS" | head -n 1)
		  if [ "$SKYPILOT_NODE_RANK" = 0 ]; then
		    echo "the word is swordfish" | nc -l -p 12355
		  else
		    until word=$(nc "$first" 12355 </dev/null) && [ -n "$word" ]; do sleep 0.2; done
		    echo "heard: $word, of ${#TOKEN} letters"
		  fi
		  while [ ! -e on ]; do sleep 0.1; done
	E
	TOKEN=$canary launch --secret TOKEN job.yaml &
	launched=$!
	wait_until "the word" grep -q '^\[1\] heard: the word is swordfish, of 16 letters' err
	# a key that the customer names later opens the gateway and the node
	ssh-keygen -q -t ed25519 -N '' -f late
	cluster=$(rnp-register clusters --registry "$url" --key c.json | jq -r .cluster)
	rnp-register keys --registry "$url" --key c.json --ssh-key late.pub "$cluster" >keys.json
	came_in() { [[ $(rnp-register ssh --registry "$url" --key c.json --identity late --rank 1 "$cluster" -- echo in 2>>ssh.err) == in ]]; }
	wait_until "a session with a new key" came_in
	# neither in files nor in memory of registry, gateway and nodes, but where the containers read it
	holds_none() {
		assert_equal "$(find "$BATS_TEST_TMPDIR" "$BOX" -xdev -type f -exec grep -l "$canary" {} +)" ""
		assert_equal "$(python3 "$ROOT/tests/tools/holds.py" "$canary" "$@")" ""
	}
	pids=$(pgrep -f "(rnp-register|conmon|podman|sshd?) .*($BOX|$RUN)")
	[[ -n $(python3 "$ROOT/tests/tools/holds.py" "$canary" "$launched") ]] # who has it is found
	ln "$BOX"/n/volumes/*.img "$BOX/kept"
	# shellcheck disable=SC2086 # words are processes
	holds_none "$server" "$gateway" "${agents[@]}" $pids
	assert_equal "$(grep -rl "$canary" "$RUN" | sed 's|.*/||' | sort -u)" env
	cat "$RUN"/n/l/*/own/in/env >/dev/null
	run ! setpriv --reuid 65534 --clear-groups cat "$RUN"/n/l/*/own/in/env
	for work in "/proc/$users/root$BOX"/*/volumes/*/data/work; do touch "$work/on"; done
	wait "$launched" || said "launch ended with $?: $(tail -n 5 gateway.err)"
	assert_equal "$(grep -c 'ready: the container runs, and a session in it began' err)" 2
	wait_until "an empty machine" nothing_left
	assert_equal "$(find "$RUN"/*/ssh -mindepth 1)" ''
	holds_none "$server" "$gateway" "${agents[@]}"
	run ! grep -r "$canary" "$RUN"
}

@test "market: a booked container runs on a node, its exit code arrives, its log is read, and its time is paid" {
	node n
	wait_until "an offer" is_offered '{gpu_count: 0, cpu_cores: 1, memory_bytes: 134217728, disk_bytes: 67108864}'
	run_sha=$(put_blob c 'echo "hello, $RNP_CLUSTER"; sleep 2; exit 3')
	books c "{hours: 1, image: \"$REAL_IMAGE\", run_sha256: \"$run_sha\"}"
	assert_equal "$status_code" 201
	wait_until "its end" cluster_is released
	asks c "/v1/events?cluster=$cluster"
	# less than the two seconds that it slept, by one look; a busy machine makes more of them
	jq -e '[.events[].event | select(.exit == 3)] | length == 1' answer.json || said "$(cat answer.json)"
	jq -e '[.events[].event.ready_ms // 0] | max | . >= 1500 and . < 60000' answer.json || said "$(cat answer.json)"
	asks c "/v1/clusters/$cluster"
	jq -e '.spent_uusd >= 300' answer.json || said "$(cat answer.json)"
	asks c "/v1/logs/$cluster/0"
	grep -q "hello, rnp-$cluster" answer.json || said "$(cat answer.json)"
}

@test "launch: a job file runs on a real node, with its files, variables and secrets, and its lines are seen" {
	node n
	mkdir -p job conf
	echo 'from the work directory' >job/hello
	echo 'from a mount' >conf/there
	cat >job.yaml <<-END
		name: hello
		workdir: job
		envs: {GREETING: "it's"}
		secrets: {TOKEN: null}
		file_mounts: {~/conf: conf}
		resources: {cpus: 1, memory: 0.128, disk_size: 64MB, image_id: "docker:$REAL_IMAGE"}
		artifacts: {paths: [made, /tmp/log, ~/notes, nowhere]}
		setup: echo setup ran
		run: |
		  echo "\$GREETING \$(cat hello) \$(cat ~/conf/there)"
		  echo "rank \$SKYPILOT_NODE_RANK of \$SKYPILOT_NUM_NODES, \${#TOKEN} letters"
		  mkdir -p made/deep && echo kept >made/deep/file && echo a line >/tmp/log && echo note >~/notes
		  # a folder that has become a link leads the agent nowhere
		  rm -rf /run/rnp-out/artifacts && ln -s /etc /run/rnp-out/artifacts && echo 77 >/run/rnp-out/collected
		  sleep 1
		  rm /run/rnp-out/artifacts
		  exit 5
	END
	TOKEN=k7Qz0vXw9 run_split rnp-register launch --registry "$url" --key c.json --hours 1 --secret TOKEN --exit-code job.yaml
	echo "$stderr" >launched.err
	[[ $status == 5 ]] || { echo "$stderr"; said "$status"; }
	jq -e '.state == "failed" and .exit == 5 and .uusd > 0 and .seconds.ready >= 0' <<<"$output" || said "$output"
	kept=$(jq -r '.artifacts[0].path' <<<"$output")
	assert_equal "$kept $(cat "$kept/work/made/deep/file" "$kept/root/tmp/log" "$kept/root/root/notes" | tr '\n' ' ')" \
		"artifacts/$(jq -r .cluster <<<"$output")/0 kept a line note "
	grep -q '^\[0\] setup ran$' launched.err
	grep -q "^\[0\] it's from the work directory from a mount\$" launched.err
	grep -q '^\[0\] rank 0 of 1, 9 letters$' launched.err
	asks c "/v1/events?cluster=$(jq -r .cluster <<<"$output")"
	jq -e '[.events[].event | select(.artifacts)] | length == 1' answer.json || said "$(cat answer.json)"
	run ! grep -rqa k7Qz0vXw9 "$BATS_TEST_TMPDIR" "$BOX" --exclude=launched.err
}
