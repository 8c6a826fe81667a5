# Failures: a node dies, a container is killed, a run ends with an error. What takes over goes on from what was kept.
load ../helper
load registry
load containers
load sign
load market
load booked

# beats NODE SECONDS: heartbeats, each promising the next
beats() {
	"${IN_MACHINE[@]}" rnp-register heartbeat --registry "$url" --key "$1.json" --interval "$2s" --state-from "$1.state" 2>"$1.beats" 3>&- &
	beats+=($!)
	printf -v "beat_$1" '%s' "$!"
}

# follows: launches in the background, and returns once $cluster is booked
follows() {
	"${IN_MACHINE[@]}" rnp-register launch --registry "$url" --key c.json "$@" >out 2>err 3>&- &
	launched=$!
	agents+=("$launched")
	is_booked() { grep -q '^rnp-register: booked' err || process_is_gone "$launched"; }
	wait_until "a booking" is_booked
	cluster=$(sed -n 's/^rnp-register: booked  //p' err)
	[[ $cluster ]] || said "nothing was booked"
}

# ends_with CODE
ends_with() {
	local code=0
	ended "$launched" || code=$?
	[[ $code == "$1" ]] || said "launch ended with $code"
}

# node_of RANK: the name of the node that has it
node_of() {
	local name address
	address=$(rnp-register clusters --registry "$url" --key c.json "$cluster" | jq -r ".nodes | map(select(.rank == $1)) | last.node")
	for name in n m s; do [[ ${!name:-} != "$address" ]] || echo "$name"; done
}

# was_told JQ: an event of the cluster says so
was_told() {
	asks c "/v1/events?cluster=$cluster" && jq -e "[.events[].event | select($1)] | length > 0" answer.json >/dev/null
}

# kill_container NODE: all that runs in its leases, and what watches it, at once
kill_container() {
	local point
	for point in /proc/[0-9]*; do
		# its root is a folder of the lease's disk
		! grep -qs " / / .*upperdir=$BOX/$1/" "$point/mountinfo" || kill -9 "${point#/proc/}" 2>/dev/null || true
	done
	pkill -9 -f "conmon .*$RUN/$1/l/" || true
}

@test "recover: a node dies, whoever speaks to it fails, and a spare goes on from what it kept" {
	gateway
	node n 700000
	node m 800000
	node s 820000
	beats n 5
	beats m 60
	beats s 60
	cat >job.yaml <<-'E'
		num_nodes: 2
		resources: {cpus: 1, memory: 0.125, disk_size: 0.0625}
		artifacts: {paths: [count], every: 10s}
		run: |
		  n=$(cat count 2>/dev/null || echo 0)
		  echo "begins at $n, restart $RNP_RESTART"
		  first=$(echo "$SKYPILOT_NODE_IPS" | head -n 1)
		  if [ "$SKYPILOT_NODE_RANK" = 0 ]; then
		    if [ "$RNP_RESTART" -gt 0 ]; then echo "went on at $n" | nc -l -p 12355; sleep 2; exit; fi
		    while :; do
		      n=$((n + 1)); echo $n >count.part; mv count.part count
		      echo "it is $n" | nc -l -p 12355
		    done
		  else
		    while :; do
		      tries=0
		      until word=$(nc -w 5 "$first" 12355 </dev/null 2>/dev/null) && [ -n "$word" ]; do
		        tries=$((tries + 1))
		        [ $tries -lt 100 ] || exit 9
		        sleep 0.1
		      done
		      if [ "$RNP_RESTART" -gt 0 ]; then echo "heard: $word"; exit; fi
		    done
		  fi
	E
	follows job.yaml
	wait_until "what rank 0 kept" was_told '.rank == 0 and .artifacts'
	victim=$(node_of 0)
	assert_equal "$victim" n
	began=$EPOCHREALTIME
	kill -9 "${agents[0]}" "$beat_n"
	kill_container n
	wait_until "the failure is noticed" was_told '.rank == 0 and .to == "replaced"'
	noticed=$EPOCHREALTIME
	wait_until "the spare is ready" was_told '.rank == 0 and .to == "ready" and .from == "starting" and .node == "'"$s"'"'
	echo "# noticed after $(bc <<<"$noticed - $began") s, ready after $(bc <<<"$EPOCHREALTIME - $noticed") s" >&3
	ends_with 0
	jq -e '.state == "done" and .exit == 0 and .restarts == 1' out || said "$(cat out)"
	grep -q '^\[0\] begins at 0, restart 0' err || said "it did not begin"
	at=$(sed -n 's/^\[0\] begins at \([0-9]*\), restart 1/\1/p' err)
	((at > 0)) || said "rank 0 began anew"
	grep -q "^\[1\] heard: went on at $at" err || said "nothing was heard"
	rnp-register invoice --check --registry "$url" --key c.json "$cluster" >invoice || said "the bill is wrong"
	jq -e '(.nodes | length) == 3 and .uusd == ([.nodes[].uusd] | add) and all(.nodes[]; .ready_ms > 0)' invoice || said "$(cat invoice)"
	wait_until "an empty machine" nothing_left n
}

