# The bandwidth test of the proof of compute: bytes to a node and back, timed by the verifier.
load ../helper
load sign

setup() {
	cd "$BATS_TEST_TMPDIR" || return
	rnp-register keygen --out node.key >node.json
	rnp-register keygen --out verifier.key >verifier.json
	NODE=$(jq -r .node node.json)
}

teardown() {
	[[ -z ${server:-} ]] || kill "$server" 2>/dev/null || true
}

# start COMMAND ...: starts a server on a free port, at $url
start() {
	rm -f port
	"$@" --listen 127.0.0.1:0 --port-file port --key verifier.key 2>serve.err 3>&- &
	server=$!
	wait_file port
	url=http://127.0.0.1:$(<port)
}

start_registry() {
	# a reference node about as fast as one core of today, so that the score is not 0
	# millionths
	jq '.score.reference |= (.bandwidth.value = 300000000 | .teraflops.value = 10000000000
		| .memory.value = 16777216 | .clock.value = 1000000)' "$ROOT/cmd/rnp-reward/policies/rnp-004.json" >policy.json
	start rnp-register serve --db registry.db --challenge-every "$1" --policy ./policy.json \
		--trust "$(jq -r .node verifier.json)"
	rnp-register detect | jq -c --arg n "$NODE" '{kind, v, at, node: $n}' >n.json
	rnp-register sign --key node.key n.json | rnp-register submit --registry "$url" >/dev/null
}

small() {
	rnp-bench challenge --node "$NODE" --key verifier.key --size 64 --rounds 16 \
		--memory 2MiB --hashes 4096 "$@"
}

# Stores the registry's challenge in c.json
get_challenge() {
	asked() {
		rnp-register heartbeat --once --registry "$url" --key node.key | jq -c 'select(.kind == "rnp.challenge")' >c.json
		[[ -s c.json ]]
	}
	wait_until 'a challenge' asked
}

# SHA-256 of the canonical challenge
id_of() {
	jq -c 'del(.proof)' "$1" | rnp-register canon | tr -d '\n' | sha256sum | cut -d' ' -f1
}

@test "bandwidth: heartbeat | answer | submit to a registry gives a verdict with all readings and a score" {
	start_registry 1s
	mkfifo beats
	rnp-register heartbeat --registry "$url" --key node.key --interval 1s >beats 3>&- &
	beating=$!
	{ rnp-bench answer --key node.key --verifier "$url" <beats | rnp-register submit --registry "$url" >stored.jsonl; } 3>&- &
	wait_until 'a verdict' grep -qs '"of":"rnp.verdict"' stored.jsonl
	kill "$beating"
	beating=
	ended "$!" || true
	curl -sS "$url/v1/records?kind=rnp.verdict&node=$NODE" | jq -c '[.. | objects | select(.kind? == "rnp.verdict")][0]' >v.json
	jq -e '.passed and .readings.bandwidth > 1e6 and .readings.teraflops > 0 and .readings.clock > 0
		and .readings.memory > 0 and (.unknown | not) and has("score_ppm")' v.json
	# P = b^4 t^3 m^2 c over the reference's, in millionths; less than one on a machine that
	# is busy with other work
	jq -e '(.readings | pow(.bandwidth / 300000000; 4) * pow(.teraflops / 10000000000; 3)
		* pow(.memory / 16777216; 2) * .clock / 1000000 * 1e6) as $p | (.score_ppm > 0 or $p < 1)
		and (.score_ppm - $p | fabs) <= 1 + $p / 1e9' v.json
}

@test "bandwidth: without --verifier the reading is unknown and there is no score" {
	start_registry 1s
	get_challenge
	rnp-bench answer --key node.key c.json | rnp-register submit --registry "$url" >/dev/null
	curl -sS "$url/v1/records?kind=rnp.verdict&node=$NODE" | jq -e '[.. | objects | select(.kind? == "rnp.verdict")][0]
		| .passed and (has("score_ppm") | not) and (.unknown["readings.bandwidth"] | test("exchanged no bytes"))'
}

@test "bandwidth: a verifier that cannot be reached is a warning, the answer comes all the same" {
	small >c.json
	run_split rnp-bench answer --key node.key --verifier http://127.0.0.1:1 c.json
	assert_success
	[[ $stderr == *"no bandwidth was measured: cannot reach"* ]]
	jq -e '.kind == "rnp.answer"' <<<"$output"
}

