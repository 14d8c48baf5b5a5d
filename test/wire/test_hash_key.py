"""
The key of the hash, which keeps attackers from choosing names that share one chain of a table (test/unit/base/test_hash.c). A process
without a random key would work as well, so no other test would fail.
"""
import os
import re
import subprocess

KEY = 16        # bytes


def place(binary):
    """Returns the address of the key, and whether it is relative to the load address of the binary."""
    said = subprocess.run(["readelf", "-hsW", binary], check=True, capture_output=True, text=True).stdout
    (found,) = re.findall(r"^\s*\d+: ([0-9a-f]+) .* OBJECT .* hash_key(?:\.lto_priv\.\d+)?$", said, re.M)
    return int(found, 16), bool(re.search(r"Type:\s+DYN", said))


def key_of(weir):
    binary = os.path.realpath(os.environ["PGWEIR"])
    at, is_relative = place(binary)
    with open("/proc/%d/maps" % weir.pid, encoding="ascii") as maps:
        begin = next(int(line.split("-")[0], 16) for line in maps if line.rstrip().endswith(binary))
    with open("/proc/%d/mem" % weir.pid, "rb", 0) as memory:
        memory.seek(at + begin if is_relative else at)
        return memory.read(KEY)


def test_each_process_has_its_own_key(scene):
    fake = scene.mini()
    keys = {key_of(scene.weir(fake)) for _ in range(3)}
    assert len(keys) == 3 and bytes(KEY) not in keys
