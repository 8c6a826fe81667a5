/* curl.c - libcurl, opened on first use, so that programs start in milliseconds without it. */
#include <pthread.h>

#include "common/base/err.h"
#include "common/http/parts.h"
#include "kernels/dev/library.h"

struct http_curl http_curl;

static struct {
	bool ready;
	char problem[200];
} library;

static void load_library(void)
{
	static const struct library_symbol symbols[] = {
		{ "curl_easy_init", &http_curl.easy_init },
		{ "curl_easy_cleanup", &http_curl.easy_cleanup },
		{ "curl_easy_reset", &http_curl.easy_reset },
		{ "curl_easy_setopt", &http_curl.easy_setopt },
		{ "curl_easy_getinfo", &http_curl.easy_getinfo },
		{ "curl_easy_pause", &http_curl.easy_pause },
		{ "curl_easy_strerror", &http_curl.easy_strerror },
		{ "curl_global_init", &http_curl.global_init },
		{ "curl_multi_init", &http_curl.multi_init },
		{ "curl_multi_cleanup", &http_curl.multi_cleanup },
		{ "curl_multi_add_handle", &http_curl.multi_add_handle },
		{ "curl_multi_remove_handle", &http_curl.multi_remove_handle },
		{ "curl_multi_perform", &http_curl.multi_perform },
		{ "curl_multi_poll", &http_curl.multi_poll },
		{ "curl_multi_info_read", &http_curl.multi_info_read },
		{ "curl_slist_append", &http_curl.slist_append },
		{ "curl_slist_free_all", &http_curl.slist_free_all },
	};

	library.ready = library_open("libcurl.so.4", symbols,
		sizeof symbols / sizeof *symbols, library.problem,
		sizeof library.problem);
	library.ready = library.ready &&
		http_curl.global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
}

int http_curl_open(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, load_library);
	if (library.ready)
		return 0;
	/* no server's fault: whoever waits for one to come back waits for ever */
	err_set(EX_OSERR, "cannot use libcurl: %s", library.problem);
	return err_hint("install the package libcurl4");
}
