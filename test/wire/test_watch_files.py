"""watch_files: a RELOAD runs when files of the configuration have changed on disk, and only if all of them are usable."""
import os

import pytest

from support import messages as m
from support.takeover import Replaced
from support.until import until

IN_FORCE = "RELOAD: the configuration of"


def watched(scene, **settings):
    return scene.weir(scene.mini(), watch_files=1, pool_mode="transaction", allow="watch_files: ", **settings)


def text_of(weir):
    with open(weir.path("pgweir.ini"), encoding="utf-8") as file:
        return file.read()


def setting(weir, name):
    (value,) = [row["value"] for row in weir.show("CONFIG") if row["key"] == name]
    return value


def wait_for(weir, name, value):
    until(lambda: setting(weir, name) == value, "%s is %s" % (name, value))


def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def in_place(path, text):
    write(path, text)


def renamed(path, text):
    write(path + ".new", text)
    os.rename(path + ".new", path)


def removed(path, text):
    os.unlink(path)
    write(path, text)


@pytest.mark.parametrize("change", (in_place, renamed, removed))
def test_a_changed_file_is_in_force(scene, change):
    weir = watched(scene)
    before = text_of(weir)
    for value in ("11", "12"):
        change(weir.path("pgweir.ini"), before.replace("[pgbouncer]", "[pgbouncer]\ndefault_pool_size = " + value))
        wait_for(weir, "default_pool_size", value)
    state = {row["key"]: row["value"] for row in weir.show("STATE")}
    assert state["last_reload_result"] == "in force" and state["last_reload"].startswith("20")
    # another file of the directory, and a file that is read without a change, cause no RELOAD
    times = weir.log().count(IN_FORCE)
    write(weir.path("other"), "text")
    weir.write_users()
    weir.wait_log('watch_files: ".*userlist.*" has changed')
    assert weir.log().count(IN_FORCE) == times + 1


def test_an_unusable_file_changes_nothing(scene):
    """One line, until the files change again."""
    weir = watched(scene)
    path, before = weir.path("pgweir.ini"), text_of(weir)
    wrong = before.replace("[pgbouncer]", "[pgbouncer]\ndefault_pool_size = 11\nmax_client_conn = many")
    in_place(path, wrong)
    weir.wait_log(r'WARNING watch_files: ".*pgweir.ini" has changed; nothing is changed because of 1 errors: .*pgweir.ini:\d+: ')
    state = {row["key"]: row["value"] for row in weir.show("STATE")}
    assert state["last_reload_result"] == "failed" and setting(weir, "default_pool_size") == "20"
    # an event without a change
    write(weir.path("other"), "text")
    in_place(path, wrong + "# again\n")
    weir.wait_log("nothing is changed because", times=2)
    renamed(path, wrong.replace("many", "50"))
    wait_for(weir, "default_pool_size", "11")
    assert weir.log().count("nothing is changed because") == 2 and "config file loading failed" not in weir.log()


@pytest.mark.parametrize("setting_of", ["auth_file", "auth_hba_file", "password_file", "client_tls_key_file", "pgweir.ini"])
def test_a_named_pipe_in_place_of_a_file_stops_nothing(scene, directory, authority, setting_of):
    """No process writes to it: reading it would wait for ever."""
    path = os.path.join(directory, "replaced")
    settings = {"client_tls_sslmode": "allow", "client_tls_cert_file": authority.cert("server"), "client_tls_key_file": authority.key("server")}
    with open(authority.key("server"), encoding="utf-8") as key:
        contents = {"client_tls_key_file": key.read(), "auth_hba_file": "host all all all trust\n", "password_file": "secret\n"}
    write(path, contents.get(setting_of, '"app" "secret"\n'))
    os.chmod(path, 0o600)
    if setting_of in ("auth_file", "auth_hba_file", "client_tls_key_file"):
        settings[setting_of] = path
    if setting_of == "auth_hba_file":
        settings["auth_type"] = "hba"
    if setting_of == "password_file":
        settings["sections"] = {"users": {"other": "password_file=" + path}}
    weir = watched(scene, **settings)
    client = weir.client()
    path = weir.path("pgweir.ini") if setting_of == "pgweir.ini" else path
    os.mkfifo(path + ".new", 0o600)
    os.rename(path + ".new", path)
    weir.wait_log("Operation not supported|it is no regular file")
    client.send(m.query("one"))
    assert client.result().value == "one"


