/*
 * The own certificate of a TLS context, and whether it expires soon: for --check, RELOAD and the
 * alarms.
 *
 * A year's certificate expires soon 30 days before its end. Authorities that renew by themselves
 * give 90 days, which clients of ACME renew when a third is left, or a day: therefore a certificate
 * expires soon only in the last quarter of its life.
 */
#include "net/tls_context.h"

#include <openssl/x509.h>
#include <time.h>

#define SOON_DAYS 30

/* Returns the time on the wall clock; 0: it is not readable. */
static usec_t time_of_asn1(const ASN1_TIME *time)
{
	struct tm parts;

	return ASN1_TIME_to_tm(time, &parts) ? (usec_t)timegm(&parts) * USEC : 0;
}

bool tls_context_certificate(const struct tls_context *context, usec_t wall,
			     struct tls_certificate *certificate)
{
	const X509 *own = context ? SSL_CTX_get0_certificate(context->ssl) : NULL;
	usec_t left;

	if (!own)
		return false;
	certificate->file = context->strings[CONTEXT_CERTIFICATE];
	certificate->from = time_of_asn1(X509_get0_notBefore(own));
	certificate->to = time_of_asn1(X509_get0_notAfter(own));
	left = certificate->to - wall;
	certificate->expires_soon = left < SOON_DAYS * 86400 * USEC &&
				    left < (certificate->to - certificate->from) / 4;
	return true;
}
