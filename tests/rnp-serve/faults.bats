#!/usr/bin/env bats
# rnp-serve run where something fails: the device, memory, the model in the middle of a stream, a queue that does not move.
load ../helper
load serve

setup_file() { make_chat_model; }
teardown() {
	rm -f "$BATS_TEST_TMPDIR/slow" # as long as it is there, slow_folder.c waits
	stop_serve
}

# The model with an output matrix of its own, and no numbers in the embedding of the token "ork": whoever says it cannot go on.
make_broken_model() {
	[[ -d $BATS_FILE_TMPDIR/broken ]] && return
	cp -r "$DIR/model" "$BATS_FILE_TMPDIR/broken"
	python3 - "$BATS_FILE_TMPDIR/broken" <<-'END'
		import json, struct, sys
		path = sys.argv[1] + "/model.safetensors"
		data = open(path, "rb").read()
		n, = struct.unpack("<Q", data[:8])
		head, data = json.loads(data[8:8 + n]), bytearray(data[8 + n:])
		embed = head["model.embed_tokens.weight"]
		begin, end = embed["data_offsets"]
		row = (end - begin) // embed["shape"][0]
		head["lm_head.weight"] = dict(embed, data_offsets=[len(data), len(data) + end - begin])
		data += data[begin:end]
		data[begin + 300 * row:begin + 301 * row] = struct.pack("<f", float("nan")) * (row // 4)
		text = json.dumps(head).encode()
		open(path, "wb").write(struct.pack("<Q", len(text)) + text + data)
		config = json.load(open(sys.argv[1] + "/config.json"))
		config["tie_word_embeddings"] = False
		json.dump(config, open(sys.argv[1] + "/config.json", "w"))
	END
}

@test "faults: an error in a stream that has begun is an event, and the others' streams go on" {
	make_broken_model
	start_serve --model "broken=$BATS_FILE_TMPDIR/broken"
	local fine='"max_tokens":200,"seed":1,"logit_bias":{"300":-100,"399":-100}'
	post /v1/completions "{\"model\":\"broken\",\"prompt\":\"x\",$fine}" | jq -r '.choices[0].text' >want
	post /v1/completions "{\"model\":\"broken\",\"prompt\":\"x\",$fine}" >other &
	local other=$! digits i
	printf -v digits '0123456789%.0s' {1..10}
	# a random model escapes what it can: digits shall be digits
	local bias
	bias=$(post /tokenize '{"model":"broken","content":"0123456789"}' | jq -c '[.tokens[] | {key: tostring, value: 100}] | from_entries | .["300"] = 100')
	# a hundred digits, and then the token after which nothing can be computed
	local schema="{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"s\",\"schema\":{\"enum\":[\"${digits}ork\"]}}}"
	local ask="\"model\":\"broken\",\"logit_bias\":$bias,\"response_format\":$schema,\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]"
	post /v1/chat/completions "{$ask,\"stream\":true}" -N >stream
	[[ $(grep -o '^data: {"id.*' stream | cut -c7- | jq -rj '.choices[0].delta.content // empty') == '"0123456789'* ]]
	[ "$(tail -n 3 stream | head -1)" = "event: error" ]
	tail -n 2 stream | sed -n 's/^data: //p' | jq -e 'keys == ["error"] and .error.code == "engine_error" and .error.type == "server_error" and
		.error.param == null and (.error.message | contains("not finite"))'
	[ "$(grep -c DONE stream)" = 0 ]
	# that of the responses API is an event like its others; about every other text comes to that token
	for ((i = 0; i < 60; i++)); do
		post /v1/responses '{"model":"broken","input":"x","stream":true}' -N >stream
		grep -q 'output_text.delta' stream && [[ $(tail -n 3 stream | head -1) == "event: error" ]] && break
	done
	sed -n 's/^data: //p' stream | jq -s -e '(map(.sequence_number) == [range(length)]) and (.[-1] | .type == "error" and .code == "engine_error" and
		.message == .error.message and (.message | contains("not finite")))'
	# not streamed, it is a status
	[ "$(post /v1/chat/completions "{$ask}" -o error -w '%{http_code}')" = 500 ]
	jq -e '.error.code == "engine_error"' error
	wait "$other"
	jq -r '.choices[0].text' other | cmp - want
	[[ -d $ROOT/build/node/node_modules/openai ]] || return 0
	NODE_PATH=$ROOT/build/node/node_modules timeout 60 node --input-type=module - "$url" "{$ask}" <<-'END'
		import assert from "node:assert";
		import { createRequire } from "node:module";
		const OpenAI = createRequire(process.env.NODE_PATH + "/")("openai");
		const client = new OpenAI({ apiKey: "none", baseURL: process.argv[2] + "/v1", maxRetries: 0 });
		let text = "";
		await assert.rejects(async () => {
			for await (const c of await client.chat.completions.create({ ...JSON.parse(process.argv[3]), stream: true }))
				text += c.choices[0]?.delta?.content ?? "";
		}, (e) => e instanceof OpenAI.APIError && e.code === "engine_error");
		assert.ok(text.startsWith('"0123456789'));
	END
}

