# Files for operators: systemd units, dashboard.
load ../helper

@test "ops: every metric of the dashboard is one that the registry serves" {
	cd "$BATS_TEST_TMPDIR"
	rnp-register serve --db r.db --listen 127.0.0.1:0 --port-file port 2>log 3>&- &
	echo $! >pids
	wait_file port
	curl -s "http://127.0.0.1:$(cat port)/metrics" >metrics
	kill "$(<pids)"
	ended "$(<pids)"
	for metric in $(jq -r '.panels[].targets[].expr' "$ROOT/scripts/grafana-dashboard.json" |
		grep -o 'rnp_[a-z_]*' | sort -u); do
		grep -q "^# TYPE ${metric%_bucket} " metrics || fail "the registry has no $metric"
	done
}

@test "ops: systemd accepts the units" {
	command -v systemd-analyze >/dev/null || skip "no systemd-analyze"
	# the programs are not installed where the units look for them, and only that may be
	# reported
	run systemd-analyze verify --man=no "$ROOT"/scripts/systemd/*.{service,timer}
	refute_line --regexp 'Unknown|Failed to parse|Invalid|ignoring'
}

# processes that a failed test has left behind
teardown() {
	if [[ -s $BATS_TEST_TMPDIR/pids ]]; then
		# shellcheck disable=SC2046 # several
		kill -TERM -- $(cat "$BATS_TEST_TMPDIR/pids") 2>/dev/null || true
	fi
}

# unit_command UNIT: prints its ExecStart as systemd would run it, with the programs of this
# build
unit_command() {
	awk '/^ExecStart=/ { on = 1; sub(/^ExecStart=/, "") } on { more = sub(/\\$/, ""); printf "%s", $0; if (!more) exit }' \
		"$ROOT/scripts/systemd/$1" | sed "s|/usr/local/bin/|$RNP_BUILD/bin/|g"
}

# leads_session PID: whether setsid(1) has begun
leads_session() {
	local stat
	read -r -a stat <"/proc/$1/stat"
	((stat[5] == $1))
}

@test "ops: the units' commands register a node, keep it alive and pass its challenges" {
	cd "$BATS_TEST_TMPDIR"
	export CREDENTIALS_DIRECTORY=$PWD
	rnp-register keygen --out key
	rnp-register keygen --out registry.key
	rnp-register serve --db r.db --listen 127.0.0.1:0 --port-file port --key registry.key --challenge-every 1s 2>log 3>&- &
	local registry=$!
	wait_file port
	export RNP_REGISTRY=http://127.0.0.1:$(cat port) RNP_DETECT='--label country=DE'
	eval "$(unit_command rnp-node.service)"
	rnp-register status --key key | jq -e '.online == false and (.next | startswith("no heartbeats"))'
	# the same pipe, with a heartbeat each second
	unit_command rnp-heartbeat.service | sed 's/heartbeat --/heartbeat --interval 1s --/' >node.sh
	# Restart=always
	setsid bash -c 'while :; do bash node.sh; sleep 1; done' >node.log 2>&1 3>&- &
	local node=$! nice
	echo "-$node $registry" >pids
	# with the unit's priority, where that is allowed (see tests/soak/busy)
	nice=$(sed -n 's/^Nice=//p' "$ROOT/scripts/systemd/rnp-heartbeat.service")
	# before it has a session of its own, the priority would be that of all tests, and stay
	wait_until "a session of the node's" leads_session "$node"
	echo "$nice" 2>/dev/null >"/proc/$node/autogroup" || renice -n "$nice" -g "$node" >/dev/null 2>&1 || true
	for _ in {1..240}; do
		rnp-register status --key key >status
		if jq -e '.challenges_passed > 0' status >/dev/null; then break; fi
		sleep 0.5
	done
	kill -TERM -- "-$node"
	ended "$node" || true
	kill "$registry"
	ended "$registry" || true
	jq -e '.challenges_passed > 0 and .online and .challenges_failed == 0 and .pool.country == "DE"' status || {
		tail -n 20 status node.log log
		false
	}
}

@test "ops: a heartbeat or a fact that fails is how its unit ends, so that what a person has to mend is not tried for ever" {
	cd "$BATS_TEST_TMPDIR"
	export CREDENTIALS_DIRECTORY=$PWD RNP_REGISTRY=http://127.0.0.1:1
	grep -q '^RestartPreventExitStatus=.*77' "$ROOT/scripts/systemd/rnp-heartbeat.service"
	rnp-register keygen --out key
	chmod 644 key
	unit_command rnp-heartbeat.service >beat
	run -77 bash beat
	chmod 600 key
	unit_command rnp-node.service >facts
	grep -q '^TimeoutStartSec=' "$ROOT/scripts/systemd/rnp-node.service"
	run -64 env RNP_DETECT='--label nonsense' bash facts
}

@test "ops: without credentials (LXC, old systemd) each unit says so, and is not tried for ever" {
	cd "$BATS_TEST_TMPDIR"
	local unit n=0
	for unit in $(grep -l 'CREDENTIALS_DIRECTORY/' "$ROOT"/scripts/systemd/*.service); do
		unit=${unit##*/}
		[ "$unit" != rnp-price.service ] || continue # markets that need none have none
		unit_command "$unit" | sed 's/%%/%/g' >command
		for place in "" "$PWD/empty"; do
			run -77 env CREDENTIALS_DIRECTORY=$place STATE_DIRECTORY=$PWD bash command
			assert_line --regexp '^no credential [a-z]+: LoadCredential='
		done
		n=$((n + 1))
	done
	[ "$n" = 6 ]
}

