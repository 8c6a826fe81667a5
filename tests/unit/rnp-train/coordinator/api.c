/* api.c - the document of the API tells the limits that the server has. uses: cmd/rnp-train */
#include "cmd/rnp-train/coordinator/coordinator.h"

#include "tests/unit/openapi.h"

extern const char *const train_embedded_texts[]; /* openapi.json first */

int main(void)
{
	openapi_check_limits(train_embedded_texts[0], coordinate_routes);
	TEST_END();
}
