/* api.c - the document of the API tells the limits that the server has. uses: cmd/rnp-serve */
#include "cmd/rnp-serve/server/server.h"

#include "tests/unit/openapi.h"

extern const char *const serve_embedded_texts[]; /* openapi.json first */

int main(void)
{
	openapi_check_limits(serve_embedded_texts[0], server_routes);
	TEST_END();
}
