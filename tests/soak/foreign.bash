# foreign.bash - libraries of another architecture of Debian's, to link with and to run by qemu-user: to be sourced.

# foreign_root ARCH PACKAGE...: unpacks the packages and what they depend on, once, below build/ARCH-root, which becomes
# $foreign. Nothing is installed. Needs apt-get and its mirror. False where they cannot be had.
foreign_root() {
	local arch=$1 apt deb work
	foreign=$PWD/build/$arch-root
	[[ ! -e $foreign/usr ]] || return 0
	work=$(mktemp -d)
	mkdir -p "$work/lists/partial" "$work/archives/partial"
	apt=(-qq -o "APT::Architecture=$arch" -o "APT::Architectures::=$arch" -o "Dir::State::lists=$work/lists" -o "Dir::Cache=$work"
		-o Dir::State::status=/dev/null)
	if apt-get "${apt[@]}" update &&
		apt-get "${apt[@]}" install --download-only -y --no-install-recommends "${@:2}" >/dev/null; then
		mkdir -p "$foreign.part"
		for deb in "$work"/archives/*.deb; do dpkg -x "$deb" "$foreign.part"; done
		# the cross compiler has its own libc to link with
		rm -f "$foreign.part"/usr/lib/*-linux-gnu/{libc.so,libm.so,libc.a,libm.a,*crt*.o}
		mv "$foreign.part" "$foreign"
	fi
	rm -rf "$work"
	[[ -e $foreign/usr ]]
}