@test "bandwidth: a verifier that stalls does not make the answer late" {
	python3 -c 'import socket, time
s = socket.create_server(("127.0.0.1", 0))
print(s.getsockname()[1], flush=True)
time.sleep(120)' >port 3>&- &
	server=$!
	wait_file port
	small --deadline 30s >c.json
	run_split rnp-bench answer --key node.key --verifier "http://127.0.0.1:$(<port)" c.json
	assert_success
	[[ $stderr == *"no bandwidth was measured: "*"did not answer in time"* ]]
	rnp-bench verdict --key verifier.key --challenge c.json <<<"$output" | jq -e .passed
}

@test "bandwidth: rnp-bench serve measures for a verdict in a pipe, under the verifier's signature" {
	start rnp-bench serve >exchanges.jsonl
	small >c.json
	rnp-bench answer --key node.key --verifier "$url" c.json >a.json
	rnp-register verify exchanges.jsonl | jq -e .ok
	jq -e --arg id "$(id_of c.json)" '.suite == "net" and .test == "exchange" and .params.challenge_sha256 == $id
		and .median > 1e6 and .params.down_ns > 0 and .params.up_ns > 0' exchanges.jsonl
	rnp-bench verdict --key verifier.key --challenge c.json --bandwidth exchanges.jsonl a.json >v.json
	jq -e --slurpfile x exchanges.jsonl '.passed and .readings.bandwidth == $x[0].median and has("score_ppm")' v.json
	# a reading for another challenge is refused
	small >d.json
	rnp-bench answer --key node.key d.json | rnp-bench verdict --key verifier.key --challenge d.json \
		--bandwidth exchanges.jsonl | jq -e '.passed and (has("score_ppm") | not) and .unknown["readings.bandwidth"]'
	# so is one that was edited, or that belongs to somebody else
	jq -c '.median *= 2' exchanges.jsonl >more.jsonl
	refused 65 "not signed by" rnp-bench verdict --key verifier.key --challenge c.json --bandwidth more.jsonl a.json
	jq -c 'del(.proof) | .median *= 2' exchanges.jsonl | rnp-register sign --key node.key >more.jsonl
	refused 65 "not signed by" rnp-bench verdict --key verifier.key --challenge c.json --bandwidth more.jsonl a.json
}

@test "bandwidth: a registry exchanges with the node alone, whose key signs the requests" {
	start_registry 1s
	get_challenge
	local id at
	id=$(id_of c.json)
	at="$url/v1/exchange/$id?node=$NODE&bytes=1048576"
	code() {
		curl -s -D head -o reply -w '%{http_code}' "$@"
	}
	assert_equal "$(code "$at")" 401
	jq -e '.error | test("only node .* may ask this.*: the message is not signed")' reply
	grep -qiF 'accept-signature: rnp=("@method" "@authority" "@path" "@query");created;nonce;keyid;tag="rnp"' head
	sign_request node.key GET "$at" once >signed
	assert_equal "$(code -H @signed -D head "$at")" 200
	# the challenge that these bytes are for, and their direction
	grep -qi "^Rnp-Challenge: $(id_of c.json)" head
	grep -qi "^Rnp-Phase: down" head
	assert_equal "$(code -H @signed "$at")" 401
	jq -e '.error | test("nonce was used before")' reply
	# another key, another path, an old signature, one from the future, a changed one, and a
	# body that was not announced
	sign_request verifier.key GET "$at" >signed
	assert_equal "$(code -H @signed "$at")" 401
	jq -e '.error | test("keyid names no key")' reply
	sign_request node.key GET "${at/1048576/2097152}" >signed
	assert_equal "$(code -H @signed "$at")" 401
	jq -e '.error | test("not by that key, or the message was changed")' reply
	sign_request node.key GET "$at" old $(($(date +%s) - 400)) >signed
	assert_equal "$(code -H @signed "$at")" 401
	jq -e '.error | test("too old")' reply
	sign_request node.key GET "$at" new $(($(date +%s) + 400)) >signed
	assert_equal "$(code -H @signed "$at")" 401
	jq -e '.error | test("in the future")' reply
	sign_request node.key POST "$at" >signed
	assert_equal "$(code -H @signed "$at")" 401
	sign_request node.key GET "$at" changed | sed 's/;tag="rnp"//' >signed
	assert_equal "$(code -H @signed "$at")" 401
	# refused before the body is sent, too
	head -c 1048576 /dev/zero >zeros
	assert_equal "$(code --data-binary @zeros "${at/bytes=1048576/token=00}")" 401
	# refused requests use nothing up: the node's own next one is answered
	sign_request node.key GET "$at" changed >signed
	assert_equal "$(code -H @signed "$at")" 200
}

