"""Acceptance tests that use only the wire contract. A package, so that its one worker ends with its last test."""
