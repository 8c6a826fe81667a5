# Answers to challenges: large bodies from nodes that have no challenge to answer, and work that
# is done, or sent, too late.
load ../helper
load ../rnp-register/registry

setup() {
	cd "$BATS_TEST_TMPDIR" || return
	make_key v
	make_key a
}

teardown() {
	stopped_with=0
	stop_registry
	((stopped_with == 0)) || { cat serve.err; return 1; }
}

# asked: starts a registry and stores its challenge to $a in c.json
asked() {
	start_registry --key v.json --challenge-every 1s --trust "$v"
	rnp-register detect | jq -c --arg n "$a" '{kind, v, at, node: $n}' | rnp-register sign --key a.json |
		rnp-register submit --registry "$url" >/dev/null
	asked_now() {
		rnp-register heartbeat --once --registry "$url" --key a.json | jq -c 'select(.kind == "rnp.challenge")' >c.json
		[[ -s c.json ]]
	}
	wait_until 'a challenge' asked_now
}

# verdict: prints the newest verdict about $a, waiting until there is one
verdict() {
	judged() {
		get "/v1/records?kind=rnp.verdict&node=$a"
		jq -ec '.records[-1] // empty' answer.json >v.rec
	}
	wait_until 'a verdict' judged
}

@test "answers: bodies that never end do not keep heartbeats out, and are not even read" {
	asked
	python3 - "$(cat port)" "$a" <<-'END' 3>&- >held &
		import socket, sys, time
		port, node = int(sys.argv[1]), sys.argv[2]
		held = []
		for i in range(64):
		    s = socket.create_connection(("127.0.0.1", port))
		    path = ["/v1/answers", "/v1/answers?node=%s&challenge=%s" % (node, "0" * 64)][i % 2]
		    s.sendall(("POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 16777216\r\n\r\n" % path).encode() + b"{" * 1000)
		    held.append(s)
		refused = 0
		for s in held:
		    s.settimeout(120)
		    refused += s.recv(100)[9:12] in (b"400", b"409")
		print(refused, flush=True)
		time.sleep(600)
	END
	strangers=$!
	wait_file held
	assert_equal "$(cat held)" 64
	for _ in {1..5}; do
		heartbeat_record a >h.json
		took=$(curl -s -o answer.json -w '%{http_code} %{time_total}' --data-binary @h.json "$url/v1/heartbeats")
		[[ $took == 200* ]] || fail "$took"
		sleep 0.02
	done
	kill "$strangers"
	# and the node's own answer is accepted
	rnp-bench answer --key a.json c.json | rnp-register submit --registry "$url" >stored
	jq -es '[.[].of] == ["rnp.roots", "rnp.verdict"]' stored
	# each reply names the challenge that it is about and the record that is expected next
	id=$(jq -c 'del(.proof)' c.json | rnp-register canon | tr -d '\n' | sha256sum | cut -d' ' -f1)
	jq -e --arg id "$id" '.challenge_sha256 == $id and .phase == "roots" and .due_in_ms > 0' answer.json
	jq -es --arg id "$id" 'map([.challenge_sha256, .phase]) == [[$id, "openings"], [$id, "verified"]] and .[0].due_in_ms > 0' stored
	verdict
	jq -e '.passed and .roots_ns < .elapsed_ns' v.rec
}

@test "answers: an answer without roots before it, or with others, proves nothing" {
	asked
	rnp-bench answer --key a.json c.json >both.json
	assert_equal "$(jq -r .kind both.json | tr '\n' ' ')" "rnp.roots rnp.answer "
	sed -n 2p both.json >only.json
	rnp-register submit --registry "$url" only.json >/dev/null
	verdict
	jq -e '(.passed | not) and .score_ppm == 0 and (has("proven") | not) and
		([.checks[] | select(.passed | not)] | length == 1 and .[0].check == "roots" and (.[0].reason | test("no roots")))' v.rec
	stop_registry
	rm registry.db*
	asked
	rnp-bench answer --key a.json c.json >both.json
	# a commitment to something else, to gain the whole time for the work
	head -1 both.json | jq -c 'del(.proof) | .roots_sha256 |= (explode | reverse | implode)' | rnp-register sign --key a.json >roots.json
	cat roots.json both.json | rnp-register submit --registry "$url" >stored
	assert_equal "$(jq -c '[.of, .new]' stored | tr '\n' ' ')" '["rnp.roots",true] ["rnp.roots",false] ["rnp.verdict",true] '
	verdict
	jq -e '(.passed | not) and ([.checks[] | select(.passed | not)] | length == 1 and .[0].check == "commitment")' v.rec
	# a stranger cannot commit for the node
	jq -c 'del(.proof)' roots.json | rnp-register sign --key v.json >x.json
	post /v1/roots x.json
	assert_equal "$status_code" 401
}

