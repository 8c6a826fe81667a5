/* tls.c - TLS for httpd's connections, by OpenSSL. SIGPIPE must be blocked: OpenSSL
 * writes to sockets with write(2). */
#include "common/httpd/tls.h"

#include <openssl/ssl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "kernels/dev/library.h"

/* All ciphers have forward secrecy and authenticate what they encrypt: no CBC, no static RSA. */
#define CIPHERS_12 "ECDHE+AESGCM:ECDHE+CHACHA20"

static struct {
	const SSL_METHOD *(*server_method)(void);
	SSL_CTX *(*ctx_new)(const SSL_METHOD *);
	void (*ctx_free)(SSL_CTX *);
	long (*ctx_ctrl)(SSL_CTX *, int, long, void *);
	uint64_t (*ctx_set_options)(SSL_CTX *, uint64_t);
	int (*ctx_set_cipher_list)(SSL_CTX *, const char *);
	int (*ctx_use_chain)(SSL_CTX *, const char *);
	int (*ctx_use_key)(SSL_CTX *, const char *, int);
	int (*ctx_check_key)(const SSL_CTX *);
	void (*ctx_set_password)(SSL_CTX *, pem_password_cb *);
	SSL *(*new)(SSL_CTX *);
	void (*free)(SSL *);
	int (*set_fd)(SSL *, int);
	void (*set_accept_state)(SSL *);
	int (*read)(SSL *, void *, int);
	int (*write)(SSL *, const void *, int);
	int (*get_error)(const SSL *, int);
	int (*shutdown)(SSL *);
	void (*clear_error)(void);
	bool ready;
	char problem[200];
} ssl;

static void load_library(void)
{
	static const struct library_symbol symbols[] = {
		{ "TLS_server_method", &ssl.server_method },
		{ "SSL_CTX_new", &ssl.ctx_new },
		{ "SSL_CTX_free", &ssl.ctx_free },
		{ "SSL_CTX_ctrl", &ssl.ctx_ctrl },
		{ "SSL_CTX_set_options", &ssl.ctx_set_options },
		{ "SSL_CTX_set_cipher_list", &ssl.ctx_set_cipher_list },
		{ "SSL_CTX_use_certificate_chain_file", &ssl.ctx_use_chain },
		{ "SSL_CTX_use_PrivateKey_file", &ssl.ctx_use_key },
		{ "SSL_CTX_check_private_key", &ssl.ctx_check_key },
		{ "SSL_CTX_set_default_passwd_cb", &ssl.ctx_set_password },
		{ "SSL_new", &ssl.new },
		{ "SSL_free", &ssl.free },
		{ "SSL_set_fd", &ssl.set_fd },
		{ "SSL_set_accept_state", &ssl.set_accept_state },
		{ "SSL_read", &ssl.read },
		{ "SSL_write", &ssl.write },
		{ "SSL_get_error", &ssl.get_error },
		{ "SSL_shutdown", &ssl.shutdown },
		/* in libcrypto, which libssl loads */
		{ "ERR_clear_error", &ssl.clear_error },
	};

	ssl.ready = library_open("libssl.so.3", symbols, sizeof symbols / sizeof *symbols,
		ssl.problem, sizeof ssl.problem);
}

static int library(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, load_library);
	if (ssl.ready)
		return 0;
	err_set(EX_UNAVAILABLE, "cannot use OpenSSL: %s", ssl.problem);
	return err_hint("install the package libssl3");
}

struct httpd_tls {
	SSL_CTX *ctx;
};

/* Refuses a key with a passphrase: there is nobody to ask for it. */
static int no_password(char *out, int bytes, int writing, void *ctx)
{
	(void)out, (void)bytes, (void)writing, (void)ctx;
	return -1;
}

