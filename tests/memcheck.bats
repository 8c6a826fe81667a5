# Valgrind over representative commands: no invalid or uninitialised read, nothing lost.
load helper

setup() {
	command -v valgrind >/dev/null || skip "valgrind is not installed"
	cd "$BATS_TEST_TMPDIR" || return
	export OMP_NUM_THREADS=2
}

# memcheck CODE PROGRAM ...: the command ends with this code and valgrind has nothing to say
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
