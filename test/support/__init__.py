"""Helpers of the tests on the wire and with a real PostgreSQL."""