static int check_files(const char *cert_file, const char *key_file)
{
	struct buf word = BUF_INIT;
	struct stat s;

	if (stat(cert_file, &s) < 0)
		return err_sys(0, "cannot read certificate '%s'", cert_file);
	if (stat(key_file, &s) < 0)
		return err_sys(0, "cannot read key '%s'", key_file);
	if (s.st_mode & (S_IRWXG | S_IRWXO)) {
		err_set(EX_NOPERM, "'%s' can be read or written by others than its owner",
			key_file);
		buf_add_shell(&word, key_file);
		err_hint("chmod 600 %s", word.data);
		buf_release(&word);
		return -1;
	}
	return 0;
}

static bool set_up(SSL_CTX *ctx, const char *cert_file, const char *key_file)
{
	ssl.ctx_set_password(ctx, no_password);
	ssl.ctx_set_options(ctx,
		SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
			SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA);
	ssl.ctx_ctrl(ctx, SSL_CTRL_MODE,
		SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
			SSL_MODE_RELEASE_BUFFERS,
		NULL);
	ssl.ctx_ctrl(ctx, SSL_CTRL_SET_SESS_CACHE_MODE, SSL_SESS_CACHE_OFF, NULL);
	return ssl.ctx_ctrl(ctx, SSL_CTRL_SET_MIN_PROTO_VERSION, TLS1_2_VERSION, NULL) ==
		1 &&
		ssl.ctx_set_cipher_list(ctx, CIPHERS_12) == 1 &&
		ssl.ctx_use_chain(ctx, cert_file) == 1 &&
		ssl.ctx_use_key(ctx, key_file, SSL_FILETYPE_PEM) == 1 &&
		ssl.ctx_check_key(ctx) == 1;
}

struct httpd_tls *httpd_tls_new(const char *cert_file, const char *key_file)
{
	struct httpd_tls *t;

	if (check_files(cert_file, key_file) < 0 || library() < 0)
		return NULL;
	t = xcalloc(1, sizeof *t);
	t->ctx = ssl.ctx_new(ssl.server_method());
	if (t->ctx && set_up(t->ctx, cert_file, key_file))
		return t;
	ssl.clear_error();
	httpd_tls_free(t);
	err_set(EX_DATAERR, "cannot use certificate '%s' with key '%s'", cert_file,
		key_file);
	return NULL;
}

void httpd_tls_free(struct httpd_tls *t)
{
	if (!t)
		return;
	if (t->ctx)
		ssl.ctx_free(t->ctx);
	free(t);
}

struct httpd_tls_session *httpd_tls_open(struct httpd_tls *t, int fd)
{
	SSL *s = ssl.new(t->ctx);

	if (!s)
		return NULL;
	if (ssl.set_fd(s, fd) != 1) {
		ssl.free(s);
		return NULL;
	}
	ssl.set_accept_state(s); /* the first recv does the handshake */
	return (struct httpd_tls_session *)s;
}

void httpd_tls_close(struct httpd_tls_session *s, int polite)
{
	if (!s)
		return;
	if (polite) {
		ssl.clear_error();
		ssl.shutdown((SSL *)s);
	}
	ssl.free((SSL *)s);
}

static long result(SSL *s, int n)
{
	switch (ssl.get_error(s, n)) {
	case SSL_ERROR_WANT_READ:
	case SSL_ERROR_WANT_WRITE:
		return HTTPD_TLS_AGAIN;
	case SSL_ERROR_ZERO_RETURN:
		return 0;
	default:
		return HTTPD_TLS_FAILED;
	}
}

long httpd_tls_recv(struct httpd_tls_session *s, void *to, size_t cap)
{
	int n;

	ssl.clear_error(); /* an older error left in the queue would be taken for ours */
	n = ssl.read((SSL *)s, to, cap > 1 << 30 ? 1 << 30 : (int)cap);
	return n > 0 ? n : result((SSL *)s, n);
}

long httpd_tls_send(struct httpd_tls_session *s, const void *data, size_t len)
{
	int n;

	ssl.clear_error();
	n = ssl.write((SSL *)s, data, len > 1 << 30 ? 1 << 30 : (int)len);
	return n > 0 ? n : result((SSL *)s, n);
}
