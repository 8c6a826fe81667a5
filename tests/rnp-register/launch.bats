# rnp-register launch: a job file becomes booked nodes, a run that is followed, and one record. The nodes are played
# by signed events; that an agent runs what was sent is held elsewhere.
load ../helper
load registry
load sign
load market

setup() {
	cd "$BATS_TEST_TMPDIR" || return
}

teardown() {
	stopped_with=0
	[[ ! ${launched-} ]] || kill "$launched" 2>/dev/null || true
	stop_registry
	((stopped_with == 0)) || { cat serve.err; return 1; }
}

# a market with a node of two GPUs, and a customer with money
one_node() {
	start_market
	sells a 2 800000
	make_key c
	pays c "${1:-50000000}"
	assert_equal "$status_code" 201
}

# launches FILE [OPTION ...]: in the background; returns once it has booked $cluster
launches() {
	rm -f launched.err
	rnp-register launch --registry "$url" --key c.json "$@" >launched.out 2>launched.err &
	launched=$!
	booked_or_ended() { grep -qs '^rnp-register: booked' launched.err || process_is_gone "$launched"; }
	wait_until "a booking" booked_or_ended
	cluster=$(sed -n 's/^rnp-register: booked  //p' launched.err)
	[[ $cluster ]] || { cat launched.err >&2; false; }
}

# launch_ends CODE: it ends with that code
launch_ends() {
	local code=0
	ended "$launched" || code=$?
	launched=
	[[ $code == "$1" ]] || fail "ended with $code, not $1: $(cat launched.err)"
}

# job TEXT: writes job.yaml
job() {
	printf '%b' "$1" >job.yaml
}

@test "launch: a job is planned, booked, followed to its end, and told in one record" {
	one_node
	job 'name: train\nresources: {accelerators: RTX4090:2}\nbudget: 10 USD\non_node_failure: end\n'
	launches job.yaml --hours 4
	asks a '/v1/work?after=0'
	jq -e '.work[0].booking | .name == "train" and .hours == 4 and .budget_uusd == 10000000 and .on_node_failure == "end"' answer.json
	becomes_ready a 0
	says a 0 ready '{exit: 0, ready_ms: 1000}'
	assert_equal "$status_code" 201
	says a 0 released
	launch_ends 0
	assert_equal "$(wc -l <launched.out)" 1
	jq -e --arg cluster "$cluster" '.kind == "rnp.launch" and .state == "done" and .exit == 0 and .restarts == 0 and
		.cluster == $cluster and (.uusd | type) == "number"' launched.out
	grep -q 'plan    2 x RTX 4090 (SI), 0.825000 \$/h, at most 3.30 \$' launched.err
	grep -q 'rank 0  pulling' launched.err
}

