# sign.bash - signed requests by a program that is not ours: `load sign`.

# sign_request KEY METHOD URL [NONCE [CREATED]]: prints the headers of a signed request (RFC
# 9421), one per line. It uses openssl and not our code: the server must verify what others
# sign.
sign_request() {
	local path=/${3#*://*/} host=${3#*://} input key query=
	host=${host%%/*}
	[[ $path != *\?* ]] || query=${path#*\?}
	input="(\"@method\" \"@authority\" \"@path\" \"@query\");created=${5:-$(date +%s)};nonce=\"${4:-$RANDOM$RANDOM$RANDOM}\""
	input+=";keyid=\"$(rnp-register address --key "$1")\";tag=\"rnp\""
	# PKCS#8: these bytes, then the first half of the key file
	key='\x30\x2e\x02\x01\x00\x30\x05\x06\x03\x2b\x65\x70\x04\x22\x04\x20'
	key+=$(jq -r '.[:32][]' "$1" | xargs printf '\\x%02x')
	printf '%b' "$key" | openssl pkey -inform DER -out request.pem
	printf '"@method": %s\n"@authority": %s\n"@path": %s\n"@query": ?%s\n"@signature-params": %s' \
		"$2" "$host" "${path%%\?*}" "$query" "$input" >request.base
	echo "Signature-Input: a=$input"
	echo "Signature: a=:$(openssl pkeyutl -sign -rawin -inkey request.pem -in request.base | base64 -w0):"
}
