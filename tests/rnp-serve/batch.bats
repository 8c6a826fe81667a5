#!/usr/bin/env bats
# rnp-serve batch and bench: files of requests, answered once each; a load, and what came of it.
load ../helper
load serve

setup_file() { make_chat_model; }
setup() { cd "$BATS_TEST_TMPDIR" || return; }
teardown() { stop_serve; }

questions() {
	jq -nc --argjson n "$1" 'range($n) | {custom_id: "q\(.)", method: "POST", url: "/v1/completions",
		body: {model: "any", prompt: "Question number \(.)", max_tokens: (5 + . % 40), seed: .}}'
}

@test "batch: every line has its answer, in order, and the text is the server's" {
	questions 40 >in
	rnp-serve batch --model "$DIR/model" in >out
	jq -s -e 'length == 40 and map(.custom_id) == [range(40) | "q\(.)"] and
		all(.response.status_code == 200 and .error == null)' out
	start_serve
	jq -c 'select(.custom_id == "q17").body | del(.model)' in >ask
	[ "$(post /v1/completions @ask | jq .choices[0].text)" = \
		"$(jq 'select(.custom_id == "q17").response.body.choices[0].text' out)" ]
}

@test "batch: answers of every kind" {
	{
		echo '{"custom_id":"a","url":"/v1/responses","body":{"input":"Hi","max_output_tokens":3}}'
		echo '{"custom_id":"b","url":"/v1/embeddings","body":{"input":["x","y"],"dimensions":4}}'
	} >in
	rnp-serve batch --model "$DIR/model" in >out
	jq -s -e '.[0].response.body.object == "response" and .[0].response.body.output[0].type == "message" and
		(.[1].response.body.data | length) == 2 and (.[1].response.body.data[1].embedding | length) == 4' out
}

@test "batch: inputs have at most 300,000 tokens together, as in the server" {
	{
		jq -nc '{custom_id: "many", url: "/v1/embeddings", body: {input: [range(1600) | [range(200) | 65]]}}'
		echo '{"custom_id":"few","url":"/v1/embeddings","body":{"input":["x"],"dimensions":4}}'
	} >in
	rnp-serve batch --model "$DIR/model" in >out
	jq -s -e '.[0].response.status_code == 400 and .[0].response.body.error.code == "max_tokens_per_request" and .[1].response.status_code == 200' out
}

@test "batch: bad lines are answered, too, and stop nothing" {
	{
		echo 'no json'
		echo '{"custom_id":"a","url":"/v1/nothing","body":{}}'
		echo '{"url":"/v1/completions","body":{"prompt":"x"}}'
		echo '{"custom_id":"b","url":"/v1/completions","body":{"prompt":"x","n":99}}'
		echo '{"custom_id":"c","url":"/v1/completions"}'
		echo '{"custom_id":"d","url":"/v1/chat/completions","body":{"messages":[{"role":"user","content":"x"}],"max_tokens":2,"stream":true}}'
	} >in
	rnp-serve batch --model "$DIR/model" in >out 2>err
	grep -q '5 of 6 lines were refused' err
	jq -s -e 'map(.response.status_code) == [400,400,400,400,400,200] and
		map(.custom_id) == [null,"a",null,"b","c","d"] and .[3].response.body.error.param == "n"' out
}

@test "batch: where every line is refused it says so and why, and ends with 65" {
	echo '{"custom_id":"b","url":"/v1/completions","body":{"prompt":"x","n":99}}' >bad
	cat bad bad >in
	run rnp-serve batch --model "$DIR/model" in
	assert_failure 65
	assert_line --regexp '^rnp-serve: none of 2 lines was answered: line 1: 400, .*n'
	# the answers are there all the same; what an earlier run has answered does not count
	assert_equal "$(jq -c '.response.status_code?' <<<"$output" 2>/dev/null | xargs)" "400 400"
	questions 1 >good
	rnp-serve batch --model "$DIR/model" --resume done good
	cat bad >>good
	refused 65 "none of 1 lines was answered: line 2: 400" rnp-serve batch --model "$DIR/model" --resume done good
	assert_equal "$(jq .response.status_code done | xargs)" "200 400"
	# nothing left to do is no failure
	rnp-serve batch --model "$DIR/model" --resume done good
}

# 17 MB of a text
long() { head -c 17000000 /dev/zero | tr '\0' x; }

