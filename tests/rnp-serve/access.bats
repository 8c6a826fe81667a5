#!/usr/bin/env bats
# rnp-serve run and key: who may ask, how much, and what nobody gets to know.
load ../helper
load serve

setup_file() { make_chat_model; }
teardown() { stop_serve; }

# code [CURL OPTIONS] URL: the status alone
code() { curl -sS -o body -w '%{http_code}' "$@"; }

@test "run: one address has as many connections as --client-connections says" {
	start_serve --client-connections 3
	python3 - "$(cat port)" <<-'END'
		import socket, sys
		def dial():
		    s = socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=60)
		    try:
		        s.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
		        return s, s.recv(12)
		    except ConnectionError:
		        return s, b""
		kept = [dial() for _ in range(4)]
		assert [a for _, a in kept] == [b"HTTP/1.1 200"] * 3 + [b""], kept
		other = socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=60, source_address=("127.0.0.2", 0))
		other.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
		assert other.recv(12) == b"HTTP/1.1 200"
	END
	stop_serve
	# more than the 512 of an address without the option
	start_serve --client-connections 5000
	python3 - "$(cat port)" <<-'END'
		import resource, socket, sys
		hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
		resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
		n = min(600, hard - 50)
		kept = [socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=60) for _ in range(n)]
		for s in kept[::50] + kept[-1:]:
		    s.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
		    assert s.recv(12) == b"HTTP/1.1 200"
	END
}

@test "key: it is printed once, and its line knows only the hash" {
	cd "$BATS_TEST_TMPDIR"
	run_split rnp-serve key --name anna --limit-tokens 100 --limit-streams 2
	assert_success
	[[ $output =~ ^rnp-[A-Za-z0-9_-]{43}$ ]]
	[[ $stderr != *"$output"* ]]
	python3 - "$output" "$stderr" <<-'END'
		import hashlib, json, sys
		line = json.loads(sys.argv[2])
		assert line == {"kind": "rnp.api_key", "v": 1, "name": "anna", "limit_tokens": 100, "limit_streams": 2,
			"blake2b": hashlib.blake2b(sys.argv[1].encode(), digest_size=32).hexdigest()}, line
	END
	rnp-serve key --name a --append keys >a
	rnp-serve key --name b --append keys >b
	[ "$(jq -s -c 'map(.name)' keys)" = '["a","b"]' ]
	[ "$(stat -c %a keys)" = 600 ]
	on_terminal 80 "rnp-serve key --name t --append shown" >screen
	grep -q 'keep the key: it is shown this once' screen
	on_terminal 80 "rnp-serve key --name t" >screen
	grep -q "the line above it is for the server's --api-keys" screen
	run ! grep -q "$(cat a)" keys
	refused 64 "not 1 to 64" rnp-serve key --name 'a b'
	# a key that could not be shown is nobody's: the file is as before
	cp -p keys before
	run_split sh -c 'rnp-serve key --name c --append keys >/dev/full'
	assert_failure 74
	cmp keys before
	run_split sh -c 'rnp-serve key --name c --append new >/dev/full'
	assert_failure 74
	[ ! -e new ]
	# no file is left that a server refuses
	refused 65 "'b' is there twice" rnp-serve key --name b --append keys
	cmp keys before
	refused 73 "No such file" rnp-serve key --name c --append nowhere/keys
	refused 73 "Is a directory" rnp-serve key --name c --append .
	rnp-serve key --name c --append keys >/dev/null
	[ "$(jq -s -c 'map(.name)' keys)" = '["a","b","c"]' ]
	# one that may be written and not read could become one that no server takes
	as=()
	((EUID)) || as=(setpriv --bounding-set=-dac_override,-dac_read_search)
	cp keys blind
	chmod 0200 blind
	refused 77 "whoever adds keys to it must be allowed to read it, too" "${as[@]}" rnp-serve key --name e --append blind
	chmod 0600 blind
	cmp blind keys
	# an editor left the last line without its end
	truncate -s -1 keys
	rnp-serve key --name d --append keys >/dev/null
	[ "$(jq -s -c 'map(.name)' keys)" = '["a","b","c","d"]' ]
	[ "$(wc -l <keys)" = 4 ]
}