@test "faults: a stream that waits gets a comment every 5 s, and its answer when its turn comes" {
	start_serve --streams 1 --queue 1000
	# before it more answers than are computed in that time: they leave when the comment has come
	python3 - "${url##*:}" <<-'END'
		import json, socket, sys
		def ask(body):
		    s = socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=60)
		    body = json.dumps(body).encode()
		    s.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
		    return s
		def read(s, until):
		    got = b""
		    while until not in got:
		        piece = s.recv(65536)
		        assert piece, got
		        got += piece
		    return got
		others = [ask({"prompt": "x", "max_tokens": 250, "n": 8, "logit_bias": {"399": -100}}) for _ in range(100)]
		waits = ask({"prompt": "x", "max_tokens": 5, "stream": True})
		head = read(waits, b": waiting\n\n")
		assert b"HTTP/1.1 200 OK\r\n" in head and b"data:" not in head, head
		for s in others:
		    s.close()
		rest = read(waits, b"data: [DONE]\n\n")
		assert b'"finish_reason":"length"' in rest, rest
	END
}

@test "faults: memory runs out: that request alone fails, the others go on, and so does the server" {
	# one arena: other threads' free memory is no way out
	export MALLOC_ARENA_MAX=1
	start_serve
	unset MALLOC_ARENA_MAX
	# some megabytes, as what was freed is still there: this model has little
	local i large='{"prompt":["y","y","y","y","y","y","y","y"],"max_tokens":200,"n":8,"logprobs":20,"seed":2,"logit_bias":{"399":-100}}'
	local small='{"prompt":"x","max_tokens":200,"seed":1,"stream":true,"logit_bias":{"399":-100}}'
	post /v1/completions "$small" -N >stream
	texts stream >want
	[ -s want ]
	limit() { python3 -c 'import resource, sys; resource.prlimit(int(sys.argv[1]), resource.RLIMIT_AS, (int(sys.argv[2]), -1))' "$server" "$1"; }
	limit $(($(awk '/^VmSize/ { print $2 }' "/proc/$server/status") * 1024))
	# which of two asks for the byte that is not there is chance: nearly always it is the large one
	for i in 1 2 3; do
		post /v1/completions "$small" -N >stream &
		local other=$!
		run -0 post /v1/completions "$large" -o error -w '%{http_code}'
		wait "$other"
		[[ $output == 50[03] ]]
		jq -e '.error.message | test("(out of|no) memory")' error
		texts stream | cmp - want && break
	done
	[ "$i" -lt 3 ]
	run ! process_is_gone "$server"
	limit -1
	post /v1/completions "$large" | jq -e '.choices | length == 64'
	post /v1/completions "$small" -N >stream
	texts stream | cmp - want
}

texts() { sed -n 's/^data: {/{/p' "$1" | jq -rj '.choices[0].text // empty'; }
error_of() { tail -n 2 "$1" | sed -n 's/^data: //p'; }

# No answer has a page of the cache any more: what is used is kept for who asks again
no_page_lost() {
	[ "$(metric running)$(metric waiting)" = 00 ] && [ "$(metric cache_pages_used)" = "$(metric cache_pages_kept)" ]
}

