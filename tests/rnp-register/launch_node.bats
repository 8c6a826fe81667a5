# rnp-register launch with a real node: a registry, its agent with podman, and a customer with a job file.
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

# These stand on the node's machine, as does what asks them
rnp-register() {
	in_machine rnp-register "$@"
}

teardown() {
	if [[ -n ${agent:-} ]]; then
		kill "$agent" 2>/dev/null || true
		ended "$agent" || true
	fi
	stop_registry
	end_leases "$BATS_TEST_TMPDIR/work" "/run/rl-$$"
	rm -rf "/run/rl-$$"
}

# a registry, and a node without GPU whose agent takes what is booked
node_works() {
	SERVE_UNDER=(nsenter --net="$MACHINE")
	start_market
	make_key a
	node_record a '{labels: {country: "SI"}}' >a.node
	post /v1/nodes a.node
	quotes a 800000
	heartbeat_record a '{interval_s: 3600}' >a.beat
	post /v1/heartbeats a.beat
	make_key c
	pays c 5000000
	nsenter --net="$MACHINE" rnp-register work --images 64MiB --private-images --registry "$url" --key a.json --dir "$BATS_TEST_TMPDIR/work" --run-dir "/run/rl-$$" \
		--memory 512MiB --disk 128MiB --cpu-cores 1 --grace 5s "$@" 2>>agent.err 3>&- &
	agent=$!
	wait_until "an offer" is_offered
}

is_offered() {
	plans '{gpu_count: 0, cpu_cores: 1, memory_bytes: 134217728, disk_bytes: 64000000}' && [[ $(jq '.offers | length' proposal.json) == 1 ]]
}

@test "launch: a job file runs on a real node, with its files, variables and secrets, and its lines are seen" {
	node_works
	mkdir -p job conf
	echo 'from the work directory' >job/hello
	echo 'from a mount' >conf/there
	cat >job.yaml <<-END
		name: hello
		workdir: job
		envs: {GREETING: "it's"}
		secrets: {TOKEN: null}
		file_mounts: {~/conf: conf}
		resources: {cpus: 1, memory: 0.128, disk_size: 64MB, image_id: "docker:$PLAIN"}
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
	[[ $status == 5 ]] || fail "$status: $stderr; $(cat agent.err)"
	jq -e '.state == "failed" and .exit == 5 and .uusd > 0 and .seconds.ready >= 0' <<<"$output" || fail "$output"
	kept=$(jq -r '.artifacts[0].path' <<<"$output")
	assert_equal "$kept $(cat "$kept/work/made/deep/file" "$kept/root/tmp/log" "$kept/root/root/notes" | tr '\n' ' ')" \
		"artifacts/$(jq -r .cluster <<<"$output")/0 kept a line note "
	grep -q '^\[0\] setup ran$' launched.err
	grep -q "^\[0\] it's from the work directory from a mount\$" launched.err
	grep -q '^\[0\] rank 0 of 1, 9 letters$' launched.err
	asks c "/v1/events?cluster=$(jq -r .cluster <<<"$output")"
	jq -e '[.events[].event | select(.artifacts)] | length == 1' answer.json || fail "$(cat answer.json)"
	run ! grep -rqa k7Qz0vXw9 "$BATS_TEST_TMPDIR" --exclude=launched.err
}
