"""
A private slapd: its own configuration, data and certificates, on free ports of loopback, for tests that need a real
directory. The tree:

    dc=example,dc=net
      ou=people         app (password "ldap-secret"), rival ("rival-ldap")
      ou=twins          three entries with mail=twin@example.net
      cn=searcher       ("search-secret") may search; without a password no client may
"""
import os
import subprocess

from .ports import free_port, listens
from .until import DEADLINE, until

BASE = "dc=example,dc=net"
PEOPLE = "ou=people," + BASE
SEARCHER = "cn=searcher," + BASE
SEARCH_SECRET = "search-secret"
SECRETS = {"app": "ldap-secret", "rival": "rival-ldap"}

CONF = """
include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/inetorgperson.schema
pidfile {directory}/pid
moduleload back_mdb
loglevel stats
{tls}
sizelimit {sizelimit}
access to attrs=userPassword by anonymous auth by * none
access to * by dn.exact="cn=searcher,dc=example,dc=net" read by {others}
database mdb
suffix "dc=example,dc=net"
rootdn "cn=root,dc=example,dc=net"
directory {directory}/data
"""

TLS = """
TLSCACertificateFile {authority.directory}/ca.crt
TLSCertificateFile {authority.directory}/server.crt
TLSCertificateKeyFile {authority.directory}/server.key
"""


def _entry(dn, classes, **attributes):
    lines = ["dn: " + dn] + ["objectClass: " + name for name in classes]
    lines += ["%s: %s" % item for item in attributes.items()]
    return "\n".join(lines) + "\n\n"


def _person(name, secret, parent=PEOPLE):
    return _entry("uid=%s,%s" % (name, parent), ["inetOrgPerson"], uid=name, cn=name, sn=name, userPassword=secret,
                  mail=name + "@example.net")


def _tree(secrets):
    yield _entry(BASE, ["dcObject", "organization"], dc="example", o="example")
    yield _entry(PEOPLE, ["organizationalUnit"], ou="people")
    yield _entry("ou=twins," + BASE, ["organizationalUnit"], ou="twins")
    yield _entry(SEARCHER, ["applicationProcess", "simpleSecurityObject"], cn="searcher", userPassword=SEARCH_SECRET)
    for name, secret in secrets.items():
        yield _person(name, secret)
    for name in ("twin1", "twin2", "twin3"):
        yield _person(name, "twin-secret", "ou=twins," + BASE).replace(name + "@", "twin@")


class Slapd:
    """
    directory    a fresh one
    authority    a test CA: then it has ldaps, and StartTLS
    anonymous    a client that has not bound may search
    sizelimit    entries that a search may have at most
    secrets      more entries under ou=people, and their passwords
    """

    def __init__(self, directory, authority=None, anonymous=False, sizelimit=500, secrets=None):
        self.directory = str(directory)
        self.port, self.tls_port = free_port(), free_port()
        self.process = None
        os.mkdir(self._path("data"))
        self._write("slapd.conf", CONF.format(
            directory=self.directory, sizelimit=sizelimit, others="* read" if anonymous else "anonymous auth",
            tls=TLS.format(authority=authority) if authority else ""))
        self._write("tree.ldif", "".join(_tree(secrets or SECRETS)))
        subprocess.run(["/usr/sbin/slapadd", "-f", self._path("slapd.conf"), "-l", self._path("tree.ldif")], check=True,
                       capture_output=True)
        self._listening = [self.port] + ([self.tls_port] if authority else [])
        self._urls = "ldap://127.0.0.1:%d/" % self.port
        if authority:
            self._urls += " ldaps://127.0.0.1:%d/" % self.tls_port
        self.start()

    def _path(self, name):
        return os.path.join(self.directory, name)

    def _write(self, name, text):
        with open(self._path(name), "w", encoding="utf-8") as f:
            f.write(text)

    def start(self):
        starts = self._starts()
        with open(self._path("log"), "ab") as log:
            self.process = subprocess.Popen(
                ["/usr/sbin/slapd", "-d", "stats", "-h", self._urls, "-f", self._path("slapd.conf")],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        until(lambda: self._starts() > starts, "slapd comes up")
        # it says so before it listens
        until(lambda: all(listens(port) for port in self._listening), "slapd listens")

    def _starts(self):
        if not os.path.exists(self._path("log")):
            return 0
        assert not self.process or self.process.poll() is None, "slapd ended: " + self.log()
        return self.log().count("slapd starting")

    def log(self):
        """The log of slapd, which includes the requests."""
        with open(self._path("log"), encoding="utf-8", errors="replace") as f:
            return f.read()

    def wait_log(self, text, times=1):
        until(lambda: self.log().count(text) >= times, "slapd says %r" % text)

    def stop(self):
        if not self.process:
            return
        self.process.terminate()
        self.process.wait(DEADLINE)
        self.process = None
