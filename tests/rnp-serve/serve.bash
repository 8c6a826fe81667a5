# serve.bash - a chat server to test against: `load serve` after `load helper`.

# A model of random weights with a chat template, made once a file: $DIR/model.
make_chat_model() {
	export DIR=$BATS_FILE_TMPDIR
	rnp-train tokenize --vocab 400 --out "$DIR/tok" /usr/share/common-licenses/GPL-3 >/dev/null
	rnp-train init --preset nano --tokenizer "$DIR/tok" --seed 3 --out "$DIR/model"
	jq '.chat_template = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n"' \
		"$DIR/model/tokenizer_config.json" >"$DIR/config" && mv "$DIR/config" "$DIR/model/tokenizer_config.json"
}

# A server in $BATS_TEST_TMPDIR on a free port: $url, $server. Arguments: further options.
start_serve() {
	cd "$BATS_TEST_TMPDIR" || return
	rm -f port
	RNP_SERVE_CHECK=1 rnp-serve run --model "chat=$DIR/model" --listen 127.0.0.1:0 --port-file port \
		--log-file requests.log "$@" >plan 2>serve.err 3>&- &
	server=$!
	wait_port port "$server"
	url=http://127.0.0.1:$(cat port)
}

stop_serve() {
	[[ -n ${server:-} ]] || return 0
	# a test that failed while the device held: the server could not end, nor this
	[[ -z ${CUDA_FAILING:-} ]] || device
	kill "${1:--TERM}" "$server" 2>/dev/null
	await_serve
}

# Waits until the server has ended: $stopped_with. One that does not end in time fails the test, and says where it hangs.
await_serve() {
	stopped_with=0
	ended "$server" || stopped_with=$?
	server=
	((stopped_with != 124)) || fail "the server does not end: $(tail -n 3 serve.err)"
}

# post PATH JSON [CURL OPTIONS]: the answer's body
post() {
	local path=$1 body=$2
	shift 2
	curl -sS "$url$path" -H 'Content-Type: application/json' -d "$body" "$@"
}

# metric NAME: its value, of the first model
metric() {
	curl -sS "$url/metrics" | sed -n "s/^rnp_serve_$1\({[^}]*}\)\? //p" | head -1
}

# eventually COMMAND ...: until it succeeds
eventually() { wait_until "$*" "$@"; }

# A device that fails when told to: `device WHAT` (tests/fake/cuda_failing.c).
make_failing() {
	local plugin=$BATS_FILE_TMPDIR/failing.so
	[[ -e $plugin ]] || (cd "$ROOT" && "${CC:-gcc}" -std=gnu11 -O1 -D_GNU_SOURCE -fopenmp -shared -fPIC -I. -Wl,-Bsymbolic -o "$plugin" \
		tests/fake/cuda_failing.c kernels/dev/team*.c kernels/dev/gomp.c kernels/grad/cpu/quant_x86.c "$RNP_BUILD/librnp.a" -lm -ldl -lpthread)
	export RNP_CUDA_PLUGIN=$plugin CUDA_FAILING=$BATS_TEST_TMPDIR/device
	device
}

# A server on it.
start_failing() {
	make_failing
	start_serve --device cuda:0 "$@"
	[ "$(jq -r .device plan)" = cuda:0 ]
}

# shellcheck disable=SC2120
device() {
	echo "$*" >"$CUDA_FAILING.new" && mv "$CUDA_FAILING.new" "$CUDA_FAILING"
}
