# Our canonical form and signatures compared with an independent implementation: Node.js, its
# crypto module, and the npm package canonicalize.
load ../helper

setup() {
	cd "$BATS_TEST_TMPDIR"
	command -v node >/dev/null || skip "Node.js is not there"
	export CANONICALIZE=$ROOT/build/node/node_modules/canonicalize
	umask 077
	echo '[157,97,177,157,239,253,90,96,186,132,74,244,146,236,44,196,68,73,197,105,123,50,105,25,112,59,172,3,28,174,127,96,215,90,152,1,130,177,10,183,213,75,254,211,201,100,7,58,14,225,114,243,218,166,35,37,175,2,26,104,247,7,81,26]' >key.json
}
SEED=9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60
DID=did:key:z6MktwupdmLXVVqTzCw4i46r4uGyosGXRnR3XjN4Zq7oMMsw

need_package() {
	[[ -d $CANONICALIZE ]] || skip "npm package canonicalize is not there: scripts/bootstrap"
}

interop() {
	node "$ROOT/tests/tools/interop.mjs" "$@"
}

# Records with every kind of value, keys that sort differently in UTF-8 than in UTF-16, and
# numbers of all sizes
records() {
	for i in $(seq 1 "$1"); do
		printf '{"n":%d,"\\u20ac":"\\ud83d\\ude00\\u0007\\"\\\\","😀":%d.%de%d,"\357\254\263":[null,true,[],{}],"é":"/<>&\\u2028","":{"z":-0.0,"a":1E21,"@context":1},"10":1,"9":2}\n' \
			"$i" "$i" $((i * 7919 % 1000)) $((i % 40 - 20))
	done
	echo '{"@context":["https://www.w3.org/ns/credentials/v2",{"@vocab":"urn:x#"}],"id":"urn:x"}'
}

@test "interop: 10,000 random doubles are written as JSON.stringify writes them" {
	interop numbers 10000 rnp >pairs
	assert_equal "$(wc -l <pairs)" 10000
	cut -f1 pairs | rnp-register canon >ours
	cut -f2 pairs >theirs
	cmp ours theirs || fail "$(diff ours theirs | head -5)"
}

@test "interop: canonical form of whole records" {
	need_package
	records 50 >in
	rnp-register canon in >ours
	interop canon <in >theirs
	cmp ours theirs || fail "$(diff ours theirs | head -4)"
}

@test "interop: Node verifies what we sign, and not what was changed" {
	need_package
	records 20 | rnp-register sign --key key.json >signed
	assert_equal "$(interop verify <signed | sort | uniq -c | tr -s ' ')" " 21 true"
	sed 's/"n":/"m":/; s/urn:x"/urn:y"/' signed >changed
	assert_equal "$(interop verify <changed | sort | uniq -c | tr -s ' ')" " 21 false"
}

@test "interop: we verify what Node signs, and not what was changed" {
	need_package
	records 20 | interop sign $SEED $DID 2026-01-02T03:04:05Z >signed
	rnp-register verify signed >checks
	assert_equal "$(jq -s 'length' checks)" 21
	sed 's/"n":/"m":/; s/"urn:x"/"urn:y"/' signed >changed
	run_split rnp-register verify changed
	assert_equal "$status" 1
	assert_equal "$(jq -s 'map(select(.ok)) | length' <<<"$output")" 0
}

@test "interop: both make the same signature, bit for bit" {
	need_package
	records 20 >in
	RNP_NOW=2026-01-02T03:04:05Z rnp-register sign --key key.json in | jq -r '.proof.proofValue' >ours
	interop sign $SEED $DID 2026-01-02T03:04:05Z <in | jq -r '.proof.proofValue' >theirs
	cmp ours theirs
}