@test "faults: a device that fails at the start of a step ends its answers, and nobody else's" {
	start_failing --streams 2
	local ask='"prompt":"x","max_tokens":200,"logit_bias":{"399":-100}' op answers=()
	post /v1/completions "{$ask,\"seed\":3}" | jq -r '.choices[0].text' >want
	for op in put batch get; do
		# two are computed, one streamed; the third waits
		rm -f stream newer
		device slow
		post /v1/completions "{$ask,\"seed\":1,\"stream\":true}" -N >stream &
		answers=($!)
		eventually grep -q '"text"' stream
		post /v1/completions "{$ask,\"seed\":2}" -o error -w '%{http_code}' >code &
		answers+=($!)
		eventually eval '[ "$(metric running)" = 2 ]'
		post /v1/completions "{$ask,\"seed\":3}" >third &
		answers+=($!)
		eventually eval '[ "$(metric waiting)" = 1 ]'
		device once "$op" 69
		wait "${answers[@]}"
		[ "$(tail -n 3 stream | head -1)" = "event: error" ]
		[ "$(grep -c DONE stream)" = 0 ]
		error_of stream | jq -e --arg op "$op" 'keys == ["error"] and .error == {message: "cuda:0: \($op): unspecified launch failure",
			type: "server_error", param: null, code: "engine_error"}'
		[ "$(cat code)" = 500 ]
		error_of stream | cmp - <(cat error; echo)
		jq -r '.choices[0].text' third | cmp - want
		eventually no_page_lost
		[ "$(curl -sS -o health -w '%{http_code}' "$url/health")" = 200 ]
	done
	[ "$(metric failed_total)" = 6 ]
	[ "$(grep -c "rnp-serve: model 'chat': cuda:0: put: unspecified launch failure" serve.err)" = 2 ]
	# one that stays broken is told each who asks, and ends when it is told to
	device always put 69
	for op in chat/completions completions embeddings; do
		[ "$(post "/v1/$op" '{"prompt":"x","input":"x","messages":[{"role":"user","content":"x"}]}' -o error -w '%{http_code}')" = 500 ]
		jq -e '.error.code == "engine_error"' error
		[ "$op" = embeddings ] || [ "$(curl -sS -o health -w '%{http_code}' "$url/health")" = 200 ]
	done
	no_page_lost
	# after three in a row it says so to whoever shares requests out, and takes it back when a step is computed
	[ "$(curl -sS -o health -w '%{http_code}' "$url/health")" = 503 ]
	grep -qF 'the device failed in the last 3 steps of a model' health
	device
	post /v1/completions "{$ask,\"seed\":3}" | jq -r '.choices[0].text' | cmp - want
	[ "$(curl -sS -o health -w '%{http_code}' "$url/health")" = 200 ]
	stop_serve
	[ "$stopped_with" = 0 ]
}