@test "batch: a line that is too long is refused by its name, and stops nothing" {
	{
		printf '{"body":{"custom_id":"inner","x":["}\\"{"]}, "custom_id" : "so\\u0021 \\"long\\"","pad":"'
		long
		echo '"}'
		printf '{"body":{"custom_id":"inner","pad":"'
		long
		echo '"},"custom_id":"behind"}'
		printf '["custom_id",{"custom_id":"listed"},"'
		long
		echo '"]'
		questions 1
		printf '"custom_id":"' # no object, and without an end
		long
	} >in
	rnp-serve batch --model "$DIR/model" in >out 2>err
	grep -q '4 of 5 lines were refused' err
	jq -s -e 'map(.response.status_code) == [413, 413, 413, 200, 413] and
		map(.custom_id) == ["so! \"long\"", null, null, "q0", null] and map(.id) == [range(5) | "batch_req_\(. + 1)"] and
		(.[1].response.body.error | .code == "request_too_large" and
			.message == "in:2: the line is longer than 16777216 bytes")' out
	head -2 out >some # they are passed over as others are
	rnp-serve batch --model "$DIR/model" --resume some in
	jq -s -e 'map(.custom_id) == ["so! \"long\"", null, null, "q0", null]' some
}

@test "batch: what is behind the limit of a line takes no memory" {
	lines_of() { yes 1234567890123456789012345678901 | tr -d '\n' | head -c "$1"; echo; questions 1; }
	bytes_of() { python3 -c 'import resource, subprocess, sys
subprocess.run(sys.argv[1:], stdout=open("out", "w"), check=True, timeout=300)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)' rnp-serve batch --model "$DIR/model"; }
	few=$(lines_of 17000000 | bytes_of)
	many=$(lines_of 200000000 | bytes_of)
	jq -s -e 'map(.response.status_code) == [413, 200]' out
	((many < few + 16000)) || fail "$few KiB became $many"
}

@test "batch: a body is read as the server reads it: as deep, and its numbers as they came" {
	cp -r "$DIR/model" model
	jq '.max_position_embeddings = 1024' "$DIR/model/config.json" >model/config.json
	cat >calls.jinja <<-'END' # that shows tools itself, as most do
		{%- for t in tools or [] %}{{ t.function | tojson }}
		{% endfor %}
		{%- for m in messages %}{{ m.role }}: {{ m.content }}
		{%- for c in m.tool_calls or [] %}@{{ c.function.name }}({{ c.function.arguments | tojson }}){% endfor %}
		{% endfor %}
	END
	jq --rawfile t calls.jinja '.chat_template = $t' "$DIR/model/tokenizer_config.json" >model/tokenizer_config.json
	jq -nc 'def nest(n): if n == 0 then {const: 1} else {type: "object", properties: {a: nest(n - 1)}, required: ["a"], additionalProperties: false} end;
		{custom_id: "deep", url: "/v1/chat/completions", body: {max_tokens: 800, messages: [{role: "user", content: "x"}],
			response_format: {type: "json_schema", json_schema: {name: "a", schema: nest(30)}}}}' >in
	ask='{"messages":[{"role":"user","content":"x"}],"max_tokens":4,"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","default":1.0}}}]}'
	echo "{\"custom_id\":\"real\",\"url\":\"/v1/chat/completions\",\"body\":$ask}" >>in
	rnp-serve batch --model model in >out
	jq -s -e 'all(.response.status_code == 200) and (.[0].response.body.choices[0].message.content | fromjson | [paths] | length == 30)' out
	DIR=$PWD start_serve
	[ "$(post /v1/chat/completions "$ask" | jq -e .usage.prompt_tokens)" = "$(jq -s -e '.[1].response.body.usage.prompt_tokens' out)" ]
}

@test "batch: killed at any time and begun again, each line is answered once" {
	questions 300 >in
	rnp-serve batch --model "$DIR/model" in >want
	local n
	grown() { [[ $(wc -l <out) -ge $1 ]]; }
	for n in 20 60 110; do # its input does not end: it cannot be done before it is killed
		mkfifo pipe
		exec 9<>pipe
		rnp-serve batch --model "$DIR/model" --resume out --streams 1 <pipe 3>&- 9>&- &
		server=$!
		head -n "$n" in >&9
		touch out
		eventually grown $((n - 8))
		kill -9 "$server"
		wait "$server" || true
		server=
		exec 9>&-
		rm pipe
	done
	[ "$(wc -l <out)" -lt 300 ]
	printf '{"id":"half a li' >>out
	rnp-serve batch --model "$DIR/model" --resume out in
	text='[.custom_id, .response.body.choices[0].text] | @json'
	diff <(jq -r "$text" want) <(jq -r "$text" out)
	rnp-serve batch --model "$DIR/model" --resume out in # nothing is left to do
	[ "$(wc -l <out)" = 300 ]
	head -5 in >few
	refused 65 "more than there are lines" rnp-serve batch --model "$DIR/model" --resume out few
	# what holds no answers is not cut, not even behind its last line break, and not taken for them
	printf %s "$(cat few)" >questions
	refused 65 "questions:1: not the answer to line 1" rnp-serve batch --model "$DIR/model" --resume questions questions
	(head -1 out; printf 'a note of mine') >questions
	refused 65 "questions:2: not the beginning of an answer" rnp-serve batch --model "$DIR/model" --resume questions few
	printf 'a note of mine' | cmp - <(tail -n 1 questions)
	sed 1d out >questions
	refused 65 "questions:1: not the answer to line 1" rnp-serve batch --model "$DIR/model" --resume questions few
	# nor is what a disk lost in the middle, or the answers to other questions
	sed '2s/.\{20\}$//' out >questions
	refused 65 "questions:2: the end of the answer is missing" rnp-serve batch --model "$DIR/model" --resume questions in
	head -3 out >questions
	sed 2d in >others
	refused 65 "others:2: 'questions' has an answer to another custom_id" rnp-serve batch --model "$DIR/model" --resume questions others
	head -3 out | cmp - questions
	refused 66 "not a regular file" rnp-serve batch --model "$DIR/model" --resume /dev/full few
}