@test "answers: a node is asked when its record is new, and then not before its time" {
	start_registry --key v.json --challenge-every 8760h
	node_record a '{name: "1", at: (now - 10 | todate)}' >n.json
	post /v1/nodes n.json
	asked=0
	beat() { # beat N: heartbeats; the challenges that they bring, each once, in c.json
		for ((i = 0; i < $1; i++)); do
			heartbeat_record a >h.json
			post /v1/heartbeats h.json
			jq -c '.challenge // empty' answer.json >>all.json
		done
		jq -cs 'unique_by(.nonce)[]' all.json >c.json
	}
	beat 1
	assert_equal "$(wc -l <c.json)" 1
	rnp-bench answer --key a.json c.json | rnp-register submit --registry "$url" >/dev/null
	verdict
	jq -e '.passed and .proven' v.rec
	beat 20
	assert_equal "$(wc -l <c.json)" 1
	# a node that changes what it claims gets a challenge about the new claim
	node_record a '{name: "2"}' >n.json
	post /v1/nodes n.json
	assert_equal "$(jq .pending answer.json)" true
	beat 3
	assert_equal "$(wc -l <c.json)" 2
	assert_equal "$(tail -1 all.json | jq -r .node_record)" "$(jq -c 'del(.proof)' n.json | rnp-register canon | tr -d '\n' | sha256sum | cut -d' ' -f1)"
}

@test "answers: one of megabytes is canonicalised and hashed once on its way in" {
	gcc -shared -fPIC -O1 -D_GNU_SOURCE -o hashed.so "${BATS_TEST_FILENAME%/*}/hashed.c" -ldl
	# without the CPU's instructions, every hash is libsodium's and can be counted
	SERVE_UNDER=(env RNP_ISA_WITHOUT=sha LD_PRELOAD="$PWD/hashed.so" HASHED="$PWD/hashed")
	asked
	rnp-bench answer --key a.json c.json >both.json
	# the same size without the proof
	bytes=$(($(tail -1 both.json | jq -c 'del(.proof)' | wc -c) - 1))
	((bytes > 1000000))
	rnp-register submit --registry "$url" both.json >/dev/null
	verdict
	jq -e '.passed' v.rec
	assert_equal "$(cat hashed)" "$bytes"
}

@test "answers: one is not read beyond the size that the challenge asks for, and a newer one replaces it" {
	asked
	id=$(jq -c 'del(.proof)' c.json | rnp-register canon | tr -d '\n' | sha256sum | cut -d' ' -f1)
	python3 - "$(cat port)" "$a" "$id" <<-'END'
		import socket, sys, time
		port, node, id = int(sys.argv[1]), sys.argv[2], sys.argv[3]
		def begin(bytes):
		    s = socket.create_connection(("127.0.0.1", port), timeout=60)
		    s.sendall(f"POST /v1/answers?node={node}&challenge={id} HTTP/1.1\r\nHost: x\r\nContent-Length: {bytes}\r\n\r\n{{".encode())
		    return s
		assert begin(200_000_000).recv(100)[9:12] == b"413"
		first = begin(1_000_000)
		# which of two that come together is the newer nobody can say
		time.sleep(1)
		second = begin(1_000_000)
		# the first is closed, although it was not slow
		assert first.recv(100) == b""
		second.settimeout(3)
		try:
		    assert second.recv(100) != b""
		    raise SystemExit("the second was answered")
		except TimeoutError:
		    pass
	END
	# the node's own answer is still accepted
	rnp-bench answer --key a.json c.json | rnp-register submit --registry "$url" >stored
	jq -es '[.[].of] == ["rnp.roots", "rnp.verdict"]' stored
	verdict
	jq -e .passed v.rec
}

@test "answers: who sends what is no answer is read three times, and then not" {
	asked
	rnp-bench answer --key a.json c.json >both.json
	sed -n 2p both.json | jq -c '.at = "2026-01-01T00:00:00Z"' >theirs.json
	id=$(jq -r .challenge_sha256 both.json | head -1)
	path="/v1/answers?node=$a&challenge=$id"
	for want in 401 401 401 429; do
		post "$path" theirs.json
		assert_equal "$status_code" "$want"
	done
}

@test "answers: who fails three times in a row is asked less often, also about new records" {
	start_registry --key v.json --challenge-every 8760h
	for ((i = 0; i < 4; i++)); do
		node_record a "{name: \"$i\", at: (now - 10 + $i | todate)}" >n.json
		post /v1/nodes n.json
		heartbeat_record a >h.json
		post /v1/heartbeats h.json
		jq -c '.challenge // empty' answer.json >c.json
		[[ -s c.json ]] || break
		# an answer without its roots fails at once
		rnp-bench answer --key a.json c.json | tail -1 | rnp-register submit --registry "$url" >/dev/null
		judged() { (($(sqlite3 registry.db "SELECT count(*) FROM records WHERE kind = 'rnp.verdict'") > i)); }
		wait_until 'a verdict' judged
	done
	assert_equal "$i" 3
}
