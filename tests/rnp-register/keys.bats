# Keys, canonical form, signatures: what keygen, address, canon, sign and verify promise.
load ../helper

setup() {
	cd "$BATS_TEST_TMPDIR"
	export RNP_NOW=2026-01-02T03:04:05Z
}

# Writes a fixed key (the seed of RFC 8032, 7.1, test 1), and another one
fixed_key() {
	(
		umask 077
		echo '[157,97,177,157,239,253,90,96,186,132,74,244,146,236,44,196,68,73,197,105,123,50,105,25,112,59,172,3,28,174,127,96,215,90,152,1,130,177,10,183,213,75,254,211,201,100,7,58,14,225,114,243,218,166,35,37,175,2,26,104,247,7,81,26]' >fixed.json
	)
}
FIXED_ADDRESS=FVen3X669xLzsi6N2V91DoiyzHzg1uAgqiT8jZ9nS96Z
FIXED_DID=did:key:z6MktwupdmLXVVqTzCw4i46r4uGyosGXRnR3XjN4Zq7oMMsw

other_key() {
	rnp-register keygen --out other.json >/dev/null
	OTHER_ADDRESS=$(rnp-register address --key other.json)
}

# signed KEYFILE JSON: signs one record with a key
signed() {
	rnp-register sign --key "$1" <<<"$2"
}

passphrase() {
	echo "correct horse battery staple" >passphrase
}

# --- keygen ---------------------------------------------------------------------------------

@test "keygen: a Solana keypair file, 64 numbers, mode 0600, and a record with the address" {
	umask 000
	run_split rnp-register keygen --out key.json
	assert_success
	assert_equal "$(stat -c %a key.json)" 600
	assert_equal "$(jq -c '[length, (map(select(. >= 0 and . <= 255)) | length)]' key.json)" '[64,64]'
	[[ $(<key.json) =~ ^\[[0-9,]+\]$ ]]
	jq -e '.kind == "rnp.key" and .v == 1 and .file == "key.json" and .encrypted == false' <<<"$output"
	assert_equal "$(jq -r .node <<<"$output")" "$(rnp-register address --key key.json)"
	assert_equal "$(jq -r .did <<<"$output")" "$(rnp-register address --did --key key.json)"
	[[ -z $stderr ]]
}

@test "keygen: two keys differ" {
	rnp-register keygen --out a.json
	rnp-register keygen --out b.json
	run ! cmp -s a.json b.json
}

@test "keygen: the default file is made with its directory" {
	rnp-register keygen
	assert_equal "$(stat -c %a "$XDG_CONFIG_HOME/rnp/key.json")" 600
	assert_equal "$(stat -c %a "$XDG_CONFIG_HOME/rnp")" 700
	rnp-register address
}

@test "keygen: never overwrites, not even a dangling link" {
	mkdir dir
	echo precious >dir/key.json
	refused 73 "key.json" rnp-register keygen --out dir/key.json
	assert_equal "$(<dir/key.json)" precious
	ln -s nowhere dir/link.json
	refused 73 "link.json" rnp-register keygen --out dir/link.json
	refused 73 "no/such/dir" rnp-register keygen --out no/such/dir/key.json
	# no partly written file is left
	assert_equal "$(ls -A dir | tr '\n' ' ')" "key.json link.json "
}

@test "keygen: --from imports a key, and refuses what is none" {
	fixed_key
	rnp-register keygen --from fixed.json --out copy.json
	assert_equal "$(rnp-register address --key copy.json)" "$FIXED_ADDRESS"
	# byte for byte what Solana's CLI writes: no space, no newline
	assert_equal "$(cat copy.json; echo .)" "$(<fixed.json)."
	refused 66 "absent.json" rnp-register keygen --from absent.json --out x.json
	chmod 644 fixed.json
	refused 77 "fixed.json" rnp-register keygen --from fixed.json --out x.json
	[[ ! -e x.json ]]
}

