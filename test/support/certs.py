"""
A throw-away certificate authority: one CA, a server certificate for localhost, a client certificate, and a
second CA that signed nothing the first one knows. Made once per test process with the openssl command.
"""
import datetime
import os
import ssl
import subprocess


class Authority:
    def __init__(self, directory):
        self.directory = str(directory)
        self._make_ca("ca", "pgweir test CA")
        self._make_ca("other", "somebody else's CA")
        self.issue("server", "localhost", names="DNS:localhost,IP:127.0.0.1")
        self.issue("client", "app")

    def path(self, name):
        return os.path.join(self.directory, name)

    def cert(self, name):
        return self.path(name + ".crt")

    def key(self, name):
        return self.path(name + ".key")

    def _openssl(self, *arguments):
        subprocess.run(("openssl",) + arguments, check=True, cwd=self.directory,
                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def _make_key(self, name, kind="ec"):
        if kind.startswith("rsa"):
            self._openssl("genrsa", "-out", self.key(name), kind[4:] or "2048")
        elif kind == "own curve":
            self._openssl("ecparam", "-name", "prime256v1", "-param_enc", "explicit", "-genkey", "-noout", "-out", self.key(name))
        elif kind == "ed25519":
            self._openssl("genpkey", "-algorithm", "ed25519", "-out", self.key(name))
        else:
            self._openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", self.key(name))
        os.chmod(self.key(name), 0o600)

    def _make_ca(self, name, subject):
        self._make_key(name)
        self._openssl("req", "-x509", "-new", "-key", self.key(name), "-subj", "/CN=" + subject, "-days", "3650",
                      "-out", self.cert(name))

    def issue(self, name, common_name, names=None, by="ca", rsa=False, key="ec", digest="sha256"):
        """Makes a certificate signed by a CA of ours, or self-signed (None); names: its subjectAltName."""
        self._make_key(name, "rsa" if rsa else key)
        self._openssl("req", "-new", "-key", self.key(name), "-subj", "/CN=" + common_name,
                      "-out", self.path(name + ".csr"))
        extra = ()
        if names:
            with open(self.path(name + ".ext"), "w", encoding="ascii") as f:
                f.write("subjectAltName=%s\n" % names)
            extra = ("-extfile", self.path(name + ".ext"))
        signer = ("-CA", self.cert(by), "-CAkey", self.key(by), "-CAcreateserial") if by else ("-key", self.key(name))
        self._openssl("x509", "-req", "-in", self.path(name + ".csr"), *signer, "-" + digest,
                      "-days", "3650", "-out", self.cert(name), *extra)

    def issue_aged(self, name, common_name, begun, left):
        """Makes a certificate that has been valid since `begun` days ago, and is for `left` days; negative: it has expired."""
        self._make_key(name)
        self._openssl("req", "-new", "-key", self.key(name), "-subj", "/CN=" + common_name, "-out", self.path(name + ".csr"))
        index = self.path(name + ".index")
        with open(index, "w", encoding="ascii"), open(self.path(name + ".cnf"), "w", encoding="ascii") as f:
            f.write("[ca]\ndefault_ca = x\n[x]\ndatabase = %s\nnew_certs_dir = %s\nrand_serial = yes\ndefault_md = sha256\npolicy = p\n"
                    "[p]\ncommonName = supplied\n" % (index, self.directory))
        now = datetime.datetime.now(datetime.timezone.utc)
        start, end = ((now + datetime.timedelta(days=days)).strftime("%Y%m%d%H%M%SZ") for days in (-begun, left))
        self._openssl("ca", "-batch", "-notext", "-config", self.path(name + ".cnf"), "-keyfile", self.key("ca"), "-cert", self.cert("ca"),
                      "-startdate", start, "-enddate", end, "-in", self.path(name + ".csr"), "-out", self.cert(name))

    def revoke(self, name, *certificates, by="ca"):
        """Makes a list `name` of a CA's revoked certificates."""
        index = self.path(name + ".index")
        with open(index, "w", encoding="ascii"), open(self.path(name + ".cnf"), "w", encoding="ascii") as f:
            f.write("[ca]\ndefault_ca = x\n[x]\ndatabase = %s\ndefault_md = sha256\ndefault_crl_days = 3650\n" % index)
        authority = ("-config", self.path(name + ".cnf"), "-keyfile", self.key(by), "-cert", self.cert(by))
        for certificate in certificates:
            self._openssl("ca", *authority, "-revoke", self.cert(certificate))
        self._openssl("ca", *authority, "-gencrl", "-out", self.path(name + ".crl"))
        return self.path(name + ".crl")

    def server_context(self, name="server"):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.cert(name), self.key(name))
        return context

    def client_context(self, name=None, verify=True):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(self.cert("ca"))
        context.check_hostname = verify
        context.verify_mode = ssl.CERT_REQUIRED if verify else ssl.CERT_NONE
        if name:
            context.load_cert_chain(self.cert(name), self.key(name))
        return context
