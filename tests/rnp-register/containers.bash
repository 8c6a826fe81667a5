# containers.bash - for tests that run containers: what they need, a registry of images on loopback, images from busybox.

# Skips, loudly, where containers cannot run.
need_podman() {
	local tool
	((EUID == 0)) || skip "containers need root"
	for tool in podman runc conmon skopeo docker-registry busybox; do
		command -v "$tool" >/dev/null || skip "no $tool: scripts/bootstrap"
	done
	# one that ends at once, by the runtime that the agent uses
	local try=$BATS_FILE_TMPDIR/try said
	mkdir -p "$try/fs/bin" && cp "$(command -v busybox)" "$try/fs/bin/busybox"
	said=$(podman --root "$try/root" --runroot "$try/run" --runtime runc --cgroup-manager cgroupfs run --rm --network none \
		--ulimit nofile=1024:1024 --ulimit nproc=1024:1024 --rootfs "$try/fs" /bin/busybox true 2>&1) ||
		skip "NO CONTAINER RUNS HERE: ${said##*$'\n'}"
}

IN_MACHINE=()

# A machine for a node: a network namespace with nothing but loopback, so that what an agent does to its machine's network
# touches none that there is. What a test starts, and what it asks, is in there: curl too.
make_machine() {
	MACHINE=$BATS_FILE_TMPDIR/machine.net
	export MACHINE
	touch "$MACHINE"
	unshare --net="$MACHINE" ip link set lo up || skip "cannot make a network namespace"
	use_machine
}
# As in_machine, for what goes to the background: $! is then the program and no shell. In each test's setup.
use_machine() {
	IN_MACHINE=(nsenter --net="$MACHINE")
}
end_machine() {
	[[ -z ${MACHINE:-} ]] || umount "$MACHINE" 2>/dev/null || true
}

in_machine() {
	if [[ ${MACHINE:-} ]]; then set -- nsenter --net="$MACHINE" "$@"; fi
	"$@"
}
curl() {
	if [[ ${MACHINE:-} ]]; then nsenter --net="$MACHINE" curl "$@"; else command curl "$@"; fi
}

# Starts a registry of images on a free port of loopback: $IMAGES is its host and port, $IMAGES_PID its process.
start_images() {
	local dir=$BATS_FILE_TMPDIR/images port
	mkdir -p "$dir"
	for port in $(shuf -i 20000-29999 -n 20); do
		cat >"$dir/config.yml" <<-E
			version: 0.1
			storage: {filesystem: {rootdirectory: $dir/store}}
			http: {addr: "127.0.0.1:$port"}
		E
		"${IN_MACHINE[@]}" docker-registry serve "$dir/config.yml" >"$dir/log" 2>&1 3>&- &
		IMAGES_PID=$!
		IMAGES=127.0.0.1:$port
		wait_until "a registry of images" images_answer "$IMAGES_PID" "$port"
		kill -0 "$IMAGES_PID" 2>/dev/null && break
	done
	export IMAGES IMAGES_PID
}
images_answer() {
	! kill -0 "$1" 2>/dev/null || curl -sf -m 5 "http://127.0.0.1:$2/v2/" >/dev/null
}

stop_images() {
	[[ -z ${IMAGES_PID:-} ]] || kill "$IMAGES_PID"
}

# push_image NAME [options of image.py]: prints the reference, with its digest.
push_image() {
	local name=$1 dir=$BATS_FILE_TMPDIR/oci-$1 digest
	shift
	digest=$(python3 "$ROOT/tests/tools/image.py" "$dir" "$@") || return
	in_machine skopeo copy -q --dest-tls-verify=false "oci:$dir:t" "docker://$IMAGES/$name:t" >&2 || return
	rm -rf "$dir"
	echo "$IMAGES/$name@$digest"
}

# end_podman DIR...: ends what runs below these folders of a podman, whatever a test left there.
end_podman() {
	local pid
	for pid in $(pgrep -f "podman.*--runroot $1" || true); do kill "$pid" 2>/dev/null || true; done
}

# Skips where a lease's disk and network cannot be made: loop devices, an encrypting ext4, nftables.
need_sandbox() {
	local tool
	for tool in mkfs.ext4 nft losetup ip; do
		command -v "$tool" >/dev/null || PATH=$PATH:/usr/sbin:/sbin command -v "$tool" >/dev/null ||
			skip "no $tool: scripts/bootstrap"
	done
	[[ -e /dev/loop-control ]] || skip "no loop devices here"
	[[ -e /sys/fs/ext4/features/encryption ]] || skip "this kernel's ext4 does not encrypt"
	unshare -n true 2>/dev/null || skip "no network namespaces"
}

# end_leases DIR RUN: ends what an agent with these folders has left: a test that failed must not keep a machine busy
end_leases() {
	local pid point
	for pid in $(pgrep -f -- "$2/l/" || true); do kill -9 "$pid" 2>/dev/null || true; done
	for point in $(awk -v d="$1/" -v r="$2/" 'index($2, d) == 1 || index($2, r) == 1 { print $2 }' /proc/mounts | sort -r); do
		umount -l "$point" 2>/dev/null || true
	done
}