@test "keygen: an encrypted key opens with its passphrase only" {
	fixed_key
	passphrase
	run_split rnp-register keygen --from fixed.json --passphrase-file passphrase --out sealed.json
	assert_success
	jq -e .encrypted <<<"$output"
	assert_equal "$(stat -c %a sealed.json)" 600
	jq -e '.kind == "rnp.keyfile" and .kdf == "argon2id13" and .cipher == "xchacha20-poly1305"' sealed.json
	assert_equal "$(rnp-register address --key sealed.json --passphrase-file passphrase)" "$FIXED_ADDRESS"
	refused 77 "no passphrase" rnp-register address --key sealed.json
	echo "incorrect" >wrong
	refused 77 "passphrase is wrong" rnp-register address --key sealed.json --passphrase-file wrong
	refused 66 "absent" rnp-register address --key sealed.json --passphrase-file absent
	: >empty
	refused 65 "no passphrase" rnp-register keygen --passphrase-file empty --out x.json
	[[ ! -e x.json ]]
	# and converted back
	rnp-register keygen --from sealed.json --from-passphrase-file passphrase --out plain.json
	cmp plain.json <(tr -d '\n' <fixed.json)
}

@test "keygen: the secret is nowhere in an encrypted file, and two of them differ" {
	fixed_key
	passphrase
	rnp-register keygen --from fixed.json --passphrase-file passphrase --out a.json
	rnp-register keygen --from fixed.json --passphrase-file passphrase --out b.json
	run ! grep -qi 9d61b19deffd a.json
	for field in salt nonce ciphertext; do
		run ! diff <(jq .$field a.json) <(jq .$field b.json)
	done
}

@test "key files: malformed ones are 65, each with one line" {
	umask 077
	fixed_key
	passphrase
	for text in '' '[]' '[1,2,3]' 'hello' '{}' 'null' "$(sed 's/,26]/]/' fixed.json)" \
		"$(sed 's/\[157/[158/' fixed.json)" "$(sed 's/157/257/' fixed.json)" \
		"$(sed 's/157/157.0/' fixed.json)" "$(sed 's/157/"157"/' fixed.json)" \
		"$(<fixed.json)]" "$(<fixed.json)$(<fixed.json)"; do
		printf %s "$text" >bad.json
		refused 65 bad.json rnp-register address --key bad.json
	done
	head -c 5000 /dev/zero >bad.json
	refused 65 "larger" rnp-register address --key bad.json
	rnp-register keygen --passphrase-file passphrase --out sealed.json
	for edit in '.v = 2' 'del(.salt)' '.kdf = "scrypt"' '.passes = 0' '.memory_bytes = 1e12' \
		'.ciphertext = "00"' '.nonce |= ascii_upcase' '.salt = 1'; do
		jq -c "$edit" sealed.json >bad.json
		refused 65 bad.json rnp-register address --key bad.json --passphrase-file passphrase
	done
	jq -c '.node = "'$FIXED_ADDRESS'"' sealed.json >bad.json
	refused 77 "changed" rnp-register address --key bad.json --passphrase-file passphrase
}

@test "key files: refused when group or others can read, write or run them" {
	fixed_key
	for mode in 640 604 620 602 610 601 644 666 777; do
		chmod $mode fixed.json
		refused 77 "fixed.json" rnp-register address --key fixed.json
		refused 77 "fixed.json" rnp-register sign --key fixed.json
	done
	chmod 400 fixed.json
	rnp-register address --key fixed.json
	refused 66 "absent.json" rnp-register address --key absent.json
	refused 66 "key.json" rnp-register address
	mkdir -m 700 dir
	refused 66 "dir" rnp-register address --key dir
}

@test "key files: systemd's credentials may show the mask of their access list, and no others" {
	fixed_key
	mkdir -m 700 credentials
	install -m 440 fixed.json credentials/key
	refused 77 "credentials/key" rnp-register address --key "$PWD/credentials/key"
	export CREDENTIALS_DIRECTORY=$PWD/credentials
	rnp-register address --key "$CREDENTIALS_DIRECTORY/key"
	chmod 444 credentials/key
	refused 77 "credentials/key" rnp-register address --key "$CREDENTIALS_DIRECTORY/key"
	install -m 440 fixed.json other.json
	refused 77 "other.json" rnp-register address --key "$CREDENTIALS_DIRECTORY/../other.json"
}

