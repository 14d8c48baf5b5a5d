"""
Leaks that the sanitizers' check at exit cannot see: the optimised binary, as installed, under valgrind's memcheck, after thousands of connections
that ended in every way.
"""
import ssl

from support import messages as m
from support.profilers import fast_binary
from support.pgweir import Pgweir
from support.rounds import rounds
from support.wire import Closed, LoginRefused


class Checked(Pgweir):
    """Ends with status 98 when memcheck has anything to say."""

    def command(self):
        kinds = "definite,indirect,possible"
        return ["valgrind", "-q", "--leak-check=full", "--show-leak-kinds=" + kinds, "--errors-for-leak-kinds=" + kinds,
                "--error-exitcode=98", "--vgdb=no", fast_binary(), self.ini_path]


def visit(weir, turn):
    client = weir.client(password="app-secret" if turn % 7 else "wrong", application_name="visitor %d" % (turn % 3))
    assert client.query("turn %d" % turn).value == "turn %d" % turn
    client.send(m.run("extended") + m.sync() + m.query("BEGIN"))
    assert client.result().value == "extended"
    if turn % 5 == 0:
        weir.cancel(client).close()
    (client.quit, client.close, client.abort)[turn % 3]()


def visit_over_tls(weir, context):
    client = weir.connect()
    client.start_tls(context)
    client.login(user="app", database="p0", password="app-secret")
    assert client.query("inside").value == "inside"
    client.close()


def test_no_leaks_after_many_connections(scene, authority):
    fake = scene.mini(tls=authority.server_context(), method="scram", password="app-secret")
    weir = scene.weir(fake, kind=Checked, pool_mode="transaction", default_pool_size=2, auth_type="scram-sha-256",
                      server_login_retry=0, client_tls_sslmode="allow", client_tls_cert_file=authority.cert("server"),
                      client_tls_key_file=authority.key("server"))
    answered = 0
    for turn in rounds(50, full=10000):
        try:
            visit(weir, turn)
            answered += 1
            if turn % 20 == 0:
                visit_over_tls(weir, authority.client_context())
            if turn % 15 == 0:
                fake.drop_all()
                weir.admin("RELOAD")
        except (LoginRefused, Closed, ssl.SSLError):
            # as the wrong password, or the server that went away, will have it
            pass
    assert answered > turn // 2
    weir.barrier()