@test "access: without a key that is known nobody asks; a new key counts within a second" {
	cd "$BATS_TEST_TMPDIR"
	key=$(rnp-serve key --name anna --append keys)
	start_serve --api-keys keys
	ask='{"prompt":"x","max_tokens":2}'
	[ "$(code "$url/v1/models")" = 401 ]
	jq -e '.error.code == "invalid_api_key" and .error.type == "authentication_error"' body
	[ "$(code "$url/v1/completions" -d "$ask")" = 401 ]
	[ "$(code "$url/v1/completions" -d "$ask" -H "Authorization: Bearer ${key}x")" = 401 ]
	[ "$(code "$url/v1/completions" -d "$ask" -H "Authorization: Basic $key")" = 401 ]
	[ "$(code "$url/v1/completions" -d "$ask" -H "Authorization: Bearer $key")" = 200 ]
	[ "$(code "$url/health")" = 200 ]
	other=$(rnp-serve key --name bob --append keys)
	known() { [ "$(code "$url/v1/models" -H "Authorization: Bearer $other")" = 200 ]; }
	eventually known
	jq -c 'select(.name == "bob")' keys >new && mv new keys
	revoked() { [ "$(code "$url/v1/models" -H "Authorization: Bearer $key")" = 401 ]; }
	eventually revoked
	curl -sS "$url/metrics" >metrics
	grep -q '^rnp_serve_key_requests_total{key="anna"} 1$' metrics
	grep -q '^rnp_serve_key_generated_tokens_total{key="anna"} 2$' metrics
	# how long it took, too, and nobody else's: first token, queue, and one time from token to token
	grep -qxF 'rnp_serve_key_first_token_seconds_bucket{key="anna",le="+Inf"} 1' metrics
	grep -qxF 'rnp_serve_key_queue_seconds_count{key="anna"} 1' metrics
	grep -qxF 'rnp_serve_key_token_seconds_count{key="anna"} 1' metrics
	grep -qxF 'rnp_serve_key_first_token_seconds_count{key="bob"} 0' metrics
	! grep -qF "$key" metrics requests.log serve.err
}

@test "access: fifty thousand keys are read in little time, and nobody waits meanwhile" {
	cd "$BATS_TEST_TMPDIR"
	key=$(rnp-serve key --name anna --append keys)
	start_serve --api-keys keys
	python3 -c 'for i in range(50000): print("{\"kind\":\"rnp.api_key\",\"v\":1,\"name\":\"k%d\",\"blake2b\":\"%064x\"}" % (i, i))' >many
	other=$(rnp-serve key --name bob --append many)
	cat keys many >new && mv new keys
	known() { [ "$(code "$url/v1/models" -H "Authorization: Bearer $other")" = 200 ]; }
	eventually known
	[ "$(code "$url/v1/completions" -d '{"prompt":"x","max_tokens":2}' -H "Authorization: Bearer $key")" = 200 ]
	# comparing each with each took 16 s of a processor, and requests waited for most of it
	[ "$(awk '{ print $14 + $15 }' "/proc/$server/stat")" -lt 500 ]
}

