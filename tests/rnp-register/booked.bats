# The market as a whole: a registry, a node's agent and a customer, each the real program, with real containers. They stand in a
# network namespace with nothing but loopback.
load ../helper
load registry
load containers
load sign
load market
load booked

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

@test "booked: ranks reach each other on ports that nobody declared, and a session is what makes them ready" {
	gateway
	node n
	node m 900000
	cat >job.yaml <<-'E'
		num_nodes: 2
		resources: {cpus: 1, memory: 0.125, disk_size: 0.0625}
		run: |
		  first=$(echo "$SKYPILOT_NODE_IPS" | head -n 1)
		  if [ "$SKYPILOT_NODE_RANK" = 0 ]; then
		    echo "the word is swordfish" | nc -l -p 12355
		  else
		    until word=$(nc "$first" 12355 </dev/null) && [ -n "$word" ]; do sleep 0.2; done
		    echo "heard: $word"
		  fi
	E
	launch job.yaml || said "launch ended with $?: $(tail -n 5 gateway.err)"
	grep -q '^\[1\] heard: the word is swordfish' err || said "nothing was heard"
	assert_equal "$(grep -c 'ready: the container runs, and a session in it began' err)" 2
	wait_until "an empty machine" nothing_left
	assert_equal "$(find "$RUN"/*/ssh -mindepth 1)" ''
}
