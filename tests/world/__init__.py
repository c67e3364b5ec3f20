"""The engine in process for tests: one timeline language, one world."""