@test "bandwidth: a registry exchanges only for a challenge that is open, and takes only its own bytes" {
	start_registry 1s
	get_challenge
	local id token at=$url/v1/exchange
	id=$(id_of c.json)
	code() {
		curl -s -o reply -w '%{http_code}' "$@"
	}
	signed() { # METHOD URL [curl's options]
		sign_request node.key "$1" "$2" >signed
		code -H @signed "${@:3}" "$2"
	}
	assert_equal "$(code "$at/${id/[0-9a-f]/x}?node=$NODE&bytes=1048576")" 409
	assert_equal "$(code "$at/$id?node=$(jq -r .node verifier.json)&bytes=1048576")" 409
	assert_equal "$(code "$at/$id?bytes=1048576")" 400
	assert_equal "$(signed GET "$at/$id?node=$NODE&bytes=1")" 400
	assert_equal "$(signed GET "$at/$id?node=$NODE&bytes=33554433")" 400
	assert_equal "$(code "$at/$id?node=$NODE&bytes=1048576&more=1")" 400
	assert_equal "$(signed POST "$at/$id?node=$NODE&token=00" --data-binary @c.json)" 409
	# exactly these bytes, and the token that proves that all of them arrived
	assert_equal "$(signed GET "$at/$id?node=$NODE&bytes=1048576")" 200
	mv reply bytes
	token=$(tail -c 32 bytes | od -An -v -tx1 | tr -d ' \n')
	assert_equal "$(signed POST "$at/$id?node=$NODE&token=$token" --data-binary @bytes)" 200
	jq -e '.bytes == 1048576 and .down_ns > 0 and .up_ns > 0 and .enough == ([.down_ns, .up_ns] | max >= 5e8)' reply
	assert_equal "$(signed POST "$at/$id?node=$NODE&token=$token" --data-binary @bytes)" 409
	assert_equal "$(signed GET "$at/$id?node=$NODE&bytes=1048576")" 200
	assert_equal "$(signed POST "$at/$id?node=$NODE&token=$token" --data-binary @bytes)" 400
	jq -e '.error | test("not the bytes")' reply
}

@test "bandwidth: a slow line reads slow, whichever way" {
	start rnp-bench serve >exchanges.jsonl
	small >c.json
	local id token at=$url/v1/exchange
	id=$(id_of c.json)
	# up: half of it, a pause of three seconds, the other half; on a busy machine the rest takes its time, too
	curl -s -o bytes "$at/$id?bytes=2097152"
	token=$(tail -c 32 bytes | od -An -v -tx1 | tr -d ' \n')
	exec 9<>"/dev/tcp/127.0.0.1/$(<port)"
	printf 'POST /v1/exchange/%s?token=%s HTTP/1.1\r\nHost: here\r\nConnection: close\r\nContent-Length: 2097152\r\n\r\n' \
		"$id" "$token" >&9
	head -c 1048576 bytes >&9
	sleep 3
	tail -c 1048576 bytes >&9
	cat <&9 | tail -1 | jq -e .enough
	exec 9>&-
	jq -e '.params.up_ns > 29e8 and .params.down_ns < .params.up_ns and .median < 2.2e6' exchanges.jsonl
	# down: the clock runs until the token arrives
	curl -s -o bytes "$at/$id?bytes=2097152"
	token=$(tail -c 32 bytes | od -An -v -tx1 | tr -d ' \n')
	sleep 3
	curl -s -H Expect: --data-binary @bytes "$at/$id?token=$token" | jq -e .enough
	jq -se '.[1] | .params.down_ns > 3e9 and .params.up_ns < .params.down_ns and .median < 2.2e6' exchanges.jsonl
}
