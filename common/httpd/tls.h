/* tls.h - TLS for a non-blocking socket, by OpenSSL 3, opened with dlopen on first use.
 * Only TLS 1.2 with ECDHE and AEAD ciphers, and TLS 1.3. Private to httpd. */
#ifndef RNP_COMMON_HTTPD_TLS_H
#define RNP_COMMON_HTTPD_TLS_H

#include <stddef.h>

struct httpd_tls;         /* certificate and key */
struct httpd_tls_session; /* of one connection */

/* Reads certificate (chain) and key, PEM. Returns NULL with err_set: 66 a file cannot be read,
 * 65 they do not match, 77 others may read the key, 69 no OpenSSL. */
struct httpd_tls *httpd_tls_new(const char *cert_file, const char *key_file);
void httpd_tls_free(struct httpd_tls *t);

/* Returns NULL when memory is short. */
struct httpd_tls_session *httpd_tls_open(struct httpd_tls *t, int fd);
/* polite: tells the peer that no more bytes follow. */
void httpd_tls_close(struct httpd_tls_session *s, int polite);

enum { HTTPD_TLS_AGAIN = -1, HTTPD_TLS_FAILED = -2 };

/* As recv and send: return how many bytes, 0 when the peer ended the session, or one of the two
 * above. A send that returned HTTPD_TLS_AGAIN has to be repeated with the same bytes. */
long httpd_tls_recv(struct httpd_tls_session *s, void *to, size_t cap);
long httpd_tls_send(struct httpd_tls_session *s, const void *data, size_t len);

#endif