def test_a_half_written_file_is_not_read(scene):
    weir = watched(scene)
    path, before = weir.path("pgweir.ini"), text_of(weir)
    with open(path, "w", encoding="utf-8") as file:
        file.write(before[:len(before) // 2] + "\nnothing")
        file.flush()
        # another file shows that the watch has looked
        weir.write_users()
        weir.wait_log("nothing is changed because")
        file.seek(0)
        file.truncate()
        file.write(before.replace("[pgbouncer]", "[pgbouncer]\ndefault_pool_size = 11"))
    wait_for(weir, "default_pool_size", "11")


def test_symbolic_links_of_kubernetes(scene, directory):
    """..data is a link to a directory of one version; a rename replaces the link. An %include file behind it."""
    mount = os.path.join(directory, "mount")
    for version, value in (("..1", "11"), ("..2", "12"), ("..3", "13")):
        os.makedirs(os.path.join(mount, version))
        write(os.path.join(mount, version, "more.ini"), "[pgbouncer]\ndefault_pool_size = %s\n" % value)
    os.symlink("..1", os.path.join(mount, "..data"))
    os.symlink("..data/more.ini", os.path.join(mount, "more.ini"))
    weir = watched(scene)
    in_place(weir.path("pgweir.ini"), text_of(weir) + "\n%%include %s/more.ini\n" % mount)
    wait_for(weir, "default_pool_size", "11")
    for version, value in (("..2", "12"), ("..3", "13")):
        os.symlink(version, os.path.join(mount, "..new"))
        os.rename(os.path.join(mount, "..new"), os.path.join(mount, "..data"))
        wait_for(weir, "default_pool_size", value)


def test_certificates(scene, authority):
    """A certificate without its key is not in force; both are, after the second file."""
    cert, key = (os.path.join(scene.directory, name) for name in ("cert.pem", "key.pem"))

    def copy(name):
        for source, target in ((authority.cert(name), cert), (authority.key(name), key)):
            with open(source, encoding="utf-8") as file:
                renamed(target, file.read())
            os.chmod(target, 0o600)
            yield
    list(copy("server"))
    weir = watched(scene, client_tls_sslmode="require", client_tls_cert_file=cert, client_tls_key_file=key)

    def serial():
        client = weir.connect()
        client.start_tls(authority.client_context())
        found = client.sock.getpeercert()["serialNumber"]
        client.close()
        return found
    authority.issue("watched", "localhost", names="DNS:localhost,IP:127.0.0.1")
    first, steps = serial(), copy("watched")
    next(steps)
    weir.wait_log("nothing is changed because")
    assert serial() == first
    next(steps)
    until(lambda: serial() != first, "the new certificate")


def test_off_and_on(scene):
    weir = scene.weir(scene.mini(), pool_mode="transaction")
    path, before = weir.path("pgweir.ini"), text_of(weir)
    in_place(path, before.replace("[pgbouncer]", "[pgbouncer]\ndefault_pool_size = 11"))
    weir.barrier()
    # the change before the SET is noticed too; the SET ends with the RELOAD
    weir.admin("SET watch_files = 1")
    wait_for(weir, "default_pool_size", "11")
    assert setting(weir, "watch_files") == "0"


def test_online_restart(scene):
    """The new process watches; the old one, which a client keeps, does not read the files any more."""
    weir = watched(scene, kind=Replaced)
    before = text_of(weir)
    old = weir.replace()
    in_place(weir.path("pgweir.ini"), before.replace("[pgbouncer]", "[pgbouncer]\ndefault_pool_size = 11"))
    wait_for(weir, "default_pool_size", "11")
    assert IN_FORCE not in weir.log_of(old)
    client = weir.client()
    client.send(m.query("one"))
    assert client.result().value == "one"
