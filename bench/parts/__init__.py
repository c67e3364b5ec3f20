"""The parts of a run, in their order: each takes the bench, measures one thing, and adds its figures."""
