# registry.bash - a registry to test against, keys and signed records: `load registry` after
# `load helper`.

# Starts a registry in $BATS_TEST_TMPDIR on a free port: $url, $server. Arguments: further
# options.
start_registry() {
	cd "$BATS_TEST_TMPDIR" || return
	rm -f port
	"${SERVE_UNDER[@]}" rnp-register serve --db registry.db --listen 127.0.0.1:0 --port-file port \
		--log-file requests.log "$@" 2>>serve.err 3>&- &
	server=$!
	wait_port port "$server"
	url=http://127.0.0.1:$(cat port)
}

stop_registry() {
	[[ -n ${server:-} ]] || return 0
	kill "${1:--TERM}" "$server" 2>/dev/null
	# shellcheck disable=SC2034 # the tests read it
	stopped_with=0
	ended "$server" || stopped_with=$?
	server=
	return "$stopped_with"
}

# Starts a server that misbehaves in a given way, see tests/tools/fake_http.py: $url, $fake
start_fake() {
	cd "$BATS_TEST_TMPDIR" || return
	rm -f fake.port
	python3 "$ROOT/tests/tools/fake_http.py" "$1" fake.port 3>&- &
	fake=$!
	wait_port fake.port "$fake"
	url=http://127.0.0.1:$(cat fake.port)
}

stop_fake() {
	[[ -z ${fake:-} ]] || kill "$fake" 2>/dev/null
}

# make_key NAME: writes NAME.json, and sets $NAME to its address
make_key() {
	rnp-register keygen --out "$1.json" >/dev/null
	printf -v "$1" '%s' "$(rnp-register address --key "$1.json")"
}

# signed KEY [JQ PROGRAM]: prints the object of the jq program with kind, v and at, signed; at
# is now unless the program sets it. $node is KEY's address.
signed() {
	jq -nc --arg node "${!1}" --arg now "$(date -u +%FT%T.%3NZ)" \
		"{v: 1, node: \$node, at: \$now} + ($2)" | rnp-register sign --key "$1.json"
}

node_record() {
	signed "$1" "{kind: \"rnp.node\"} + (${2:-{\}})"
}

# heartbeat_record KEY [JQ PROGRAM]: prints a signed heartbeat
heartbeat_record() {
	signed "$1" "{kind: \"rnp.heartbeat\", interval_s: 60, state: \"idle\"} + (${2:-{\}})"
}

# post PATH FILE [curl options]: sets $status_code and writes the body to answer.json
post() {
	status_code=$(curl -s -o answer.json -w '%{http_code}' -H 'Content-Type: application/json' \
		--data-binary "@$2" "${@:3}" "$url$1")
}

# get PATH [curl options]: the same
get() {
	: >answer.json
	status_code=$(curl -s -o answer.json -w '%{http_code}' "${@:2}" "$url$1")
}

error_is() {
	assert_equal "$status_code" "$1"
	[[ $(jq -r .error answer.json) == *"$2"* ]] || fail "error is '$(cat answer.json)', it lacks '$2'"
}
