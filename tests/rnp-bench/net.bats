# rnp-bench serve, and the suites net and comm that measure against it.
load ../helper

setup() {
	cd "$BATS_TEST_TMPDIR" || return
}

teardown() {
	[[ -z ${server:-} ]] || kill "$server" 2>/dev/null || true
	[[ -z ${fake:-} ]] || kill "$fake" 2>/dev/null || true
}

# Starts a peer on a free port: $url, $server
start_peer() {
	rm -f port
	rnp-bench serve --listen 127.0.0.1:0 --port-file port --log-file requests.log "$@" 2>serve.err 3>&- &
	server=$!
	wait_port port "$server"
	url=http://127.0.0.1:$(<port)
}

# Starts one that misbehaves, see tests/tools/fake_peer.py: $url, $fake
start_fake_peer() {
	rm -f fake.port
	python3 "$ROOT/tests/tools/fake_peer.py" "$1" fake.port 3>&- &
	fake=$!
	wait_port fake.port "$fake"
	url=http://127.0.0.1:$(<fake.port)
}

stop_fake_peer() {
	kill "$fake"
	wait "$fake" 2>/dev/null || true
}

# valid KIND FILE: each line of FILE satisfies its schema
valid() {
	python3 -c 'import json, sys, jsonschema
v = jsonschema.Draft202012Validator(json.loads(sys.argv[1]))
for line in open(sys.argv[2]): v.validate(json.loads(line))' "$(rnp-bench --schema "$1")" "$2"
}

tcp_port() {
	curl -s "$url/v1/peer" | jq .tcp_port
}

@test "serve: tells what it offers, logs each request, stops when told" {
	start_peer
	curl -s "$url/v1/peer" >peer.json
	valid rnp.peer peer.json
	jq -e '.tcp_port > 0 and .bytes_max == 67108864' peer.json
	curl -s "$url/v1/bytes/100000" | wc -c | grep -qx 100000
	[[ $(head -c 5000 /dev/zero | curl -s --data-binary @- "$url/v1/bytes" | jq .bytes) == 5000 ]]
	printf 'hello' | curl -s --data-binary @- "$url/v1/echo" | grep -qx hello
	rnp-bench run --suite net --quick --time 30ms --peer "$url" >/dev/null
	kill -TERM "$server"
	ended "$server"
	jq -es 'map(.path) | contains(["/v1/peer", "/v1/bytes", "/v1/echo", "down", "up", "ping"])' requests.log
	jq -es 'all(.status == 200 and .us >= 0 and .client == "127.0.0.1")' requests.log
	server=
}

@test "serve: stops while sessions are open" {
	start_peer
	exec 9<>"/dev/tcp/127.0.0.1/$(tcp_port)"
	printf 'np-peer1%b' '\x01\0\0\0\0\0\0\0' >&9
	# the session itself would wait a minute for its next order
	local from=$SECONDS
	kill -TERM "$server"
	ended "$server"
	((SECONDS - from < 45))
	exec 9>&-
	server=
}

@test "serve: requests beyond its limits are refused and it goes on" {
	start_peer
	code() {
		curl -s -o /dev/null -w '%{http_code}' "$@"
	}
	assert_equal "$(code "$url/v1/bytes/67108865")" 400
	assert_equal "$(code "$url/v1/bytes/-1")" 400
	assert_equal "$(code "$url/v1/bytes/x")" 400
	assert_equal "$(code "$url/v1/bytes/")" 404
	assert_equal "$(printf abc | code --data-binary @- "$url/v1/sum")" 400
	assert_equal "$(head -c 67108865 /dev/zero | code --data-binary @- "$url/v1/echo")" 413
	assert_equal "$(code "$url/v1/bytes/10")" 200
}

