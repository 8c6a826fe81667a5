# Valgrind on representative commands: no invalid or uninitialised reads, no leaks.
load ../helper

setup() {
	command -v valgrind >/dev/null || skip "valgrind is not installed"
	cd "$BATS_TEST_TMPDIR" || return
	export OMP_NUM_THREADS=2
}

# memcheck CODE PROGRAM ...: the command ends with this code and valgrind reports nothing
memcheck() {
	local code=$1 status=0
	shift
	valgrind -q --leak-check=full --errors-for-leak-kinds=definite,indirect --error-exitcode=99 \
		--show-leak-kinds=definite,indirect --log-file=valgrind.log -- \
		"$(command -v "$1")" "${@:2}" >out 2>err || status=$?
	[[ ! -s valgrind.log ]] || fail "$* under valgrind: $(head -40 valgrind.log)"
	assert_equal "$status" "$code"
}

@test "memcheck: --help, --schema, a wrong option" {
	memcheck 0 rnp-register --help
	memcheck 0 rnp-price --schema
	memcheck 64 rnp-reward --log json --no-such-option
}

@test "memcheck: keygen, address, sign, verify, canon, a bad record" {
	memcheck 0 rnp-register keygen --out key.json
	memcheck 0 rnp-register address --key key.json --did
	printf '{"kind":"rnp.x","v":1,"n":%d,"text":"é€"}\n' {1..50} >records
	memcheck 0 rnp-register sign --key key.json records
	cp out signed
	memcheck 0 rnp-register verify signed
	sed 's/"n":7,/"n":8,/' signed >forged
	memcheck 1 rnp-register verify forged
	memcheck 0 rnp-register canon signed
	printf '{"a":1}\n{"a":[1,{"b":\n' >bad
	memcheck 65 rnp-register canon bad
	memcheck 65 rnp-register sign --key key.json bad
}

@test "memcheck: detect" {
	memcheck 0 rnp-register detect --name test
}

@test "memcheck: setup, with settings from the environment, the person's file and the image's" {
	mkdir -p image/etc/rnp config/rnp
	cp "$ROOT/tests/data/man/costs.json" .
	: >bench.jsonl
	printf 'RNP_NAME=n\nRNP_CA=%s\nRNP_LABEL="country=DE; region=x"\n' "$PWD/bench.jsonl" >image/etc/rnp/node.env
	printf 'label = country=FR\nwallet = 11111111111111111111111111111111\n' >config/rnp/config
	XDG_CONFIG_HOME=$PWD/config RNP_COSTS=$PWD/costs.json RNP_NODE_ENV=$PWD/image/etc/rnp/node.env \
		memcheck 69 rnp-register setup --root image --policy testnet --registry http://127.0.0.1:1 --bench bench.jsonl
	RNP_COSTS=$PWD/costs.json memcheck 69 rnp-register setup --root other --policy testnet --registry http://127.0.0.1:1 --bench bench.jsonl
	# the sources that are read once
	XDG_CONFIG_HOME=$PWD/config RNP_NODE_ENV=$PWD/image/etc/rnp/node.env memcheck 0 rnp-register config
}

@test "memcheck: check, epoch" {
	memcheck 0 rnp-register check --policy rnp-021 "$ROOT/tests/data/rtx4090.node.json"
	echo '{"kind":"rnp.usage","v":1,"node":"11111111111111111111111111111111","up_s":3600}' >usage
	memcheck 0 rnp-reward epoch --policy testnet --pool 10 usage
}

@test "memcheck: a registry that is submitted to, listed and stopped" {
	local port
	rnp-register keygen --out key.json >/dev/null
	valgrind -q --leak-check=full --errors-for-leak-kinds=definite,indirect --error-exitcode=99 \
		--log-file=served.log -- "$(command -v rnp-register)" serve --db r.db \
		--listen 127.0.0.1:0 --port-file port 2>serve.err 3>&- &
	served=$!
	wait_file port
	port=$(grep -oE '[0-9]+$' port)
	rnp-register detect --key key.json --wallet "$(rnp-register address --key key.json)" |
		rnp-register sign --key key.json >signed
	memcheck 0 rnp-register submit --registry "http://127.0.0.1:$port" signed
	memcheck 0 rnp-register heartbeat --once --registry "http://127.0.0.1:$port" --key key.json
	memcheck 0 rnp-register list --registry "http://127.0.0.1:$port"
	sed 's/"memory_bytes":/"memory_bytes":1/' signed >forged
	memcheck 77 rnp-register submit --registry "http://127.0.0.1:$port" forged
	curl -s "http://127.0.0.1:$port/metrics" "http://127.0.0.1:$port/nothing" >/dev/null
	kill "$served"
	ended "$served" || fail "the registry ended with $?: $(cat serve.err served.log)"
	assert_equal "$(cat served.log)" ""
}

teardown() {
	if [[ ${served-} ]]; then kill "$served" 2>/dev/null || true; fi
}

@test "memcheck: detect on this machine, list, compare" {
	memcheck 0 rnp-register detect --share all --label country=DE
	memcheck 64 rnp-register detect --label country=Germany
	memcheck 0 rnp-bench list
	printf '{"kind":"rnp.bench","v":1,"at":"2026-11-20T12:00:00Z","suite":"a","test":"b","unit":"ns","median":2,"low":1,"high":3,"samples":9}\n' >old
	memcheck 0 rnp-bench compare old old
}
