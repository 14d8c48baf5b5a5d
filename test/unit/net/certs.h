#ifndef CERTS_H
#define CERTS_H

/* Certificates for the tests of TLS. Each file of tests makes new certificates in its own directory. */
#include "unit.h"

#include <ftw.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct cert {
	X509 *x509;
	EVP_PKEY *key;
	char cert_file[120], key_file[120];
};

static char certs_dir[] = "/tmp/pgweir-certs-XXXXXX";

static int certs_remove_one(const char *path, const struct stat *info, int flag, struct FTW *ftw)
{
	(void)info, (void)flag, (void)ftw;
	return remove(path);
}

static void certs_remove(void)
{
	nftw(certs_dir, certs_remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static void cert_extend(X509 *x509, X509 *issuer, int nid, const char *value)
{
	X509V3_CTX context;
	X509_EXTENSION *extension;

	X509V3_set_ctx(&context, issuer, x509, NULL, NULL, 0);
	extension = X509V3_EXT_conf_nid(NULL, &context, nid, value);
	X509_add_ext(x509, extension, -1);
	X509_EXTENSION_free(extension);
}

static void cert_write(const struct cert *c)
{
	FILE *file = fopen(c->cert_file, "w");

	PEM_write_X509(file, c->x509);
	fclose(file);
	file = fopen(c->key_file, "w");
	PEM_write_PrivateKey(file, c->key, NULL, NULL, 0, NULL, NULL);
	fclose(file);
}

/*
 * A certificate signed by `issuer` (NULL: a self-signed CA) and valid for `days` from yesterday; -1 is expired. `alternative` as in
 * "DNS:a,IP:127.0.0.1", NULL: none. `common_name` may contain NULs.
 */
static void cert_make(struct cert *c, const char *file, const char *common_name, int name_size, const char *alternative,
		      const struct cert *issuer, int days)
{
	static long serial;
	const struct cert *by = issuer ? issuer : c;
	X509_NAME *name;

	snprintf(c->cert_file, sizeof c->cert_file, "%s/%s.crt", certs_dir, file);
	snprintf(c->key_file, sizeof c->key_file, "%s/%s.key", certs_dir, file);
	c->key = EVP_EC_gen("P-256");
	c->x509 = X509_new();
	X509_set_version(c->x509, X509_VERSION_3);
	ASN1_INTEGER_set(X509_get_serialNumber(c->x509), ++serial);
	X509_gmtime_adj(X509_getm_notBefore(c->x509), -3 * 86400);
	X509_gmtime_adj(X509_getm_notAfter(c->x509), days * 86400L);
	X509_set_pubkey(c->x509, c->key);
	name = X509_get_subject_name(c->x509);
	X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8, (const unsigned char *)common_name, name_size, -1, 0);
	X509_set_issuer_name(c->x509, X509_get_subject_name(by->x509));
	cert_extend(c->x509, by->x509, NID_basic_constraints, issuer ? "CA:FALSE" : "critical,CA:TRUE");
	if (alternative)
		cert_extend(c->x509, by->x509, NID_subject_alt_name, alternative);
	X509_sign(c->x509, by->key, EVP_sha256());
	cert_write(c);
}

static void cert_free(struct cert *c)
{
	X509_free(c->x509);
	EVP_PKEY_free(c->key);
}

static struct cert ca, other_ca, server, expired, ip_in_name, client, odd_name;

static void certs_free(void)
{
	struct cert *const all[] = { &ca, &other_ca, &server, &expired, &ip_in_name, &client, &odd_name };

	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		cert_free(all[i]);
	certs_remove();
}

UNIT_BEFORE(certs_make)
{
	if (!mkdtemp(certs_dir))
		abort();
	atexit(certs_free);
	cert_make(&ca, "ca", "pgweir test CA", -1, NULL, NULL, 10);
	cert_make(&other_ca, "other", "another CA", -1, NULL, NULL, 10);
	cert_make(&server, "server", "server.test", -1, "DNS:db.test,DNS:*.wild.test,IP:127.0.0.1,IP:::1", &ca, 10);
	cert_make(&expired, "expired", "db.test", -1, "DNS:db.test", &ca, -1);
	cert_make(&ip_in_name, "ip", "127.0.0.1", -1, NULL, &ca, 10);
	cert_make(&client, "client", "alice", -1, NULL, &ca, 10);
	cert_make(&odd_name, "odd", "ali\0ce", 6, NULL, &ca, 10);
}

#endif
