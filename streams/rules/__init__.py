"""The rules, pure: (rows, event, now) → Decision.

`accountant.py` is the entry point. A rule changes rows through the `RowStore`, and adds outputs, counts
and log lines to a `Decision`.
"""