@test "serve: a TCP client that talks nonsense, says nothing or is one too many is sent away" {
	start_peer
	local port i sockets=()
	port=$(tcp_port)
	# nonsense, longer than a hello: the connection is closed at once, not reset. One that says nothing is closed
	# after five seconds: twenty of those would take 100.
	local from=$SECONDS
	for i in {1..20}; do
		exec 9<>"/dev/tcp/127.0.0.1/$port"
		printf 'GET / HTTP/1.1\r\nHost: %01000d\r\n\r\n' 1 >&9
		run timeout 60 cat <&9
		assert_equal "$status" 0
		assert_equal "$output" ""
		exec 9>&-
	done
	# eight connections that send nothing leave none for the ninth; after five seconds there
	# is one again
	for i in {1..8}; do
		exec {fd}<>"/dev/tcp/127.0.0.1/$port"
		sockets+=("$fd")
	done
	((SECONDS - from < 80))
	for i in {1..20}; do
		exec 9<>"/dev/tcp/127.0.0.1/$port"
		printf 'GET / HTTP/1.1\r\n\r\n' >&9
		run timeout 60 cat <&9
		assert_equal "$status" 0
		assert_equal "$output" ""
		exec 9>&-
	done
	room_again() {
		rnp-bench run --suite net --quick --time 20ms --peer "$url" | jq -es 'all(.params.transport == "tcp")' >/dev/null
	}
	wait_until 'room for a ninth' room_again
	for fd in "${sockets[@]}"; do
		exec {fd}>&-
	done
}

@test "serve: an address that is taken is 69, a malformed one 64" {
	start_peer
	refused 69 "cannot listen" rnp-bench serve --listen "127.0.0.1:$(<port)"
	run rnp-bench serve --listen nowhere
	assert_equal "$status" 64
}

@test "net: down, up and ping of a peer, and what they become in a node's record" {
	start_peer
	rnp-bench run --suite net --quick --time 100ms --peer "$url" >net.jsonl
	valid rnp.bench net.jsonl
	assert_equal "$(jq -r '.test + " " + .unit + " " + .params.transport' net.jsonl | tr '\n' ,)" \
		"down B/s tcp,up B/s tcp,ping ns tcp,"
	# loopback moves more than 50 MB/s, and less than memory does
	jq -es '.[0:2] | all(.median > 5e7 and .median < 1e12)' net.jsonl
	jq -es '.[2] | .median > 1000 and .median < 1e8' net.jsonl
	rnp-register detect --bench net.jsonl | jq -e --slurpfile net net.jsonl \
		'.network.down_bps == 8 * $net[0].median and .network.up_bps == 8 * $net[1].median'
}

@test "net: what a far connection does before it is at its speed is not counted" {
	start_fake_peer tcp-far
	# 3 MB/s at most for 160 ms, then as fast as possible
	rnp-bench run --suite net --quick --time 400ms --peer "$url" >far.jsonl
	jq -es 'map(select(.unit == "B/s")) | length == 2 and all(.median > 20e6 and .params.transport == "tcp")' far.jsonl ||
		fail "$(cat far.jsonl)"
}

@test "net: by HTTP where the peer has no TCP listener" {
	start_fake_peer http
	rnp-bench run --suite net --quick --time 100ms --peer "$url" | jq -es \
		'length == 3 and all(.params.transport == "http" and .median > 0)'
}

@test "net: a peer that lies about sizes is 65, one that stalls 75, none 69" {
	local mode code text
	while read -r mode code text; do
		start_fake_peer "$mode"
		refused "$code" "$text" rnp-bench run --suite net --quick --time 50ms --peer "$url"
		stop_fake_peer
	done <<-'END'
		short 65 lies about sizes
		counts 65 lies about sizes
		tcp-counts 65 lies about sizes
		tcp-cut 65 broke off
		tcp-other 65 is no rnp-bench serve
		tcp-stall 75 stalls
		stall 75 did not answer in time
		nonsense 65 kind
	END
	refused 69 "cannot reach" rnp-bench run --suite net --peer http://127.0.0.1:1
	refused 69 "--peer" rnp-bench run --suite net
	misused "not an http or https URL" rnp-bench run --suite net --peer 127.0.0.1:80
}

@test "run: a peer that is none does not keep the other suites from being run" {
	start_fake_peer nonsense
	# without the mem suite, which takes long on large caches: a machine that has no free
	# memory
	mkdir -p root/proc
	echo 'MemAvailable: 65536 kB' >root/proc/meminfo
	RNP_SYSROOT=$PWD/root run_split rnp-bench run --quick --time 10ms --peer "$url" --size 16MiB
	assert_equal "$status" 65
	[[ $stderr == *"net: "*"kind"* && $stderr == *"left out: mem"* ]]
	jq -es 'map(.suite) | contains(["cpu"])' <<<"$output"
}

