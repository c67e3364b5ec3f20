"""The engine in process for tests: the timeline language, and the world that runs it."""
