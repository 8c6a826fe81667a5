#!/usr/bin/env bats
# Several models in one server: loaded when a request needs one, unloaded when nobody does.
load ../helper
load serve

setup_file() { make_chat_model; }
teardown() { stop_serve; }

loaded() { # NAME WANT
	[[ $(curl -sS "$url/metrics" | sed -n "s/^rnp_serve_loaded{model=\"$1\"} //p") == "$2" ]]
}

@test "models: an idle one is unloaded, and the next request loads it; its text and counts stay" {
	start_serve --model "other=$DIR/model" --idle-unload 1s --streams 2
	jq -s -e 'map(.model) == ["chat", "other"]' plan
	[ "$(curl -sS "$url/v1/models" | jq -c '[.data[] | [.id, .chat, .context]]')" = '[["chat",true,256],["other",true,256]]' ]
	local ask='{"model":"chat","prompt":"This program","max_tokens":20,"seed":4}'
	post /v1/completions "$ask" | jq -r '.choices[0].text' >first
	eventually loaded chat 0
	eventually loaded other 0
	generated() { curl -sS "$url/metrics" | sed -n 's/^rnp_serve_generated_tokens_total{model="chat"} //p'; }
	local tokens
	tokens=$(generated)
	((tokens >= 10))
	curl -sS "$url/v1/models" | jq -e '.data | map(.chat) == [true, true]'
	# several at once wait for the same load
	local i pids=()
	for i in 1 2 3 4; do
		post /v1/completions "$ask" >"again.$i" &
		pids+=($!)
	done
	wait "${pids[@]}"
	for i in 1 2 3 4; do jq -r '.choices[0].text' "again.$i" | cmp - first; done
	post /tokenize '{"model":"other","content":"x"}' | jq -e '.count > 0'
	(( $(generated) == 5 * tokens ))
	# what was asked of a model and how long it took is counted by its name
	counted() { [ "$(curl -sS "$url/metrics" | grep -cxE 'rnp_serve_(requests_total|first_token_seconds_count|queue_seconds_bucket)\{model="chat"(,le="\+Inf")?\} 5')" = 3 ]; }
	eventually counted
	curl -sS "$url/metrics" | grep -qx 'rnp_serve_requests_total{model="other"} 0'
	post /v1/completions '{"prompt":"x"}' | jq -e '.error.param == "model"'
}

@test "models: a file that is gone when it is loaded again is 503, and the others go on" {
	cp -r "$DIR/model" "$BATS_TEST_TMPDIR/gone"
	start_serve --model "gone=$BATS_TEST_TMPDIR/gone" --idle-unload 1s --streams 2
	eventually loaded gone 0
	rm -r "$BATS_TEST_TMPDIR/gone"
	post /v1/completions '{"model":"gone","prompt":"x"}' -w '%{http_code}' -o error | grep -qx 503
	jq -e '.error.code == "model_not_loaded" and (.error.message | contains("/") | not)' error
	post /v1/completions '{"model":"chat","prompt":"x"}' | jq -e .id
	# one that is in use stays
	post /v1/completions '{"model":"chat","prompt":"x","max_tokens":240,"n":8,"stream":true,"logit_bias":{"399":-100}}' -N >stream
	[ "$(tail -n 2 stream | head -1)" = "data: [DONE]" ]
}

@test "models: with --memory one takes the place of the other, and nobody that of one in use" {
	start_serve --streams 4 --cache 8MiB
	local one
	one=$(jq .total_bytes plan)
	stop_serve
	start_serve --model "other=$DIR/model" --streams 4 --cache 8MiB --memory $((one * 3 / 2))
	jq -s -e 'length == 2' plan
	loaded chat 0
	loaded other 1
	post /v1/completions '{"model":"chat","prompt":"x"}' | jq -e .id
	loaded chat 1
	loaded other 0
	post /v1/completions '{"model":"chat","prompt":"x","max_tokens":250,"n":4,"stream":true,"logit_bias":{"399":-100}}' -N >stream &
	local client=$!
	eventually test -s stream
	post /v1/completions '{"model":"other","prompt":"x"}' -w '%{http_code}' -o error -D headers >code
	wait "$client"
	# it was done in time, or told to come again
	if [[ $(cat code) == 503 ]]; then
		jq -e '.error.code == "model_does_not_fit"' error
		grep -qi '^retry-after:' headers
	fi
	[ "$(tail -n 2 stream | head -1)" = "data: [DONE]" ]
	fits() { post /v1/completions '{"model":"other","prompt":"x"}' | jq -e .id; }
	eventually fits
	stop_serve
	refused 75 "MiB of memory, and 1 MiB is free; less --context" rnp-serve run --model "$DIR/model" --listen 127.0.0.1:0 --memory 1MiB
}