@test "key files: a directory is no key, and standard output no place for one" {
	mkdir dir
	refused 66 "'dir' is a directory" rnp-register address --key dir
	refused 64 "not to standard output" rnp-register keygen --out -
	[[ ! -e ./- ]]
}

@test "address: the address that Solana shows, and the same key as did:key" {
	fixed_key
	assert_equal "$(rnp-register address --key fixed.json)" "$FIXED_ADDRESS"
	assert_equal "$(rnp-register address --did --key fixed.json)" "$FIXED_DID"
}

# --- canon ----------------------------------------------------------------------------------

@test "canon: the bytes of RFC 8785, one value a line" {
	# examples of the RFC, 3.2.2 and 3.2.3
	cat >in.json <<'EOF'
{
  "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
  "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
  "literals": [null, true, false]
}
EOF
	run_split rnp-register canon --whole in.json
	assert_success
	assert_equal "$output" '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\u000f\nA'"'"'B\"\\\\\"/"}'
	cat >in.json <<'EOF'
{"\u20ac": "Euro Sign", "\r": "Carriage Return", "\ufb33": "Hebrew Letter Dalet With Dagesh", "1": "One", "\ud83d\ude00": "Emoji: Grinning Face", "\u0080": "Control", "\u00f6": "Latin Small Letter O With Diaeresis"}
EOF
	run_split rnp-register canon in.json
	assert_equal "$output" "$(printf '{"\\r":"Carriage Return","1":"One","\302\200":"Control","ö":"Latin Small Letter O With Diaeresis","€":"Euro Sign","😀":"Emoji: Grinning Face","\357\254\263":"Hebrew Letter Dalet With Dagesh"}')"
}

@test "canon: any value, one a line, blank lines skipped" {
	run_split rnp-register canon <<<$'1\n\n"x"\nnull\n[ ]\n-0\n9007199254740993\n123456789012345678901234567890'
	assert_success
	assert_equal "$output" $'1\n"x"\nnull\n[]\n0\n9007199254740992\n1.2345678901234568e+29'
	run_split rnp-register canon </dev/null
	assert_success
	assert_equal "$output" ""
}

@test "canon: 512 deep and no deeper" {
	deep() { printf "%0$1d" 0 | sed 's/0/[/g'; printf "%0$1d\n" 0 | sed 's/0/]/g'; }
	assert_equal "$(deep 512 | rnp-register canon)" "$(deep 512)"
	deep 513 >in
	refused 65 "deeper than 512" rnp-register canon in
	deep 100000 >in
	refused 65 "deeper than 512" rnp-register canon in
}

@test "canon: a byte order mark goes, and an escaped NUL is called by its name" {
	printf '\xef\xbb\xbf1\n' >in
	assert_equal "$(rnp-register canon in)" 1
	printf '"a\\u0000"\n' >in
	refused 65 'in:1: \u0000 is not allowed (byte 9)' rnp-register canon in
}

