"""Start-up parameters: which are applied, ignored and refused."""
import pytest

from support import messages as m

FORM = "unsupported options startup parameter: only '-c config=val' and '--config=val' are allowed"
PARIS = "-c timezone=Europe/Paris"
LONG = "x" * 4096


def start(pooler, scene, ignored):
    return pooler(scene.mini(), pool_mode="transaction", ignore_startup_parameters=ignored)


@pytest.mark.parametrize("ignored, options", [
    ("options", PARIS), ("options", "-c work_mem=1MB --timezone=Europe/Paris -c geqo=off"), ("options", "-c work_mem= " + PARIS),
    ("work_mem", "-c work_mem=%s %s" % (LONG, PARIS)), ("options", "-c work_mem=%s %s" % (LONG, PARIS)),
    ("options", "-c %s=1 %s" % ("w" * 300, PARIS)), ("timezone", PARIS)],
    ids=["options", "among others", "empty", "long", "long and options", "long name", "by name"])
def test_supported_options_are_applied(pooler, scene, ignored, options):
    weir = start(pooler, scene, ignored)
    client = weir.client(options=options)
    assert client.parameters["TimeZone"] == "Europe/Paris"
    assert client.query("works").value == "works"


def test_an_ignored_parameter_that_is_supported(pooler, scene):
    weir = start(pooler, scene, "timezone")
    assert weir.client(TimeZone="Europe/Paris").parameters["TimeZone"] == "Europe/Paris"


@pytest.mark.parametrize("options", ["-d 3", "words", "-c", "-c timezone", PARIS + " -x"])
def test_other_kinds_of_options_are_refused(pooler, scene, options):
    weir = start(pooler, scene, "options")
    assert weir.connect().refused(user="app", database="p0", options=options)["M"] == FORM


@pytest.mark.parametrize("options, name", [("-c log_connections=1", "log_connections"), ("--log_connections=" + LONG, "log_connections"),
                                           ("--log-connections=1", "log-connections"), ("-c Log_Connections=1", "Log_Connections")], ids=["short", "long", "hyphen", "capitals"])
def test_an_option_that_is_not_supported(pooler, scene, options, name):
    weir = start(pooler, scene, "extra_float_digits")
    error = weir.connect().refused(user="app", database="p0", options=options)
    assert error["M"] == "unsupported startup parameter in options: " + name