@test "launch: run that fails is 1, or its own code; a node that is lost is 75" {
	one_node
	job 'resources: {accelerators: RTX4090:2}\n'
	for options in "" --exit-code; do
		# shellcheck disable=SC2086
		launches job.yaml $options
		becomes_ready a 0
		says a 0 ready '{exit: 3, ready_ms: 1000}'
		says a 0 released
		launch_ends $((${#options} ? 3 : 1))
		jq -e '.state == "failed" and .exit == 3' launched.out
	done
	job 'resources: {accelerators: RTX4090:2}\non_node_failure: end\n'
	launches job.yaml
	says a 0 failed '{cause: "the disk is full"}'
	launch_ends 75
	jq -e '.state == "ended" and (has("exit") | not)' launched.out
	grep -q 'the disk is full' launched.err
}

@test "launch: Ctrl-C leaves the job running, and --follow goes on from there" {
	one_node
	job 'resources: {accelerators: RTX4090:2}\n'
	launches job.yaml
	kill -INT "$launched"
	launch_ends 0
	jq -e '.state == "detached"' launched.out
	[[ $(tail -n 1 launched.err) == *"still running: rnp-register launch --follow $cluster goes on from here, rnp-register release $cluster ends it" ]]
	rnp-register launch --registry "$url" --key c.json --follow "$cluster" >launched.out 2>launched.err &
	launched=$!
	becomes_ready a 0
	says a 0 ready '{exit: 0}'
	says a 0 released
	launch_ends 0
	jq -e '.state == "done"' launched.out
	# it is nobody else's
	make_key d
	run_split rnp-register launch --registry "$url" --key d.json --follow "$cluster"
	assert_failure 1
}

@test "launch: nothing that fits is 69 with what is left out, too little credit 77, and nothing is booked" {
	one_node 100000
	job 'resources: {accelerators: H100:8}\n'
	refused 69 "nothing fits; 1 node left out: 1 " rnp-register launch -q --registry "$url" --key c.json job.yaml
	job 'resources: {accelerators: RTX4090:2, max_hourly_cost: 0.2}\n'
	refused 69 "nothing fits" rnp-register launch -q --registry "$url" --key c.json job.yaml
	# what would help is said as a person says it
	job 'resources: {accelerators: RTX4090:2, memory: 999}\n'
	refused 69 "; 1 would with 64 GB of memory" rnp-register launch -q --registry "$url" --key c.json job.yaml
	# what is to be taken along is looked for before anything is planned
	job 'workdir: nothere\nresources: {accelerators: RTX4090:2}\n'
	run_split rnp-register launch --registry "$url" --key c.json job.yaml
	assert_failure 66
	[[ $(tail -n 1 <<<"$stderr") == "rnp-register: workdir nothere: No such file or directory" && $stderr != *"plan "* ]] || fail "$stderr"
	job 'resources: {accelerators: RTX4090:2}\n'
	run_split rnp-register launch --registry "$url" --key c.json job.yaml
	assert_failure 77
	[[ $stderr == *"0.725000 \$ are missing: the next hour has to be covered, and the account has 0.10 \$ (whom the registry trusts adds some: rnp-register deposit --to $c --usd 0.725000 --id ID)" ]] ||
		fail "$stderr"
	asks c /v1/clusters
	jq -e '.clusters == []' answer.json
	make_key d
	run_split rnp-register launch --registry "$url" --key d.json job.yaml
	assert_failure 77
}

@test "launch: autostop without run is refused before anything is sent; with run the end of it is what stops" {
	one_node
	job 'resources: {autostop: 10}\n'
	refused 65 "write deadline: 2h, or end it with" rnp-register launch -q --registry http://127.0.0.1:1 --key c.json job.yaml
	job 'resources: {accelerators: RTX4090:2, autostop: 10, job_recovery: {max_restarts_on_errors: 3, recover_on_exit_codes: [33]}}\nrun: a\n'
	launches job.yaml
	grep -q 'autostop: the nodes are released as soon as run has ended' launched.err
	asks a '/v1/work?after=0'
	jq -e '.work[0].booking.recovery == {max_restarts_on_errors: 3, exit_codes: [33]}' answer.json
	kill -INT "$launched"
	launch_ends 0
}

@test "launch: secrets are sealed for the nodes of the offer, and no file of the registry has them" {
	one_node
	job 'secrets: {HF_TOKEN: null}\nresources: {accelerators: RTX4090:2}\nrun: env\n'
	HF_TOKEN=k7Qz0vXw9 launches job.yaml --secret HF_TOKEN
	asks a '/v1/work?after=0'
	jq -e --arg a "$a" '.work[0].booking.sealed | keys == [$a] and (.[$a] | length > 60)' answer.json
	becomes_ready a 0
	says a 0 ready '{exit: 0}'
	says a 0 released
	launch_ends 0
	run ! grep -rqa k7Qz0vXw9 "$BATS_TEST_TMPDIR"
}

@test "launch: files and folders of file_mounts are sent, and setup takes them to their places" {
	one_node
	# a file that is not there ends it before anything is booked
	job 'resources: {accelerators: RTX4090:2}\nfile_mounts: {/a: nowhere}\n'
	run_split rnp-register launch -q --registry "$url" --key c.json job.yaml
	assert_failure 66
	mkdir -p work conf/sub home
	echo a >work/a
	echo b >conf/sub/b
	printf '#!/bin/sh\n' >"it's"
	chmod 755 "it's"
	job "workdir: work\nresources: {accelerators: RTX4090:2}\nfile_mounts:\n  ~/conf dir: conf\n  $PWD/home/x/tool: \"it's\"\nrun: a\n"
	launches job.yaml
	asks a '/v1/work?after=0'
	assert_equal "$(jq '.work[0].booking.blobs | length' answer.json)" 3
	# as a node unpacks them
	mkdir -p home/sky_workdir/.rnp/mounts/2
	cp -a conf home/sky_workdir/.rnp/mounts/1
	cp -a "it's" home/sky_workdir/.rnp/mounts/2
	asks a "/v1/blobs/$(jq -r '.work[0].booking.setup_sha256' answer.json)?cluster=$cluster"
	HOME=$PWD/home bash answer.json
	assert_equal "$(cat "home/conf dir/sub/b")" b
	[[ -x home/x/tool && ! -e home/sky_workdir/.rnp ]]
}

@test "launch: a tag becomes the digest that it stands for, and that is what is booked" {
	one_node
	mkdir -p v2/lab/train/manifests
	echo '{"schemaVersion":2}' >v2/lab/train/manifests/12
	python3 -u -m http.server --bind 127.0.0.1 0 >images.log 2>&1 &
	images=$!
	wait_until "a registry of images" grep -q port images.log
	port=$(grep -oE 'port [0-9]+' images.log | head -n 1 | cut -d' ' -f2)
	job "resources: {image_id: 'docker:127.0.0.1:$port/lab/train:12', any_of: [{accelerators: H100}, {accelerators: RTX4090:2}]}\n"
	launches job.yaml
	kill "$images"
	wait "$images" || true
	asks a '/v1/work?after=0'
	assert_equal "$(jq -r '.work[0].booking.image' answer.json)" \
		"127.0.0.1:$port/lab/train@sha256:$(sha256sum <v2/lab/train/manifests/12 | cut -d' ' -f1)"
	# one question for both wishes
	assert_equal "$(grep -c GET images.log)" 1
	job "resources: {accelerators: RTX4090:2, image_id: 'docker:127.0.0.1:$port/lab/train:13'}\n"
	run_split rnp-register launch -q --registry "$url" --key c.json job.yaml
	[[ $stderr == *"image 127.0.0.1:$port/lab/train:13: "* ]]
}

@test "launch: work directory and scripts are sent, and are what the node gets" {
	one_node
	mkdir -p work/data
	echo 'print(1)' >work/train.py
	echo secret >work/.env
	echo .env >work/.rnpignore
	job "workdir: work\nenvs: {GREETING: \"it's me\"}\nresources: {accelerators: RTX4090:2}\nsetup: echo setup\nrun: |\n  echo \$GREETING\n"
	launches job.yaml
	asks a '/v1/work?after=0'
	for script in setup run; do
		name=$(jq -r ".work[0].booking.${script}_sha256" answer.json)
		cp answer.json work.json
		asks a "/v1/blobs/$name?cluster=$cluster"
		mv answer.json "$script.sh"
		assert_equal "$(sha256sum <"$script.sh" | cut -d' ' -f1)" "$name"
		cp work.json answer.json
	done
	assert_equal "$(bash run.sh)" "it's me"
	asks a "/v1/blobs/$(jq -r '.work[0].booking.blobs[0]' work.json)?cluster=$cluster"
	assert_equal "$(jq -r '.files[] | .path' answer.json | sort | tr '\n' ' ')" ".rnpignore data train.py "
	grep -q 'workdir' launched.err
	becomes_ready a 0
	says a 0 ready '{exit: 0}'
	says a 0 released
	launch_ends 0
}

@test "launch: what a container starts with keeps artifacts now and then and at the end, and puts them back" {
	mkdir -p in out home/sky_workdir
	sed "s#^in=.*#in=$PWD/in#; s#^out=.*#out=$PWD/out#" "$ROOT/cmd/rnp-register/agent/start.sh" >start.sh
	printf '%s\n' made "$PWD/elsewhere/log" '~/notes' 'not there' >in/artifacts
	echo 1 >in/artifacts_every
	cat >in/run <<-'END'
		mkdir -p made ../../elsewhere
		echo first >made/state
		echo log >../../elsewhere/log
		until [ -e ../../out/collected ]; do sleep 0.1; done
		echo second >made/state
		echo note >~/notes
		exit 4
	END
	HOME=$PWD/home run sh start.sh
	assert_failure 4
	assert_equal "$(cat out/exit)" 4
	assert_equal "$(cat out/artifacts/work/made/state "out/artifacts/root$PWD/elsewhere/log" "out/artifacts/root$PWD/home/notes" | tr '\n' ' ')" "second log note "
	(($(cat out/collected) >= 2))
	# another node goes on from there
	mkdir -p home/sky_workdir/.rnp
	mv out/artifacts home/sky_workdir/.rnp/artifacts
	rm -rf home/sky_workdir/made elsewhere home/notes out/exit
	echo 'cat made/state ../../elsewhere/log ~/notes' >in/run
	HOME=$PWD/home run sh start.sh
	assert_success
	assert_output $'second\nlog\nnote'
	[[ ! -e home/sky_workdir/.rnp ]]
}