@test "access: limits of a key are 429 with Retry-After, and another's are its own" {
	cd "$BATS_TEST_TMPDIR"
	few=$(rnp-serve key --name few --limit-tokens 20 --append keys)
	many=$(rnp-serve key --name many --limit-tokens 60 --append keys)
	poor=$(rnp-serve key --name poor --limit-tokens 6 --append keys)
	slow=$(rnp-serve key --name slow --limit-tokens 20 --append keys)
	one=$(rnp-serve key --name one --limit-streams 1 --append keys)
	start_serve --api-keys keys
	ask() { code "$url/v1/completions" -d "$2" -H "Authorization: Bearer $1" -D headers; }
	# more than it has in a minute: as much as that is
	[ "$(ask "$few" '{"prompt":"x","max_tokens":30,"logit_bias":{"399":-100}}')" = 200 ]
	jq -e '.usage.total_tokens == 20 and .choices[0].finish_reason == "length"' body
	[ "$(ask "$few" '{"prompt":"x","max_tokens":9}')" = 429 ]
	jq -e '.error.code == "rate_limit_exceeded" and .error.type == "rate_limit_error"' body
	wait_s=$(sed -n 's/^retry-after: *\([0-9]*\).*/\1/Ip' headers)
	((wait_s >= 5 && wait_s <= 60)) || fail "$(cat headers)"
	# what was not needed is given back, and one that says no number gets what is left
	[ "$(ask "$many" '{"prompt":"x","max_tokens":50,"n":2,"logit_bias":{"399":100}}')" = 200 ]
	[ "$(ask "$many" '{"prompt":"x","max_tokens":20,"logit_bias":{"399":-100}}')" = 200 ]
	# a prompt that it can never have, whatever it is then charged for
	[ "$(ask "$many" "{\"prompt\":\"$(printf 'word %.0s' {1..70})\",\"max_tokens\":1}")" = 400 ]
	jq -e '.error.code == "rate_limit_exceeded" and (.error.message | contains("may use 60 a minute"))' body
	# what is refused is paid for, and then not even read
	printf '{"prompt":[%s' "$(printf '5,%.0s' {1..30000})" >large
	[ "$(ask "$poor" @large)" = 400 ]
	[ "$(ask "$poor" '{')" = 429 ]
	curl -sS "$url/tokenize" -H "Authorization: Bearer $poor" -d @large -o body -D headers
	head -1 headers | grep -q 429
	# so is what a schema takes to compile, wherever that ends
	printf '{"messages":[{"role":"user","content":"x"}],"response_format":{"type":"json_schema","json_schema":{"name":"x","schema":{"allOf":[%s{}]}}}}' \
		"$(printf '{"pattern":"%s"},' {a..p}{a..p})" >heavy
	[ "$(code "$url/v1/chat/completions" -d @heavy -H "Authorization: Bearer $slow")" = 400 ]
	jq -e '.error.message == "the schema takes too long to compile"' body
	[ "$(code "$url/v1/chat/completions" -d @heavy -H "Authorization: Bearer $slow")" = 429 ]
	# more than the key may ever have: no time makes it better
	[ "$(ask "$one" '{"prompt":"x","max_tokens":2,"n":2}')" = 400 ]
	jq -e '.error.code == "invalid_value" and .error.param == "n" and (.error.message | contains("may have 1 answers"))' body
	run ! grep -qi '^retry-after' headers
	[ "$(ask "$one" '{"prompt":"x","max_tokens":2}')" = 200 ]
	# several prompts are answered one after the other
	[ "$(ask "$one" '{"prompt":["x","y","z"],"max_tokens":2}')" = 200 ]
	[ "$(ask "$one" '{"prompt":"x","max_tokens":2}')" = 200 ]
	[ "$(curl -sS "$url/metrics" | grep -c '^rnp_serve_key_refused_total{.*"few".*} 1$')" = 1 ]
}

@test "access: the cache of one key is no other's, unless it is shared" {
	cd "$BATS_TEST_TMPDIR"
	a=$(rnp-serve key --name a --append keys)
	b=$(rnp-serve key --name b --append keys)
	ask='{"prompt":"The license of a program says what others may do with it, and what not.","max_tokens":2}'
	cached() { curl -sS "$url/v1/completions" -d "$ask" -H "Authorization: Bearer $1" | jq .usage.prompt_tokens_details.cached_tokens; }
	start_serve --api-keys keys
	[ "$(cached "$a")" = 0 ]
	[ "$(cached "$b")" = 0 ]
	[ "$(cached "$a")" -ge 16 ]
	stop_serve
	start_serve --api-keys keys --cache-shared
	[ "$(cached "$a")" = 0 ]
	[ "$(cached "$b")" -ge 16 ]
}

@test "access: foreign names of the host and origins of pages are refused" {
	start_serve --host chat.example --origin https://page.example
	local port=${url##*:}
	[ "$(code "$url/v1/models" -H "Host: localhost:$port")" = 200 ]
	[ "$(code "$url/v1/models" -H "Host: [::1]:$port")" = 200 ]
	[ "$(code "$url/v1/models" -H 'Host: chat.example')" = 200 ]
	[ "$(code "$url/v1/models" -H 'Host: rebind.example')" = 403 ]
	[ "$(code "$url/v1/models" -H 'Host: 127.0.0.1.rebind.example')" = 403 ]
	[ "$(code "$url/v1/models" -H 'Host: 127.evil')" = 403 ]
	[ "$(code "$url/health" -H 'Host: rebind.example')" = 403 ]
	[ "$(code "$url/v1/completions" -d '{"prompt":"x"}' -H 'Host: rebind.example')" = 403 ]
	# the authority of a target counts, whatever the Host says (RFC 9112, 3.2.2)
	[ "$(code "$url/" --request-target http://rebind.example/v1/models)" = 403 ]
	[ "$(code "$url/" --request-target http://rebind.example/v1/models -H 'Origin: http://rebind.example')" = 403 ]
	[ "$(code "$url/" --request-target http://localhost/v1/models -H 'Host: rebind.example')" = 200 ]
	[ "$(code "$url/" --request-target http://chat.example/v1/models -H "Origin: http://localhost:$port" -H "Host: localhost:$port")" = 403 ]
	[ "$(code "$url/v1/models" -H 'Origin: https://evil.example')" = 403 ]
	[ "$(code "$url/v1/models" -H 'Origin: null')" = 403 ]
	[ "$(code "$url/v1/models" -H "Origin: $url")" = 200 ]
	[ "$(code "$url/v1/models" -H 'Origin: https://page.example' -D headers)" = 200 ]
	grep -qi '^access-control-allow-origin: https://page.example' headers
	[ "$(code -X OPTIONS "$url/v1/chat/completions" -H 'Origin: https://page.example' -D headers)" = 204 ]
	grep -qi '^access-control-allow-headers: .*authorization' headers
	[ "$(code -X OPTIONS "$url/v1/chat/completions" -H 'Origin: https://evil.example')" = 403 ]
	post /v1/completions '{"prompt":"x","max_tokens":1,"stream":true}' -H 'Origin: https://page.example' -D headers >/dev/null
	grep -qi '^access-control-allow-origin: https://page.example' headers
}

@test "access: names of hosts and origins that no request can have are refused" {
	local name
	for name in foo https://page.example/ https://page.example/chat page.example https://Page.example 'https://a b' https:// https://page.example: '*'; do
		refused 64 "--origin: '$name'" timeout 60 rnp-serve run --model "$DIR/model" --listen 127.0.0.1:0 --origin "$name"
	done
	for name in http://chat.example chat.example/ 'a b' '' chat.example:x '[::1'; do
		refused 64 "--host: '$name'" timeout 60 rnp-serve run --model "$DIR/model" --listen 127.0.0.1:0 --host "$name"
	done
	start_serve --host chat.example:8080 --host '[::2]' --host 10.0.0.1 --origin http://page.example:3000 --origin 'http://[::1]:3000' --origin null
	[ "$(code "$url/v1/models" -H 'Origin: http://page.example:3000' -H 'Host: chat.example:8080')" = 200 ]
	[ "$(code "$url/v1/models" -H 'Origin: null' -H 'Host: 10.0.0.1')" = 200 ]
	[ "$(code "$url/v1/models" -H 'Origin: http://page.example' -H 'Host: 10.0.0.1')" = 403 ]
}

@test "access: keys that can be read only once are refused, and nothing waits for them" {
	cd "$BATS_TEST_TMPDIR"
	mkfifo keys
	refused 66 "cannot read 'keys': not a regular file" timeout -k 1 20 rnp-serve run --model "$DIR/model" --listen 127.0.0.1:0 --api-keys keys
}

@test "access: other machines are served only with keys or --open" {
	cd "$BATS_TEST_TMPDIR"
	refused 64 "who may ask" rnp-serve run --model "$DIR/model" --listen 0.0.0.0:0
	refused 64 "who may ask" rnp-serve run --model "$DIR/model" --listen :0
	rnp-serve key --name a --append keys >/dev/null
	chmod go+w keys
	refused 77 "chmod" rnp-serve run --model "$DIR/model" --listen :0 --api-keys keys
	chmod go-w keys
	jq -c '.nmae = "x"' keys >bad
	chmod 600 bad
	refused 65 "nmae" rnp-serve run --model "$DIR/model" --listen :0 --api-keys bad
	cat keys keys >bad
	refused 65 "twice" rnp-serve run --model "$DIR/model" --listen :0 --api-keys bad
	start_serve --listen :0 --open
	[ "$(code "$url/v1/models" -H 'Host: any.example')" = 200 ]
}

@test "access: the API describes itself, with every route that there is" {
	start_serve
	curl -sS "$url/openapi.json" >openapi
	jq -e '.openapi == "3.1.0"' openapi
	local path
	for path in $(jq -r '.paths | to_entries[] | select(.value.get) | .key' openapi); do
		[ "$(code "$url${path/\{model\}/chat}")" = 200 ] || fail "$path"
	done
	for path in $(jq -r '.paths | to_entries[] | select(.value.post) | .key' openapi); do
		[ "$(code "$url$path" -d '{}')" = 400 ] || fail "$path"
	done
	grep -oE 'HTTPD_(GET|POST)\("[^"]+' "$ROOT/cmd/rnp-serve/server/api.c" | cut -d'"' -f2 | sort >routes
	jq -r '.paths | keys[]' openapi | sort >described
	diff <(grep -vx -e / -e /openapi.json routes) <(grep -vx /metrics described)
}

@test "access: every metric of the dashboard is one that the server has" {
	cd "$BATS_TEST_TMPDIR"
	rnp-serve key --name a --append keys >/dev/null
	start_serve --api-keys keys
	curl -sS "$url/metrics" >metrics
	for metric in $(jq -r '.panels[].targets[].expr' "$ROOT/scripts/grafana-serve.json" | grep -o 'rnp_[a-z_]*' | sort -u); do
		grep -q "^# TYPE ${metric%_bucket} " metrics || fail "the server has no $metric"
	done
}

@test "access: the unit's command is one that the program takes" {
	cd "$BATS_TEST_TMPDIR"
	RNP_SERVE_OPTIONS="--model chat=$DIR/model --listen 127.0.0.1:0 --port-file port"
	command=$(sed -n 's/^ExecStart=//p' "$ROOT/scripts/systemd/rnp-serve.service" | sed "s|/usr/local/bin/|$RNP_BUILD/bin/|")
	eval "exec $command" >plan 2>log 3>&- &
	server=$!
	eventually test -s port
	[ "$(code "http://127.0.0.1:$(cat port)/health")" = 200 ]
}

@test "access: a form is given to a model that brings none, and its conversations are made from our pages" {
	cd "$BATS_TEST_TMPDIR"
	"$ROOT/scripts/corpus" --chat chat.txt
	[ "$(grep -c '^User: ' chat.txt)" -gt 500 ]
	[ "$(grep -c '^User: ' chat.txt)" = "$(grep -c '^Assistant: .*<|endoftext|>$' chat.txt)" ]
	grep -q '^User: What does rnp-serve run --cache do?$' chat.txt
	local talk='"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":"c"}]'
	printf 'User: a\nAssistant: b<|endoftext|>\nUser: c\nAssistant:\n' >form
	start_serve --chat-template "$ROOT/scripts/chat.jinja"
	post /apply-template "{$talk}" | jq -r .prompt | cmp - form
	stop_serve
	# the same without a word, and it is said; a turn of the user ends an answer
	cp -r "$DIR/model" bare
	jq 'del(.chat_template)' "$DIR/model/tokenizer_config.json" >bare/tokenizer_config.json
	start_serve --model "bare=$PWD/bare"
	grep "bare has no chat template: chats are written in the form 'plain'" serve.err
	post /apply-template "{\"model\":\"bare\",$talk}" | jq -r .prompt | cmp - form
	[ "$(post /v1/chat/completions "{\"model\":\"bare\",$talk,\"max_tokens\":3}" | jq -r '.choices[0].message.role')" = assistant ]
	echo "{\"custom_id\":\"1\",\"url\":\"/v1/chat/completions\",\"body\":{$talk,\"max_tokens\":3}}" >lines
	[ "$(rnp-serve batch --model bare lines 2>plain.err | jq .response.body.usage.prompt_tokens)" -lt \
		"$(rnp-serve batch --model bare --chat-template chatml lines 2>other.err | jq .response.body.usage.prompt_tokens)" ]
	grep -q "in the form 'plain'" plain.err && ! grep -q form other.err
}

@test "serve: a bench of a server with its own certificate, as a table with the 99th percentile and the model" {
	cd "$BATS_TEST_TMPDIR"
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=localhost -days 2 \
		-addext subjectAltName=DNS:localhost,IP:127.0.0.1 -keyout k.pem -out c.pem 2>/dev/null
	start_serve --cert c.pem --cert-key k.pem
	local bench=(rnp-serve bench --url "https${url#http}" --requests 2 --tokens 4)
	refused 69 "certificate" "${bench[@]}"
	COLUMNS=80 run_split "${bench[@]}" --ca c.pem --table
	assert_success
	grep -qE '^test +median \(95 %\) +p99 +n +model$' <<<"${lines[0]}" || fail "$output"
	grep -qE '^first_token +[0-9.]+ (ms|µs|s) \([0-9.]+.* to [0-9.]+.*\) +[0-9.]+ (ms|µs|s) +2 +chat$' <<<"$output" || fail "$output"
	grep -qE '^tokens_per_second +[0-9.]+ k?/s' <<<"$output" || fail "$output"
}