@test "ops: the registry's unit makes a key, challenges, and goes on with key and records after a restart" {
	cd "$BATS_TEST_TMPDIR"
	mkdir state
	sed "s|/usr/local/bin/|$RNP_BUILD/bin/|; s|/var/lib/rnp-registry|$PWD/state|; s|127.0.0.1:8787|127.0.0.1:0 --port-file port|" \
		"$ROOT/scripts/systemd/rnp-registry.service" | sed -e ':a' -e '/\\$/N; s/\\\n//; ta' >unit
	export RNP_REGISTRY_OPTIONS='--challenge-every 1h --policy rnp-021'
	for start in 1 2; do
		rm -f port
		bash -e -c "$(sed -n 's/^ExecStartPre=//p' unit)"
		# systemd splits the variable at blanks, as the shell does
		bash -c "exec $(sed -n 's/^ExecStart=//p' unit)" 2>log 3>&- &
		echo $! >pids
		wait_file port
		if [[ $start == 1 ]]; then
			rnp-register keygen --out node.json >/dev/null
			rnp-register detect --key node.json --name n | rnp-register sign --key node.json |
				rnp-register submit -q --registry "http://127.0.0.1:$(<port)" >stored
			cp state/key.json before
		fi
		assert_equal "$(rnp-register list --registry "http://127.0.0.1:$(<port)" | jq -r .name)" n
		kill "$(<pids)"
		ended "$(<pids)"
	done
	cmp before state/key.json
	assert_equal "$(stat -c %a state/key.json)" 600
}

@test "ops: the training units' commands train, and their state is theirs" {
	cd "$BATS_TEST_TMPDIR"
	export CREDENTIALS_DIRECTORY=$PWD STATE_DIRECTORY=$PWD/c
	mkdir c w
	rnp-register keygen --out key
	rnp-train tokenize --vocab 300 --out c/tokens /usr/share/common-licenses/GPL-3 >/dev/null
	rnp-train init --preset nano --tokenizer c/tokens --out c/model
	export RNP_COORDINATE="--rounds 2 --inner-steps 3 --batch 2 --length 32 --port-file $PWD/port --device cpu"
	unit_command rnp-train-coordinate.service | sed 's/:8443/127.0.0.1:0/' >c.sh
	bash c.sh 2>c.err 3>&- &
	echo $! >pids
	wait_file port
	RNP_COORDINATOR=http://127.0.0.1:$(cat port) STATE_DIRECTORY=$PWD/w RNP_JOIN="--device cpu" \
		timeout 120 bash -c "$(unit_command rnp-train-join.service)" 2>w.err
	ended "$(<pids)"
	jq -se 'map(select(.kind == "rnp.round")) | length == 2' c/rounds.jsonl
	jq -e --arg node "$(rnp-register address --key key)" 'select(.kind == "rnp.receipt") | .node == $node' w/receipts.jsonl
}
