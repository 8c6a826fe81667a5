/* openapi.h - holds the limits of a server's routes against those that its document tells. */
#ifndef RNP_TESTS_UNIT_OPENAPI_H
#define RNP_TESTS_UNIT_OPENAPI_H

#include <ctype.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/httpd/httpd.h"
#include "tests/unit/test.h"

/* The 413 of a route; a reference is followed. NULL: it has none. */
static const char *openapi_too_large(const json_t *doc, const struct httpd_route *r)
{
	static const char local[] = "#/components/responses/";
	char method[8] = "";
	const char *ref;
	const json_t *one;

	for (size_t i = 0; r->method[i] && i + 1 < sizeof method; i++)
		method[i] = (char)tolower((unsigned char)r->method[i]);
	one = json_object_get(json_object_get(doc, "paths"), r->path);
	one = json_object_get(json_object_get(one, method), "responses");
	one = json_object_get(one, "413");
	ref = json_string_value(json_object_get(one, "$ref"));
	if (ref && strncmp(ref, local, sizeof local - 1) == 0)
		one = json_object_get(json_object_get(json_object_get(doc, "components"),
					      "responses"),
			ref + sizeof local - 1);
	return json_string_value(json_object_get(one, "description"));
}

/* Each route that takes a body says of 413 how many bytes that is, and it is what the server takes.
 * The table ends with an empty row. */
static inline void openapi_check_limits(const char *text,
	const struct httpd_route *routes)
{
	json_t *doc = json_loads(text, 0, NULL);
	char want[80];
	int bodies = 0;

	CHECK(doc != NULL);
	for (const struct httpd_route *r = routes; r->path; r++) {
		const char *is = openapi_too_large(doc, r);

		if (!r->body_bytes_max)
			continue;
		bodies++;
		snprintf(want, sizeof want, "The body is larger than %zu bytes.",
			r->body_bytes_max);
		test_checks++;
		if (is && strcmp(is, want) == 0)
			continue;
		test_failures++;
		fprintf(stderr,
			"openapi.json: %s %s: its 413 says '%s', and the table of routes '%s'\n",
			r->method, r->path, is ? is : "(nothing)", want);
	}
	CHECK(bodies > 0);
	json_decref(doc);
}

#endif
