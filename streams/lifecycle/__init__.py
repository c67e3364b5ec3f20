"""The state machines, pure: each module opens with its transition table (rules R, P and I)."""
