/* pooling.c - reads how an embedding model pools its rows. */
#include "common/lm/model/pooling.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/base/io.h"
#include "common/json/json.h"

#define CONFIG_BYTES_MAX ((size_t)1 << 20)

static int refuse(const char *where, const char *way)
{
	err_set(EX_DATAERR, "%s: embeddings that are made by '%s' are not supported",
		where, way);
	return err_hint("take others, of the last token or the mean, with --embeddings");
}

/* A flag a way; several of them would be vectors one behind the other. */
static int read_flags(enum lm_pooling *out, const json_t *config, const char *where)
{
	const char *key;
	json_t *v;

	json_object_foreach((json_t *)config, key, v) {
		enum lm_pooling way = strcmp(key, "pooling_mode_lasttoken") == 0 ?
			LM_POOLING_LAST :
			strcmp(key, "pooling_mode_mean_tokens") == 0 ? LM_POOLING_MEAN :
								       LM_POOLING_UNSAID;

		if (strncmp(key, "pooling_mode_", strlen("pooling_mode_")) != 0 ||
			!json_is_true(v))
			continue;
		if (way == LM_POOLING_UNSAID || *out != LM_POOLING_UNSAID)
			return refuse(where, key);
		*out = way;
	}
	return 0;
}

static int read_directory(enum lm_pooling *out, const char *dir)
{
	struct buf path = BUF_INIT, text = BUF_INIT;
	json_t *config = NULL;
	int rc = 0;

	buf_addf(&path, "%s/1_Pooling/config.json", dir);
	if (access(path.data, F_OK) < 0)
		goto out;
	rc = io_read(&text, path.data, CONFIG_BYTES_MAX);
	if (rc < 0)
		goto out;
	config = json_parse_object(buf_text(&text), text.len, path.data);
	rc = config ? read_flags(out, config, path.data) : -1;
out:
	json_decref(config);
	buf_release(&path);
	buf_release(&text);
	return rc;
}

static int read_gguf(enum lm_pooling *out, const struct gguf *g, const char *path)
{
	static const char *const others[] = { "none", "mean", "cls", "last", "rank" };
	const char *architecture = NULL;
	uint64_t bytes = 0, way = 0;
	char key[96];

	if (gguf_get_text(g, "general.architecture", &architecture, &bytes) < 0)
		return -1;
	snprintf(key, sizeof key, "%.*s.pooling_type", (int)(bytes < 64 ? bytes : 64),
		architecture ? architecture : "");
	if (gguf_get_u64(g, key, UINT32_MAX, &way) < 0)
		return -1;
	*out = way == 1  ? LM_POOLING_MEAN :
		way == 3 ? LM_POOLING_LAST :
			   LM_POOLING_UNSAID;
	if (way && *out == LM_POOLING_UNSAID)
		return refuse(path, way < 5 ? others[way] : "?");
	return 0;
}

int lm_pooling_read(enum lm_pooling *out, const struct model_file *m, const char *path)
{
	const struct gguf *g = model_file_gguf(m);

	*out = LM_POOLING_UNSAID;
	if (g)
		return read_gguf(out, g, path);
	return model_file_format(m) == LM_FORMAT_SAFETENSORS ? read_directory(out, path) :
							       0;
}
