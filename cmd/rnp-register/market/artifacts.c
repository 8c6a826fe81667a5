/* artifacts.c - the bound of a booking. */
#include "cmd/rnp-register/market/artifacts.h"

int64_t artifact_bytes_max(const json_t *booking)
{
	const json_t *artifacts = json_object_get(booking, "artifacts"),
		     *most = json_object_get(artifacts, "bytes_max");

	if (!artifacts)
		return 0;
	return json_is_integer(most) ? json_integer_value(most) : ARTIFACT_BYTES_USUAL;
}
