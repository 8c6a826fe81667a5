#!/usr/bin/env bats
# images - the disk that a node has for images: what does not fit, what goes for another, what was broken off.
load ../helper
load containers
load ../net/node

setup_file() {
	need_podman
	need_sandbox
	start_images
}

teardown_file() { stop_images; }

setup() {
	BASE=$(mktemp -d /var/tmp/rnp-images-XXXXXX)
	mkdir "$BASE/leases"
	DATA=$BASE/kept/store/data
}

teardown() {
	end_leases "$BASE" "/run/${BASE##*/}"
	rm -rf "$BASE" "/run/${BASE##*/}"
}

# kept ACTION [REFERENCE]: on a disk of 48 MiB
kept() { "$RNP_BUILD/evil/lease" images "$1" "$BASE" $((48 << 20)) "${@:2}"; }
names() { kept list | sed 's|.*/\([a-z]*\)@.*|\1|' | sort | tr '\n' ' '; }

@test "images: what unpacks to more than the disk has ends there and leaves nothing; what fits comes" {
	local bomb many plain
	bomb=$(push_image bomb --zeros 70000000)
	many=$(push_image many --files 4000)
	plain=$(push_image plain)
	for reference in "$bomb" "$many"; do
		run kept pull "$reference"
		assert_failure 65
		assert_output "lease: the image needs more than the 50.3 MB that this node has for images"
		assert_equal "$(ls "$DATA")" ""
		(($(stat -c '%b * 512' "$BASE/kept/store.img") <= 50 << 20))
	done
	kept pull "$plain"
	assert_equal "$(names)" "plain "
	run ! grep "$DATA" /proc/self/mountinfo
	# one that is larger than all of it before it comes drives out nothing
	run kept pull "$(push_image large --pad 51000000)"
	assert_failure 65
	assert_output --partial "for images"
}

@test "images: where room lacks the one whose last use is longest ago goes, and never one that a lease has" {
	local a b c
	a=$(push_image a --pad 9000000)
	b=$(push_image b --pad 9000001)
	c=$(push_image c --pad 9000002)
	kept pull "$a"
	kept pull "$b"
	kept pull "$a" # used again
	kept pull "$c"
	assert_equal "$(names)" "a c "
	mkdir "$BASE/leases/x"
	ln -s "$(kept list | grep /a@ | cut -d' ' -f1)" "$BASE/leases/x/images"
	kept pull "$b"
	assert_equal "$(names)" "a b "
	# of another size it is made anew, but for what is in use
	"$RNP_BUILD/evil/lease" images list "$BASE" $((64 << 20))
	assert_equal "$(names)" "a b "
	rm "$BASE/leases/x/images"
	assert_equal "$("$RNP_BUILD/evil/lease" images list "$BASE" $((64 << 20)))" ""
}

@test "images: of a pull that was killed nothing is there afterwards" {
	local bomb
	bomb=$(push_image bomb --zeros 70000000)
	kept pull "$bomb" 3>&- &
	begun() { [[ -n $(ls "$DATA" 2>/dev/null) ]]; }
	wait_until "a root" begun
	kill -9 $!
	wait $! || true
	assert_equal "$(kept list)" ""
	assert_equal "$(ls "$DATA")" ""
	# podman dies with the one that held it, a moment later
	gone() { ! pgrep -f "podman --root $DATA"; }
	wait_until "no podman" gone
	assert_equal "$(ls "$DATA")" ""
}

# public REFERENCE: from the Internet alone, as an agent without --private-images does, on the machine of net/node.bash
public() {
	rig_in "$node_host" env PUBLIC_IMAGES=1 SSL_CERT_FILE="$BASE/ca.pem" unshare -m sh -c 'mount --bind "$1" /etc/hosts && shift && exec "$@"' \
		sh "$BASE/hosts" "$RNP_BUILD/evil/lease" images pull "$BASE" $((48 << 20)) "$1"
}

# serves COMMAND...: in the world, until node_down
serves() {
	nsenter -t "$node_world" -n "$@" 3>&- &
	node_servers+=($!)
}

@test "images: neither a reference, nor a name, nor a redirect makes the node ask a private address" {
	local missing none at reference digest port=5000
	missing=$(rig_missing)
	[[ -z $missing ]] || skip "$missing"
	none=@sha256:$(printf '%064d' 1)
	NET=$BASE/net
	cd "$BASE" || return
	mkdir "$NET"
	kept list # the disk is here, and in what sees other names
	node_up
	printf '%s\n' '127.0.0.1 localhost' '10.1.2.3 inner.example' '5.6.7.8 own.example' '::1 six.example' >hosts
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=test -addext subjectAltName=IP:9.9.9.9,IP:1.1.1.1 \
		-keyout key.pem -out ca.pem 2>/dev/null
	for at in 127.0.0.1:8008 127.1:8008 localhost:8008 '[::1]:8008' 10.1.2.3 169.254.169.254/latest 100.100.100.200 172.31.0.5:8008 192.168.7.1:8008 \
		5.6.7.8:8008 '[2a00:1:2::10]:8008' inner.example own.example six.example:80; do
		run public "$at/x$none"
		assert_failure 65
		assert_output --regexp "the private address [0-9a-f.:]+"
	done
	# what lies on the Internet comes
	printf '%s\n' 'version: 0.1' "storage: {filesystem: {rootdirectory: $BASE/store}}" \
		"http: {addr: '9.9.9.9:$port', tls: {certificate: $BASE/ca.pem, key: $BASE/key.pem}}" >registry.yml
	serves docker-registry serve registry.yml >registry.log 2>&1
	digest=$(python3 "$ROOT/tests/tools/image.py" oci)
	pushed() { rig_in "$node_world" skopeo copy -q --dest-tls-verify=false oci:oci:t "docker://9.9.9.9:$port/x:t"; }
	wait_until "a registry of images" pushed
	public "9.9.9.9:$port/x@$digest"
	assert_equal "$(names)" "x "
	# one there that leads elsewhere
	for at in https://169.254.169.254:80/ http://10.1.2.3/secret https://192.168.7.10:8008/; do
		rm -f said
		serves python3 "$ROOT/tests/net/redirects.py" 1.1.1.1 ca.pem key.pem "oci/blobs/sha256/${digest#*:}" "$at" >said
		wait_until "a registry that redirects" grep -q ready said
		run public "1.1.1.1/x@$digest"
		assert_failure
		[[ $at == http:* ]] || assert_output --partial "the image's registry leads to the private address"
		grep -q /blobs/ said
		kill "${node_servers[-1]}"
		wait "${node_servers[-1]}" || true
	done
	# nobody was asked, and of none of it is anything here
	assert_equal "$(grep -vh ready ./*.asked)" ""
	assert_equal "$(names)" "x "
	[[ ! -e /run/${BASE##*/}/kept.net ]]
	node_down
}