@test "models: two that take each other's place under streams that end or break off: every answer is right and counted" {
	start_serve --streams 4 --cache 4MiB
	local one length
	one=$(jq .total_bytes plan)
	for length in 1 2 40; do
		post /v1/completions "{\"prompt\":\"This program\",\"max_tokens\":$length,\"seed\":4,\"logit_bias\":{\"399\":-100}}" |
			jq -c '.choices[0].text'
	done >want
	stop_serve
	start_serve --model "other=$DIR/model" --streams 4 --cache 4MiB --memory $((one * 3 / 2)) --idle-unload 20ms
	timeout 300 python3 - "${url##*:}" <<-'END'
		import http.client, json, random, sys, threading, time
		want = dict(zip((1, 2, 40), map(json.loads, open("want"))))
		wrong, counts = [], {"chat": 0, "other": 0}
		leaving = threading.Event()
		def ask(c, model, length):
		    """Asks until the model has room, and returns the response."""
		    while True:
		        c.request("POST", "/v1/completions", json.dumps({"model": model, "prompt": "This program", "max_tokens": length, "seed": 4,
		            "stream": True, "stream_options": {"include_usage": True}, "logit_bias": {"399": -100}}))
		        r = c.getresponse()
		        if r.status == 200:
		            return r
		        error = json.loads(r.read())["error"]
		        if r.status != 503 or error["code"] != "model_does_not_fit":
		            raise ValueError(error)
		        time.sleep(0.003)
		def stays(model, seed, times):
		    draw = random.Random(seed)
		    c = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=60)
		    try:
		        for _ in range(times):
		            length = draw.choice((1, 2, 40))
		            lines = ask(c, model, length).read().decode().split("\n\n")
		            chunks = [json.loads(l[6:]) for l in lines if l.startswith("data: {")]
		            text = "".join(k["text"] for l in chunks for k in l["choices"])
		            if lines[-2] != "data: [DONE]" or text != want[length] or chunks[-1]["usage"]["completion_tokens"] != length:
		                wrong.append((model, length, lines))
		            counts[model] += length
		            time.sleep(draw.random() / 100)
		    except Exception as e:
		        wrong.append((model, repr(e)))
		def leaves(model):
		    while not leaving.is_set():
		        c = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=60)
		        ask(c, model, 240).read(200)
		        c.close()
		        time.sleep(0.01)
		def together(threads):
		    for t in threads:
		        t.start()
		    for t in threads:
		        t.join()
		def clients(times, seed):
		    return [threading.Thread(target=stays, args=(m, seed + i, times)) for i, m in enumerate(("chat", "other", "other"))]
		together(clients(12, 1))
		# none of them broke off: every token is counted, whichever engine made it
		for i in range(400):
		    metrics = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=60)
		    metrics.request("GET", "/metrics")
		    lines = dict(l.rsplit(" ", 1) for l in metrics.getresponse().read().decode().splitlines() if l[0] != "#")
		    made = {m: int(lines['rnp_serve_generated_tokens_total{model="%s"}' % m]) for m in counts}
		    if made == counts or wrong:
		        break
		    time.sleep(0.05)
		assert made == counts or wrong, (made, counts)
		left = [threading.Thread(target=leaves, args=(m,)) for m in ("chat", "other")]
		for t in left:
		    t.start()
		together(clients(6, 9))
		leaving.set()
		for t in left:
		    t.join()
		assert not wrong, wrong[0]
		assert counts["chat"] and counts["other"]
	END
	eventually loaded chat 0
	eventually loaded other 0
	[ "$(metric failed_total)" = 0 ]
}

