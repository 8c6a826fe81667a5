/* api.c - the document of the API tells the limits that the server has. uses: cmd/rnp-register */
#include "cmd/rnp-register/registry/api.h"

#include "tests/unit/openapi.h"

extern const char *const api_embedded_texts[]; /* openapi.json first */

int main(void)
{
	openapi_check_limits(api_embedded_texts[0], registry_routes);
	TEST_END();
}
