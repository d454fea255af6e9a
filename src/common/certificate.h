/* When a certificate ends that a TLS context shows. */
#ifndef COMMON_CERTIFICATE_H
#define COMMON_CERTIFICATE_H

#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <stdint.h>

/* In seconds since 1970; 0: it shows none, or OpenSSL cannot tell. */
static inline int64_t weir_certificate_end_s(SSL_CTX *context) {
  const X509 *certificate = SSL_CTX_get0_certificate(context);
  int days = 0;
  int seconds = 0;
  if (certificate == NULL) return 0;
  ASN1_TIME *epoch = ASN1_TIME_set(NULL, 0);
  if (epoch != NULL) (void)ASN1_TIME_diff(&days, &seconds, epoch, X509_get0_notAfter(certificate));
  ASN1_STRING_free(epoch);
  return (int64_t)days * 86400 + seconds;
}

#endif
