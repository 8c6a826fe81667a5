# The engine of rnp-register work: podman by its API, with real containers of images made here.
load ../helper
load containers

setup_file() {
	need_podman
	RUN=$(mktemp -d /run/rnp-test-XXXXXX)
	export RUN LIVE=$RNP_BUILD/unit/rnp-register/agent/podman_live
	start_images
	REFERENCE=$(push_image plain --layers 2)
	export REFERENCE
}

teardown_file() {
	stop_images
	[[ ! ${RUN:-} ]] || rm -rf "$RUN"
}

setup() {
	STORE=$BATS_TEST_TMPDIR/store
	mkdir "$STORE" "$RUN/$BATS_TEST_NUMBER"
}

teardown() {
	local dir
	for dir in "$STORE"/*/overlay; do
		! mountpoint -q "$dir" || umount "$dir"
	done
}

@test "engine: a container is made, runs, says and ends; its supervisor and the service may be killed" {
	run "$LIVE" "$STORE" "$RUN/$BATS_TEST_NUMBER" "$REFERENCE"
	assert_success
}

@test "engine: an image that cannot run here has one clear cause" {
	local owned other user none
	owned=$(push_image owned --owner 70000)
	other=$(push_image other --arch arm64)
	user=$(push_image user --user 70000:5)
	none=$IMAGES/none@sha256:$(printf '%064d' 1)
	run "$LIVE" "$STORE" "$RUN/$BATS_TEST_NUMBER" "$REFERENCE" \
		"$IMAGES/plain:t" "has no digest" \
		"$owned" "'/etc/owned' belongs to user 70000, and a container has 0 to 65535" \
		"$other" "is for linux on arm64, and this node is amd64" \
		"$user" "runs as user 70000, and a container has 0 to 65535" \
		"$none" "its registry does not know the image"
	assert_success
}

@test "engine: an image that is larger than the disk is refused before it comes" {
	local large
	large=$(push_image large --pad 9000000)
	mkdir "$STORE/images"
	mount -t tmpfs -o size=8m none "$STORE/images" || skip "cannot mount a tmpfs"
	run "$LIVE" "$STORE" "$RUN/$BATS_TEST_NUMBER" "$REFERENCE" "$large" "this node's disk has 8.4 MB for images"
	umount -l "$STORE/images"
	assert_success
}