@test "recover: with continue the others go on, and learn who has the rank of one that was killed" {
	node n 700000
	node m 800000
	node s 820000
	cat >job.yaml <<-'E'
		num_nodes: 2
		resources: {cpus: 1, memory: 0.125, disk_size: 0.0625}
		on_node_failure: continue
		run: |
		  echo "rank $SKYPILOT_NODE_RANK begins, restart $RNP_RESTART"
		  if [ "$SKYPILOT_NODE_RANK" = 0 ]; then
		    until grep -q '^1 .* 0$' /run/rnp/nodes; do sleep 0.1; done
		    while grep -q '^1 .* 0$' /run/rnp/nodes; do sleep 0.1; done
		    until grep -q '^1 .* 1$' /run/rnp/nodes; do sleep 0.1; done
		    echo "learned"
		  elif [ "$RNP_RESTART" = 0 ]; then sleep 1000
		  fi
	E
	follows job.yaml
	begins() { grep -q '^\[1\] rank 1 begins' err && grep -q '^\[0\] rank 0 begins' err; }
	wait_until "both run" begins
	kill_container "$(node_of 1)"
	ends_with 0
	jq -e '.state == "done" and .exit == 0 and .restarts == 1' out || said "$(cat out)"
	assert_equal "$(grep -o '^\[.\] rank . begins, restart .' err | sort | paste -sd,)" \
		"[0] rank 0 begins, restart 0,[1] rank 1 begins, restart 0,[1] rank 1 begins, restart 1"
	grep -q '^\[0\] learned' err
	rnp-register invoice --check --registry "$url" --key c.json "$cluster" >invoice || said "the bill is wrong"
	wait_until "an empty machine" nothing_left
}

@test "recover: a run that fails begins again as often as its file says, on all ranks, and then no more" {
	node n 700000
	node m 800000
	cat >job.yaml <<-'E'
		num_nodes: 2
		resources: {cpus: 1, memory: 0.125, disk_size: 0.0625, job_recovery: {max_restarts_on_errors: 1, recover_on_exit_codes: [33]}}
		run: |
		  echo "rank $SKYPILOT_NODE_RANK begins, restart $RNP_RESTART"
		  if [ "$SKYPILOT_NODE_RANK" = 0 ]; then sleep 1000; fi
		  case $RNP_RESTART in
		  0) exit 33 ;;
		  1) exit 7 ;;
		  *) exit 8 ;;
		  esac
	E
	follows job.yaml
	ends_with 1
	# 33 is not counted, 7 is, and 8 would be one too many; the other rank ends whether it has begun or not
	jq -e '.state == "failed" and .exit == 8 and .restarts == 2' out || said "$(cat out)"
	assert_equal "$(grep -o 'rank 1 begins, restart .' err | sort | paste -sd,)" \
		"rank 1 begins, restart 0,rank 1 begins, restart 1,rank 1 begins, restart 2"
	grep -q 'run of rank 1 ended with 7: it begins again' err
	rnp-register invoice --check --registry "$url" --key c.json "$cluster" >invoice || said "the bill is wrong"
	wait_until "an empty machine" nothing_left
}