@test "models: one whose stream goes on is not idle, however long ago it was asked" {
	start_failing --idle-unload 1ms
	local ask='{"prompt":"x","max_tokens":200,"seed":1,"stream":true,"logit_bias":{"399":-100}}'
	post /v1/completions "$ask" -N | sed -n 's/^data: {/{/p' | jq -rj '.choices[0].text' >want
	eventually loaded chat 0
	device slow
	post /v1/completions "$ask" -N >stream &
	local client=$! until
	eventually grep -q '"text"' stream
	# it stands still in the middle, however busy the machine is; idle ones are looked for each second
	device hold
	until=$((SECONDS + 3))
	while ((SECONDS < until)); do
		loaded chat 1
		sleep 0.1
	done
	run ! process_is_gone "$client"
	device
	wait "$client"
	sed -n 's/^data: {/{/p' stream | jq -rj '.choices[0].text' | cmp - want
	eventually loaded chat 0
}

@test "models: on a GPU with room for one, each takes the place of the idle one, with a whole cache; the plan is what is taken" {
	export RNP_CUDA_PLUGIN=$RNP_BUILD/emu/librnp_cuda.so CUDA_EMU_MEMORY=$((60 << 20))
	start_serve --model "other=$DIR/model" --device cuda --streams 4 --idle-unload 10m
	# what one was loaded into is free again for the next, and whole contexts of all streams fit
	jq -s -e 'length == 2 and all(.fits and .available_bytes == 60 * 1048576) and .[0].cache_bytes == .[1].cache_bytes' plan
	local one asked
	for one in chat other chat; do
		post /v1/completions "{\"model\":\"$one\",\"prompt\":\"x\",\"max_tokens\":2}" | jq -e .id
		loaded "$one" 1
	done
	loaded other 0
	stop_serve
	# two of three: what is free after the first is less by at most its plan, and by all of its weights and cache
	CUDA_EMU_MEMORY=$((110 << 20)) start_serve --model "other=$DIR/model" --device cuda --streams 4
	asked=$(jq -s '.[0].available_bytes - .[1].available_bytes' plan)
	jq -s -e --argjson asked "$asked" '.[0] | $asked <= .total_bytes and
		$asked >= .weights_bytes + .cache_bytes + 16 * 1048576' plan
}

@test "models: where a GPU's cache is too small for f16 and not for q8_0, one line names the option, and a plan does" {
	export RNP_CUDA_PLUGIN=$RNP_BUILD/emu/librnp_cuda.so
	cd "$BATS_TEST_TMPDIR"
	plan_of() { rnp-serve plan --model "$DIR/model" --device cuda --streams 16 --context 2048 "$@"; }
	plan_of >f16
	plan_of --cache-type q8_0 >q8_0
	jq -e '.streams == 16 and .fits and (has("proposals") | not)' f16
	export CUDA_EMU_MEMORY=$((($(jq .total_bytes f16) + $(jq .total_bytes q8_0)) / 2))
	# beside the record there is a line about the context
	run -1 --separate-stderr plan_of
	jq -e '.fits == false and (.proposals | any(startswith("--cache-type q8_0 takes ")))' <<<"$output"
	plan_of --cache-type q8_0 | jq -e .fits
	start_serve --device cuda --streams 16 --context 2048
	jq -e --slurpfile whole f16 '.fits and
		.proposals == ["the cache has room for \(.cache_bytes * 2048 * 16 / $whole[0].cache_bytes) tokens, not for 16 texts of 2048: --cache-type q8_0 has it for all"]' plan
	[ "$(grep -c "model 'chat': the cache has room for .*--cache-type q8_0" serve.err)" = 1 ]
	stop_serve
	start_serve --device cuda --streams 16 --context 2048 --cache-type q8_0
	jq -e '.fits and (has("proposals") | not)' plan
	! grep cache-type serve.err
}