@test "comm: every size and operation of tcp and http, with a line and the crossings" {
	rnp-bench run --suite comm --quick --time 100ms --backend tcp --backend http \
		--plot comm.svg --metrics-file comm.prom >comm.jsonl
	valid rnp.bench comm.jsonl
	assert_equal "$(jq -r 'select(.test == "pingpong" and .params.backend == "tcp").params.bytes' comm.jsonl | tr '\n' ,)" \
		"1024,4096,16384,65536,262144,1048576,4194304,16777216,"
	jq -es 'map(select(.test == "allreduce")) | group_by(.params.backend) | map(length) == [8, 8]' comm.jsonl
	jq -es 'map(select(.params.bytes)) | all(.unit == "ns" and .median > 0 and .params.ranks == 2 and .params.local)' comm.jsonl
	# one sample per segment, each with its own connections
	jq -es 'all(.samples == 8)' comm.jsonl
	# one line per operation and backend; the first crossover names the fastest at the smallest size
	jq -es 'map(select(.test | endswith("_latency"))) | length == 4' comm.jsonl
	jq -es 'map(select(.test | endswith("_bandwidth"))) | length == 4 and all(.unit == "B/s" and .median > 1e6)' comm.jsonl
	jq -es '(map(select(.test == "pingpong" and .params.bytes == 1024)) | min_by(.median).params.backend) as $first |
		map(select(.test == "pingpong_crossover"))[0] | .params.backend == $first and .median == 1024' comm.jsonl
	# each figure for Prometheus, labelled with what it was measured with; a chart per
	# operation with a line per backend
	assert_equal "$(grep -c '^rnp_bench_latency_seconds{suite="comm"' comm.prom)" \
		"$(jq -s 'map(select(.unit == "ns")) | length' comm.jsonl)"
	grep -q '^rnp_bench_latency_seconds{suite="comm",test="pingpong",.*backend\\":\\"tcp\\",\\"bytes\\":1024,' comm.prom
	python3 "$ROOT/tests/tools/prometheus.py" comm.prom
	python3 -c 'import sys, xml.dom.minidom as m; t = [n.firstChild.data for n in m.parse("comm.svg").getElementsByTagName("text")]
assert t.count("tcp") == 2 and t.count("http") == 2 and "comm, a message, one way" in t, t'
	rnp-bench compare comm.jsonl comm.jsonl | jq -es 'length > 30 and all(.verdict == "no difference")'
}

@test "comm: against a peer elsewhere, and its child does not outlive it" {
	start_peer
	rnp-bench run --suite comm --quick --time 50ms --backend tcp --peer "$url" | jq -es \
		'length > 20 and all(.params.local == false)'
	rnp-bench run --suite comm --backend tcp >/dev/null 3>&- &
	local measuring=$! child
	has_child() { child=$(pgrep -P "$measuring"); }
	wait_until 'its child' has_child
	kill -KILL "$measuring"
	wait "$measuring" || true
	wait_until "the end of process $child" process_is_gone "$child"
}

# On a busy machine http at its largest sizes took longer than a peer may stall, and tcp's session was gone then
@test "comm: a session outlasts the time in which its leader measures other backends" {
	start_peer
	python3 - "$(tcp_port)" <<-'END'
		import socket, struct, sys, time
		s = socket.create_connection(("127.0.0.1", int(sys.argv[1])), 60)
		s.sendall(struct.pack("<QII", 0x31726565702d706e, 4, 0))
		assert struct.unpack("<QII", s.recv(16, socket.MSG_WAITALL))[1] == 4
		time.sleep(7)
		s.sendall(struct.pack("<IIQ", 1, 1, 1024) + bytes(range(256)) * 4)
		assert s.recv(1024, socket.MSG_WAITALL) == bytes(range(256)) * 4
		# within a message it is not as patient
		s.sendall(struct.pack("<IIQ", 1, 1, 1024) + b"x")
		began = time.monotonic()
		assert s.recv(1) == b""
		assert time.monotonic() - began < 30
	END
}

