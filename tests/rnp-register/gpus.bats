# GPUs as a lease sees them, without any: the library of a driver that is made up (tests/fake/nvml.c), and CDI files that name
# harmless device nodes. Those stand in a machine of the test's own: what it has below /etc no other sees.
load ../helper
load registry
load containers
load work

one=GPU-11111111-2222-3333-4444-555555555555
other=GPU-66666666-7777-8888-9999-aaaaaaaaaaaa

# The nodes are /dev/zero and /dev/full under names of the test's own: podman takes them by the names that the host has
gpu_machine() {
	NODES=/dev/rnp-test-$$
	"${CC:-gcc}" -shared -fPIC -o libnvidia-ml.so.1 "$ROOT/tests/fake/nvml.c"
	mknod -m 666 "$NODES-0" c 1 5 || skip "NO DEVICE NODES CAN BE MADE HERE"
	mknod -m 666 "$NODES-1" c 1 7
	mknod -m 666 "$NODES-ctl" c 1 3
	mkdir -p layers hooks
	jq -n --arg a "$one" --arg b "$other" --arg nodes "$NODES" '{cdiVersion: "0.5.0", kind: "nvidia.com/gpu",
		containerEdits: {deviceNodes: [{path: "\($nodes)-ctl", hostPath: "\($nodes)-ctl"}], env: ["NVIDIA_VISIBLE_DEVICES=void"]},
		devices: [{name: $a, containerEdits: {deviceNodes: [{path: "\($nodes)-0", hostPath: "\($nodes)-0"}]}},
			{name: $b, containerEdits: {deviceNodes: [{path: "\($nodes)-1", hostPath: "\($nodes)-1"}]}}]}' >nvidia.json
	# a hook as NVIDIA's older packages have it: it would see what the image wishes, as root
	jq -n --arg said "$PWD/hooked" '{version: "1.0.0", hook: {path: "/bin/sh", args: ["sh", "-c", "cat >>\($said)"]}, when: {always: true},
		stages: ["prestart"]}' >hooks/nvidia.json
	unshare -m bash -ec '
		mount -t tmpfs layers layers
		for d in etc usr/share; do
			mkdir -p "layers/$d/up" "layers/$d/work"
			mount -t overlay over -o "lowerdir=/$d,upperdir=$PWD/layers/$d/up,workdir=$PWD/layers/$d/work" "/$d"
		done
		mkdir -p /etc/cdi /etc/containers/oci/hooks.d /usr/share/containers/oci/hooks.d
		cp nvidia.json /etc/cdi/
		cp hooks/nvidia.json /etc/containers/oci/hooks.d/
		cp hooks/nvidia.json /usr/share/containers/oci/hooks.d/
		touch there
		exec sleep 1000000' 2>own.err 3>&- &
	own=$!
	there() { [[ -e there ]] || process_is_gone "$own"; }
	wait_until "a machine" there
	[[ -e there ]] || skip "NO OVERLAY OF /etc HERE: $(cat own.err)"
	IN_MACHINE+=(--mount="/proc/$own/ns/mnt" --wd="$PWD")
	export LD_LIBRARY_PATH=$PWD
}

teardown() {
	stop_agent
	kill "$registry" "${own:-$registry}" 2>/dev/null || true
	rm -f "${NODES:-/dev/rnp-none}"-{0,1,ctl}
	end_leases "$BOX" "$RUN"
	rm -rf "$BOX" "$RUN"
}

# gpu_booking UUID SCRIPT: a booking of that GPU, as a registry writes its name
gpu_booking() {
	booking "$2" ".proposal.request.gpu_count = 1 | .proposal.request.job = \"$1\" | .proposal.offers[0].nodes[0].gpus = [\"${1,,}\"]"
}

@test "gpus: a lease has the device that is leased, and no other, whatever its image and its root wish" {
	gpu_machine
	local look="ls -1 /dev | grep rnp-test | sed 's/.*-//' | paste -sd ' '
		echo \$NVIDIA_VISIBLE_DEVICES
		head -c 2 $NODES-0 2>/dev/null | od -An -tx1
		mknod /tmp/full c 1 7 2>/dev/null && head -c 1 /tmp/full && echo made one
		export NVIDIA_VISIBLE_DEVICES=all; ls $NODES-1 2>&1 | grep -c No.such"
	assign "$C" "$(gpu_booking "$one" "$look; sleep 1000")" ".gpus = [\"${one,,}\"]"
	start_agent
	wait_until "its last line" grep -qs '^1$' "reg/log-$C-0"
	assert_equal "$(paste -sd '|' <"reg/log-$C-0")" '0 ctl|void| 00 00|1'
	# its neighbour has the other, at the same time
	assign "$D" "$(gpu_booking "$other" "ls -1 /dev | grep rnp-test | sed 's/.*-//' | paste -sd ' '; echo end")" ".gpus = [\"${other,,}\"]"
	wait_until "its neighbour's last line" grep -qs end "reg/log-$D-0"
	assert_equal "$(paste -sd '|' <"reg/log-$D-0")" '1 ctl|end'
	# what this machine would run beside its own containers runs beside none of these
	[[ ! -e hooked ]] || fail "a hook of the machine ran: $(cat hooked)"
	change "$C" '.want = "release"'
	wait_until "its release" told "$C" '.to == "released"'
	wait_until "an empty machine" nothing_left
}

@test "gpus: a GPU that no CDI file names fails with that cause, and nothing stays" {
	gpu_machine
	"${IN_MACHINE[@]}" sed -i "s/$other/GPU-0/" /etc/cdi/nvidia.json
	assign "$C" "$(gpu_booking "$other" true)" ".gpus = [\"${other,,}\"]"
	start_agent
	wait_until "a failure" told "$C" '.to == "failed" and (.cause | contains("a device of the lease is not there"))'
	wait_until "an empty machine" nothing_left
}