@test "bench: closed and open loop, drawn and given prompts" {
	start_serve
	rnp-serve bench -v --url "$url" --clients 4 --requests 12 --tokens 8 >closed 2>said
	grep -Eq '; [1-9][0-9]* of answers' said
	# of the windows of a load that stood still most of its time, most have no tokens
	jq -s -e 'map(.test) == ["tokens_per_second", "first_token", "token", "request"] and
		all(.kind == "rnp.bench" and .suite == "serve" and (.high > 0 or .test == "tokens_per_second") and .low <= .median and .params.failed == 0 and
			.params.model == "chat" and .params.clients == 4) and
		(.[1:] | all(.params.p90 >= .median and .params.p99 >= .params.p90))' closed
	rnp-serve bench --url "$url" --rate 100 --requests 10 --tokens 4 --chat >open
	jq -s -e '.[1].params.loop == "open" and .[1].samples == 10' open
	printf '%s\n' 'a text' '{"prompt":"another","tokens":3}' >prompts
	rnp-serve bench --url "$url" --prompts prompts --requests 4 --tokens 4 >given
	[ "$(metric requests_total)" = 26 ]
	# as clients of the API name a server
	# with the /v1 that clients of OpenAI's API are given
	rnp-serve metrics --url "$url/v1/" --name generated_tokens | jq -e '.kind == "rnp.metric"'
	rnp-serve bench --url "$url/v1/" --requests 1 --tokens 4 | jq -s -e 'length == 4 and all(.params.failed == 0)'
	rnp-serve bench -v --url "$url" --requests 4 --words 4 --shared 60 --tokens 2 >/dev/null 2>said
	grep -Eq ' [1-9][0-9]* of them cached' said
	printf 'one\n{"prompt":7}\n' >spoilt # also when it is the last that is needed
	refused 65 "spoilt:2" rnp-serve bench --url "$url" --prompts spoilt --requests 2
	refused 69 "" rnp-serve bench --url http://127.0.0.1:1 --model x --requests 2
	refused 1 "nothing" rnp-serve bench --url "$url" --model nothing --requests 2
}

@test "bench: it shows the key of a file, and says what failed" {
	rnp-serve key --name a --limit-tokens 150 --append keys >key
	start_serve --api-keys keys
	refused 77 "" rnp-serve bench --url "$url" --requests 1
	run_split rnp-serve bench --url "$url" --api-key-file key --requests 12 --tokens 30 --words 4
	assert_equal "$status" 1
	[[ $stderr == *"requests failed"* ]]
	jq -s -e '.[0].params.failed >= 1' <<<"$output"
}

@test "bench: a server that sends or counts more than it was asked for gets no figures" {
	cd "$BATS_TEST_TMPDIR"
	local behaviour words fake
	for behaviour in endless-answer counts-much; do
		python3 "$ROOT/tests/tools/fake_http.py" "$behaviour" lies 3>&- &
		fake=$!
		eventually test -s lies
		words="more text comes than the 8 tokens asked for"
		[[ $behaviour == counts-much ]] && words="it counts 1000000000 tokens where 8 were asked for"
		run_split timeout 60 rnp-serve bench --url "http://127.0.0.1:$(cat lies)" --model x --requests 2 --tokens 8
		kill "$fake"
		wait "$fake" || true
		rm lies
		[[ $status != 0 && $status != 124 && -z $output && $stderr == *"$words"* ]] || fail "$behaviour: $status $stderr"
	done
}