@test "comm: a peer that is killed while it is measured is an error with its reason" {
	start_peer
	rnp-bench run --suite comm --backend tcp --time 60s --peer "$url" >/dev/null 2>run.err 3>&- &
	local measuring=$! status=0
	# the session has begun
	is_connected() { [[ $(ss -Htn state established "sport = :$(<port)" | wc -l) != 0 ]]; }
	wait_until 'a session' is_connected
	sleep 0.3
	kill -KILL "$server"
	ended "$measuring" || status=$?
	[[ $status == 69 || $status == 75 ]]
	grep -E '^rnp-bench: comm: .*[a-z]{4}' run.err
}

@test "comm: mpi in a job of its own, and within one" {
	[[ -e $RNP_BUILD/lib/librnp_mpi.so ]] || skip "built without MPI: install libopenmpi-dev"
	command -v mpirun >/dev/null || skip "no mpirun here"
	rnp-bench run --suite comm --quick --time 50ms --backend mpi >mpi.jsonl
	valid rnp.bench mpi.jsonl
	jq -es 'map(select(.test == "allreduce")) | length == 8 and all(.params.backend == "mpi" and .params.ranks == 2)' mpi.jsonl
	jq -es 'all(.samples == 8 and .params.local)' mpi.jsonl
	# three processes: the sum is over three
	OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun --oversubscribe -n 3 \
		rnp-bench run --suite comm --quick --time 10ms --backend mpi 3>&- >three.jsonl
	jq -es 'map(select(.test == "allreduce")) | length == 8 and all(.params.ranks == 3)' three.jsonl
}

@test "comm: an mpirun that is wedged is killed, and the run goes on" {
	[[ -e $RNP_BUILD/lib/librnp_mpi.so ]] || skip "built without MPI: install libopenmpi-dev"
	cd "$BATS_TEST_TMPDIR"
	mkdir bin
	# has written all its output, and does not end whatever signal it gets
	printf '#!/bin/sh\ntrap "" TERM\nexec >/dev/null\necho $$ >wedged\nwhile :; do sleep 1; done\n' >bin/mpirun
	chmod +x bin/mpirun
	PATH=$PWD/bin:$PATH run_split timeout 120 rnp-bench run --suite comm --quick --time 10ms --backend mpi --backend tcp
	assert_equal "$status" 75
	[[ $stderr == *"mpirun does not come to an end"* ]]
	process_is_gone "$(cat wedged)"
}

@test "comm: what is not here is 69 when it is asked for and left out when not" {
	RNP_MPI_PLUGIN=$BATS_FILE_TMPDIR/nowhere.so refused 69 "mpi" rnp-bench run --suite comm --backend mpi
	RNP_NCCL_PLUGIN=$BATS_FILE_TMPDIR/nowhere.so refused 69 "nccl" rnp-bench run --suite comm --backend nccl
	run rnp-bench run --suite comm --backend smoke-signals
	assert_equal "$status" 64
	RNP_MPI_PLUGIN=$BATS_FILE_TMPDIR/nowhere.so RNP_NCCL_PLUGIN=$BATS_FILE_TMPDIR/nowhere.so run_split rnp-bench run --suite comm --quick --time 10ms
	((status == 0)) || fail "exit $status: $stderr"
	jq -es 'map(.params.backend) | unique == ["http", "tcp"]' <<<"$output"
}

@test "comm: a sum that is wrong is an error, not a figure" {
	start_fake_peer sums
	refused 65 "the sum is wrong at 200" rnp-bench run --suite comm --quick --time 10ms --backend http --peer "$url"
	stop_fake_peer
	start_fake_peer http
	rnp-bench run --suite comm --quick --time 10ms --backend http --peer "$url" | jq -es 'length > 10'
}

@test "comm: no program is linked with MPI or NCCL" {
	local p
	for p in "$RNP_BUILD"/bin/rnp-*; do
		run ldd "$p"
		refute_output --regexp 'libmpi|libnccl|libcuda'
	done
}
