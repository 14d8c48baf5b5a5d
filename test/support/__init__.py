"""What the tests on the wire and with a real PostgreSQL are written with."""