@test "canon: what is not JSON is 65, and the good values before it are there" {
	while IFS= read -r bad; do
		printf '1\n2\n%b\n3\n' "$bad" >in
		refused 65 "in:3" rnp-register canon in
		assert_equal "$output" $'1\n2'
	done <<'EOF'
{"a":1,"a":2}
{"a":1
[1,]
NaN
Infinity
1e999
-1e999
"\\ud800"
"\\u0000"
"a\0b"
"\xff"
"\xc0\xaf"
"\xed\xa0\x80"
01
+1
1 2
'x'
tru
"\x01"
EOF
	refused 65 "stdin" rnp-register canon --whole </dev/null
	refused 66 "absent" rnp-register canon absent
	refused 66 "absent" rnp-register canon --whole absent
	(head -c 1100000 /dev/zero | tr '\0' ' '; echo 1) >in
	refused 65 "longer than" rnp-register canon in
}

# --- sign and verify ------------------------------------------------------------------------

@test "sign: a Data Integrity proof whose signature anybody can check with other tools" {
	fixed_key
	run_split signed fixed.json '{"kind":"rnp.node","v":1,"node":"'$FIXED_ADDRESS'","name":"é"}'
	assert_success
	jq -e --arg did "$FIXED_DID" '.proof | .type == "DataIntegrityProof" and
		.cryptosuite == "eddsa-jcs-2022" and .proofPurpose == "assertionMethod" and
		.created == "2026-01-02T03:04:05Z" and
		.verificationMethod == $did + "#" + ($did | ltrimstr("did:key:")) and
		(.proofValue | startswith("z"))' <<<"$output"
	# the same signature made with jq (these values sort the same), sha256sum and openssl
	python3 - "$output" <<'EOF'
import hashlib, json, subprocess, sys
record = json.loads(sys.argv[1])
proof = record.pop("proof")
value = proof.pop("proofValue")
canon = lambda v: json.dumps(v, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
data = hashlib.sha256(canon(proof)).digest() + hashlib.sha256(canon(record)).digest()
seed = bytes(json.load(open("fixed.json"))[:32])
open("key.der", "wb").write(bytes.fromhex("302e020100300506032b657004220420") + seed)
open("data", "wb").write(data)
got = subprocess.run("openssl pkeyutl -sign -rawin -inkey key.der -keyform DER -in data".split(),
                     capture_output=True, check=True).stdout
alphabet = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
n, text = int.from_bytes(got, "big"), ""
while n:
    n, r = divmod(n, 58)
    text = alphabet[r] + text
assert value == "z" + "1" * (len(got) - len(got.lstrip(b"\0"))) + text, (value, text)
EOF
}

@test "sign: fields stay as they are, in their order, and it is done again the same way" {
	fixed_key
	run_split signed fixed.json '{"z":1,"a":[1.50,{"q":"\u20ac"}],"unknown":{}}'
	[[ $output == '{"z":1,"a":[1.5,{"q":"€"}],"unknown":{},"proof":{'* ]]
	assert_equal "$(signed fixed.json '{"z":1,"a":[1.50,{"q":"\u20ac"}],"unknown":{}}')" "$output"
}

@test "verify: good records, 0, and who signed them" {
	fixed_key
	signed fixed.json '{"kind":"rnp.node","v":1,"node":"'$FIXED_ADDRESS'"}' >in
	signed fixed.json '{"a":1}' >>in
	run_split rnp-register verify in
	assert_success
	assert_equal "$output" "$(printf '{"kind":"rnp.check","v":1,"ok":true,"signer":"%s"}\n' $FIXED_ADDRESS $FIXED_ADDRESS)"
	# a pipe in which nothing came has not shown anything
	refused 65 "there is nothing to verify" rnp-register verify </dev/null
	refused 65 "there is no rnp.node record to check" rnp-register check --policy testnet </dev/null
}

@test "verify: a changed, added or removed field is found" {
	fixed_key
	signed fixed.json '{"a":1,"b":"x","c":[1,2]}' >in
	for edit in '.a = 2' '.a = "1"' '.b = "y"' 'del(.b)' '.d = null' '.c = [2,1]' '.proof.created = "2026-01-02T03:04:06Z"' \
		'.proof.nonce = "x"' '.proof.id = "urn:x"' 'del(.proof.created)' '.proof.expires = "2030-01-01T00:00:00Z"'; do
		jq -c "$edit" in >bad
		run_split rnp-register verify bad
		assert_equal "$edit: $status" "$edit: 1"
		jq -e '.ok == false and (.reason | contains("signature")) and (has("signer") | not)' <<<"$output"
	done
	# equivalent JSON is valid: other order, spaces, escapes, 1 and 1.0
	sed 's/"a":1,/ "a" : 1.0 , /; s/"x"/"\\u0078"/' in >same
	run ! cmp -s in same
	rnp-register verify same
}

@test "verify: proofs of other kinds and shapes are bad, each with its reason" {
	fixed_key
	signed fixed.json '{"a":1}' >in
	while IFS='~' read -r edit why; do
		jq -c "$edit" in >bad
		run_split rnp-register verify bad
		assert_equal "$edit: $status" "$edit: 1"
		jq -e --arg why "$why" '.ok == false and (.reason | contains($why))' <<<"$output" ||
			fail "$edit: $output"
	done <<'EOF'
del(.proof)~no proof
.proof = null~not an object
.proof = []~0 proofs
.proof = "x"~not an object
.proof = [1]~not an object
.proof = [.proof, {}]~missing
.proof.type = "Ed25519Signature2020"~type
.proof.cryptosuite = "eddsa-rdfc-2022"~eddsa-rdfc-2022
.proof.cryptosuite = 7~not a string
.proof.proofPurpose = "authentication"~proofPurpose
.proof.previousProof = "urn:x"~previousProof
.proof.previousProof = null~previousProof
.proof.expires = "2020-01-01T00:00:00Z"~expired
.proof.created = "now"~created
.proof.proofValue = ""~proofValue
.proof.proofValue = .proof.proofValue + "1"~proofValue
.proof.proofValue |= "z1" + .[1:]~proofValue
.proof.proofValue |= "m" + .[1:]~proofValue
del(.proof.proofValue)~missing
.proof.verificationMethod = 1~not a string
.proof.verificationMethod |= split("#")[0]~verificationMethod
.proof.verificationMethod = "did:web:example.com#key-1"~did:key
.proof.verificationMethod += "x"~another key
.proof = [range(17)]~17 proofs
EOF
}

@test "verify: the key must be the record's node" {
	fixed_key
	other_key
	signed other.json '{"kind":"rnp.node","v":1,"node":"'$FIXED_ADDRESS'"}' >in
	run_split rnp-register verify in
	assert_equal "$status" 1
	jq -e --arg who "$OTHER_ADDRESS" '.ok == false and .signer == $who and (.reason | contains("not by its node"))' <<<"$output"
	signed fixed.json '{"node":7}' >in
	run_split rnp-register verify in
	assert_equal "$status" 1
	# signer has no effect in a kind of record that only the node itself may sign
	signed other.json '{"kind":"rnp.node","v":1,"node":"'$FIXED_ADDRESS'","signer":"'$OTHER_ADDRESS'"}' >in
	run_split rnp-register verify in
	assert_equal "$status" 1
}

@test "verify: a verdict is signed by its signer, not by the node it is about" {
	fixed_key
	other_key
	for kind in rnp.challenge rnp.verdict rnp.receipt rnp.usage rnp.reward; do
		record='{"kind":"'$kind'","v":1,"node":"'$FIXED_ADDRESS'","signer":"'$OTHER_ADDRESS'"}'
		signed other.json "$record" >in
		rnp-register verify in
		signed fixed.json "$record" >in
		run_split rnp-register verify in
		assert_equal "$status" 1
		signed other.json '{"kind":"'$kind'","v":1,"node":"'$FIXED_ADDRESS'"}' >in
		run_split rnp-register verify in
		assert_equal "$status" 1
	done
}

@test "sign: a second proof stands beside the first, independent of it" {
	fixed_key
	other_key
	signed fixed.json '{"a":1}' | rnp-register sign --key other.json >both
	assert_equal "$(jq '.proof | length' both)" 2
	run_split rnp-register verify both
	assert_success
	jq -e --arg a $FIXED_ADDRESS --arg b "$OTHER_ADDRESS" '.ok and .signers == [$a, $b]' <<<"$output"
	jq -c '.proof |= reverse' both | rnp-register verify
	jq -c '.proof |= .[1]' both | rnp-register verify
	jq -c '.proof |= .[:1]' both | rnp-register verify
	# one bad proof makes the whole set invalid
	jq -c '.proof[1].created = "2026-01-02T03:04:06Z"' both >bad
	run_split rnp-register verify bad
	assert_equal "$status" 1
	# a second signer beside the node
	signed other.json '{"node":"'$FIXED_ADDRESS'"}' | rnp-register sign --key fixed.json | rnp-register verify
}

@test "sign, verify: whole numbers beyond 2^53 are refused in kinds of ours only" {
	fixed_key
	refused 65 "stdin:1: field 'n'" rnp-register sign --key fixed.json <<<'{"kind":"rnp.x","v":1,"n":9007199254740993}'
	refused 65 "stdin:1" rnp-register sign --key fixed.json <<<'{"kind":"rnp.x","v":1,"n":[-1e17]}'
	rnp-register sign --key fixed.json <<<'{"kind":"rnp.x","v":1,"n":9007199254740992}' | rnp-register verify
	rnp-register sign --key fixed.json <<<'{"kind":"foreign","n":9007199254740993}' >in
	rnp-register verify in
	sed s/foreign/rnp.x/ in >bad
	run_split rnp-register verify bad
	assert_equal "$status" 1
}

@test "sign, verify: malformed input is 65 and names the line; good records before it are out" {
	fixed_key
	signed fixed.json '{"a":1}' >good
	while IFS= read -r bad; do
		{ cat good; printf '%b\n' "$bad"; cat good; } >in
		refused 65 "in:2" rnp-register verify in
		assert_equal "$(wc -l <<<"$output")" 1
		refused 65 "in:2" rnp-register sign --key fixed.json in
		assert_equal "$(wc -l <<<"$output")" 1
	done <<'EOF'
{"a":1
{"a":1,"a":2}
{"proof":1,"proof":1}
[1]
7
"x"
{"a":"\xff"}
{"a":"\\u0000"}
{"a":1e999}
not JSON
EOF
	printf '{"a":"b\0c"}\n' >in
	refused 65 "NUL" rnp-register verify in
	(printf '{"a":"'; head -c 1048577 /dev/zero | tr '\0' x; echo '"}') >in
	refused 65 "longer than" rnp-register verify in
	(printf '{"a":'; printf '%032d' 0 | sed 's/0/[/g'; printf '%032d' 0 | sed 's/0/]/g'; echo '}') >in
	refused 65 "deeper than 32" rnp-register verify in
	refused 65 "neither a proof" rnp-register sign --key fixed.json <<<'{"proof":1}'
	refused 66 "absent" rnp-register verify absent
	refused 66 "absent" rnp-register sign --key fixed.json absent
}

@test "sign, verify: a full disk and a reader that left are 74" {
	fixed_key
	signed fixed.json '{"a":1}' >in
	for sub in "sign --key fixed.json" verify canon; do
		run bash -c "rnp-register $sub in >/dev/full"
		assert_equal "$status" 74
		run bash -c "rnp-register $sub in >&-"
		assert_equal "$status" 74
	done
	run bash -c 'rnp-register address --key fixed.json >/dev/full'
	assert_equal "$status" 74
}

@test "sign, verify: long streams keep their order on all cores" {
	fixed_key
	seq 1 5000 | jq -c '{n: .}' | OMP_NUM_THREADS=4 rnp-register sign --key fixed.json >signed
	assert_equal "$(jq .n signed)" "$(seq 1 5000)"
	sed '2500s/"n":/"m":/' signed >in
	run_split env OMP_NUM_THREADS=4 rnp-register verify in
	assert_equal "$status" 1
	assert_equal "$(jq -c .ok <<<"$output" | grep -n false)" 2500:false
	assert_equal "$(wc -l <<<"$output")" 5000
}

@test "verify: --table is for people" {
	fixed_key
	signed fixed.json '{"a":1}' >in
	run_split rnp-register verify --table in
	assert_success
	[[ $output == ok*signer*yes*"$FIXED_ADDRESS"* ]]
	[[ $output != *reason* ]]
}

@test "keys: wrong usage is 64" {
	for args in "keygen x" "address --did=1" "canon --nope" "sign --key" "verify --key k"; do
		# shellcheck disable=SC2086
		run rnp-register $args
		assert_equal "$args: $status" "$args: 64"
	done
}

@test "keys: a record in several lines is told how to be one line" {
	fixed_key
	jq . <<<'{"kind": "x", "v": 1}' >pretty.json
	local command
	for command in verify "sign --key fixed.json" "submit --registry http://127.0.0.1:1"; do
		# shellcheck disable=SC2086 # words
		refused 65 "pretty.json:1: only '{': one record a line: jq -c ." rnp-register $command pretty.json
	done
	jq -c . pretty.json | rnp-register sign --key fixed.json | rnp-register verify
}
