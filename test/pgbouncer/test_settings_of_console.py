"""SET of settings that the poolers take in different ways (doc/differences.md)."""
from support import messages as m


def codes(client, *parts):
    client.send(*parts, m.sync())
    return [m.read_error(part.body)["C"] for part in client.read_until("Z") if part.type == "E"]


def test_known_statements_when_prepared_statements_are_disabled(pooler, postgres):
    weir = pooler({"p0": postgres}, pool_mode="transaction", default_pool_size=1, max_prepared_statements=10)
    client, other = weir.client(), weir.client()
    assert not codes(client, m.parse("SELECT 1", "known"))
    weir.admin("SET max_prepared_statements = 0")
    assert bool(codes(client, m.bind("known"), m.execute())) != pooler.is_ours
    # new statements of other clients have their own names on the server
    assert not codes(other, m.parse("SELECT 1", "own"), m.bind("own"), m.execute())
