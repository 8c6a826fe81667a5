#!/usr/bin/env bats
# images - the disk that a node has for images: what does not fit, what goes for another, what was broken off.
load ../helper
load containers

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
	run ! pgrep -f "podman --root $DATA"
}
