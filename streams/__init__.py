"""The stream processor: pure rules, the engine that runs them, and what shows them."""
