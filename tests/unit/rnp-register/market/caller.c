/* caller.c - who floods signed reads keeps nobody else from reading, whether he has an account or a
 * new key for each request. */
/* uses: cmd/rnp-register */
#include "common/httpd/nonces.h"
#include "tests/unit/rnp-register/market/serve.h"

#define ROOM 64

int main(void)
{
	struct registry_config config = { 0 };
	int taken = 0;

	make_keys();
	start_with(&config);
	make_market();
	nonces_free(registry.nonces);
	registry.nonces = nonces_new(ROOM, true);
	for (int i = 0; i < 4 * ROOM; i++) {
		struct key k = KEY_INIT;

		make_key(&k, (unsigned char)(100 + i % 100));
		CHECK_I64(200, ask("GET", "/v1/account", &k, NULL, 0, NULL));
		key_release(&k);
	}
	CHECK_I64(200, ask("GET", "/v1/account", &customer, NULL, 0, NULL));
	/* with an account: he shuts himself out */
	for (int i = 0; i < 4 * ROOM; i++)
		taken += ask("GET", "/v1/account", &other, NULL, 0, NULL) == 200;
	CHECK(taken <= ROOM);
	for (int i = 0; i < 4; i++)
		CHECK_I64(200, ask("GET", "/v1/account", &customer, NULL, 0, NULL));
	CHECK_I64(200, ask("GET", "/v1/account", &stranger, NULL, 0, NULL));
	stop();
	clean_up();
	TEST_END();
}