# A server in whose device nothing moves while it loads: the port is written when the models are there, and until then the kernel knows it
start_held() {
	rm -f port
	rnp-serve run --model "chat=$DIR/model" --listen 127.0.0.1:0 --port-file port --log-file requests.log --device cuda:0 >plan 2>serve.err 3>&- &
	server=$!
	listens() {
		local fd inode number
		for fd in "/proc/$server/fd"/*; do
			inode=$(readlink "$fd") && [[ $inode == socket:* ]] || continue
			number=$(awk -v inode="${inode//[^0-9]/}" '$4 == "0A" && $10 == inode { print substr($2, 10) }' /proc/net/tcp)
			[[ -n $number ]] && url=http://127.0.0.1:$((16#$number)) && return
		done
		return 1
	}
	eventually listens
}

@test "faults: when the port's file is there requests are answered, however slow the disk" {
	gcc -shared -fPIC -O1 -D_GNU_SOURCE -o "$BATS_TEST_TMPDIR/slow.so" "$ROOT/tests/fake/slow_folder.c" -ldl
	export SLOW_FOLDER=$BATS_TEST_TMPDIR/slow
	touch "$SLOW_FOLDER"
	LD_PRELOAD=$BATS_TEST_TMPDIR/slow.so start_serve
	post /v1/completions '{"prompt":"x","max_tokens":1}' | jq -e '.usage.completion_tokens == 1'
	rm "$SLOW_FOLDER"
}

@test "faults: while models are loaded and while it ends, /health and requests are 503" {
	cd "$BATS_TEST_TMPDIR"
	make_failing
	device hold
	start_held
	answers() { # STATUS WORDS
		[ "$(curl -sS -o health -w '%{http_code}' "$url/health")" = "$1" ]
		grep -qF "$2" health
	}
	answers 503 'the models are being loaded'
	[ "$(post /v1/completions '{"prompt":"x"}' -D headers -o error -w '%{http_code}')" = 503 ]
	grep -qi '^retry-after: 1' headers
	jq -e '.error.code == "loading" and .error.type == "server_error"' error
	[ "$(curl -sS -o /dev/null -w '%{http_code}' "$url/")" = 200 ]
	curl -sS "$url/metrics" | grep -qxF 'rnp_serve_loaded{model="chat"} 0'
	[ ! -e port ]
	[ ! -s plan ]
	device
	eventually test -s port
	[ "$url" = "http://127.0.0.1:$(cat port)" ]
	answers 200 ok
	jq -e '.fits' plan
	device slow
	post /v1/completions '{"prompt":"x","max_tokens":240,"stream":true,"logit_bias":{"399":-100}}' -N >stream &
	local client=$!
	eventually grep -q '"text"' stream
	device hold
	kill -TERM "$server"
	ends() { answers 503 'the server is about to end'; }
	eventually ends
	[ "$(post /v1/completions '{"prompt":"x"}' -o error -w '%{http_code}')" = 503 ]
	jq -e '.error.code == "draining"' error
	device
	wait "$client"
	[ "$(tail -n 2 stream | head -1)" = "data: [DONE]" ]
	await_serve
	[ "$stopped_with" = 0 ]
	# what cannot be loaded is still told, and by its code
	refused 66 "nowhere" rnp-serve run --model nowhere --listen 127.0.0.1:0
}

@test "faults: SIGTERM ends a server that loads its models, and one whose device does not come back" {
	cd "$BATS_TEST_TMPDIR"
	make_failing
	device hold
	start_held
	kill -TERM "$server"
	await_serve
	[ "$stopped_with" = 0 ]
	[ ! -e port ]
	[ ! -s serve.err ]
	device
	start_serve --device cuda:0 --drain 0s
	device slow
	post /v1/completions '{"prompt":"x","max_tokens":240,"stream":true,"logit_bias":{"399":-100}}' -N >stream 2>said &
	local client=$!
	eventually grep -q '"text"' stream
	device hold
	kill -TERM "$server"
	await_serve
	[ "$stopped_with" = 71 ]
	[ "$(tail -n 1 serve.err)" = "rnp-serve: a device or a model's file does not answer: ended without waiting for it" ]
	wait "$client" || true
}

@test "faults: a device without memory for a step: the newest answer fails, the other goes on with the same text" {
	start_failing
	local ask='"prompt":"x","max_tokens":200,"stream":true,"logit_bias":{"399":-100}' op
	post /v1/completions "{$ask,\"seed\":1}" -N >stream
	texts stream >want
	for op in put batch get; do
		rm -f stream newer
		device slow
		post /v1/completions "{$ask,\"seed\":1}" -N >stream &
		local older=$!
		eventually grep -q '"text"' stream
		post /v1/completions "{$ask,\"seed\":2}" -N >newer &
		local newer=$!
		eventually grep -q '"text"' newer
		device once "$op" 71
		wait "$older" "$newer"
		texts stream | cmp - want
		error_of newer | jq -e '.error.code == "engine_error"'
		eventually no_page_lost
	done
}

# Biases against the special tokens, so that an answer has all its tokens.
never_ends() { jq -nc '[range(396; 400) | {key: tostring, value: -100}] | from_entries'; }

@test "faults: logprobs of long answers take little memory until they are written, and are as many as one request may have" {
	start_serve --context 1024
	local before after ask
	ask="{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],\"n\":8,\"max_tokens\":750,\"seed\":1,\"logit_bias\":$(never_ends)}"
	peak() { awk '$1 == "VmHWM:" { print $2 }' "/proc/$server/status"; }
	post /v1/chat/completions "$ask" | jq -e '.usage.completion_tokens == 6000'
	before=$(peak)
	post /v1/chat/completions "${ask%?},\"logprobs\":true,\"top_logprobs\":20}" >told
	after=$(peak)
	jq -e '[.choices[].logprobs.content | length == 750 and all(.top_logprobs | length == 20)] == [range(8) | true]' told
	# 6,000 tokens with 20 others each: 1 MB as they are kept, 10 MB as they are sent
	((after - before < 60000)) || fail "$((after - before)) kB"
	# 2^20 tokens and others in all: 48 tokens of each answer
	jq -nc --argjson b "$(never_ends)" '{prompt: [range(128) | "Hi"], n: 8, max_tokens: 50, logprobs: 20, logit_bias: $b}' >many
	post /v1/completions @many >told
	jq -e '.choices | length == 1024 and all(.finish_reason == "length" and (.logprobs.tokens | length) == 48)' told
	# streamed there is no such bound
	jq -c '.prompt = .prompt[:2] | .stream = true | .stream_options.include_usage = true' many >stream
	post /v1/completions @stream -N | sed -n 's/^data: //p' | tail -n 2 | head -n 1 | jq -e '.usage.completion_tokens == 800'
}

@test "faults: a request that waits keeps its text, not the values of its JSON" {
	start_serve --context 8192 --streams 1
	post /v1/completions "{\"prompt\":\"x\",\"n\":8,\"max_tokens\":8000,\"logit_bias\":$(never_ends)}" >/dev/null &
	local first=$! before after i
	runs() { (($(metric running) == 1)); }
	eventually runs
	resident() { awk '$1 == "VmRSS:" { print $2 }' "/proc/$server/status"; }
	# four times 600 kB of text in a field that is unknown and in one that is known, which are 100 MB as values
	jq -nc '{prompt: "x", max_tokens: 1, unknown: [range(300000) | 0]}' >unknown
	jq -nc '{messages: [{role: "user", content: "x"}], max_tokens: 1, chat_template_kwargs: {it: [range(300000) | 0]}}' >known
	before=$(resident)
	for i in 1 2 3 4; do
		post /v1/completions @unknown >/dev/null &
		post /v1/chat/completions @known >/dev/null &
	done
	waits() { (($(metric waiting) >= 15)); }
	eventually waits
	after=$(resident)
	((after - before < 60000)) || fail "$((after - before)) kB"
	kill "$first"
	stop_serve -KILL
}

@test "faults: who reads an answer too slowly is told so and holds no memory, and the others are answered" {
	start_serve --context 2048
	local ask
	ask=$(jq -nc --argjson b "$(never_ends)" '{messages: [{role: "user", content: "Hi"}], n: 8, max_tokens: 2000, stream: true,
		logprobs: true, top_logprobs: 20, logit_bias: $b}')
	python3 - "${url##*:}" "$ask" <<-'END'
		import http.client, json, socket, sys, time, urllib.request
		port, body = int(sys.argv[1]), sys.argv[2].encode()
		s = socket.socket()
		s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
		s.settimeout(120)
		s.connect(("127.0.0.1", port))
		s.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
		def metric(name):
		    text = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics").read().decode()
		    return int(next(l for l in text.splitlines() if l.startswith(name + "{")).split()[-1])
		while not metric("rnp_serve_failed_total"):
		    assert metric("rnp_serve_generated_tokens_total") < 16000, "all of it was kept"
		    time.sleep(0.05)
		assert metric("rnp_serve_generated_tokens_total") < 16000
		other = urllib.request.Request(f"http://127.0.0.1:{port}/v1/completions", b'{"prompt":"x","max_tokens":4}')
		assert json.load(urllib.request.urlopen(other))["usage"]["completion_tokens"]
		# http.client puts the chunks together: the message may be cut between two of them
		response = http.client.HTTPResponse(s)
		response.begin()
		got = response.read()
		end = got[got.index(b"event: error"):]
		assert b"read too slowly" in end and end.count(b"data: ") == 1 and b"waiting" not in end, end
	END
	grep -q 'read too slowly' serve.err
}

@test "faults: of a prediction that is longer than any answer the engine searches as much as an answer may have" {
	start_serve
	local ask answer bias
	bias=$(post /tokenize '{"content":"3456789"}' | jq -c '[.tokens[] | {key: tostring, value: 100}] | from_entries')
	ask="\"messages\":[{\"role\":\"user\",\"content\":\"Say it\"}],\"max_tokens\":40,\"temperature\":2,\"seed\":1,\"logit_bias\":$bias"
	answer=$(post /v1/chat/completions "{$ask}" | jq -r .choices[0].message.content)
	[[ $answer =~ ^[3-9]{40}$ ]]
	# how many tokens of the prediction were right, which comes behind so many others
	right() {
		{ printf 'Q%.0s' $(seq "$1"); printf '%s' "$answer"; } | jq -Rsc "{$ask, prediction: {type: \"content\", content: .}}" |
			post /v1/chat/completions @- | jq .usage.completion_tokens_details.accepted_prediction_tokens
	}
	(($(right 100) > 15))
	(($(right 300) < 10))
}

@test "faults: no body takes more than eight times its bytes of memory" {
	start_serve
	python3 "$ROOT/tests/tools/serve_memory.py" "$(cat port)" "$server" "$DIR/model"
	# nor is one read any more for what is wrong with it
	[ "$(awk '{ print $14 + $15 }' "/proc/$server/stat")" -lt 1500 ]
}
