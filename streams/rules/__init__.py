"""What each event does, pure: (rows, event, now) → Decision (every rule of the rule book).

`accountant.py` is the way in. A rule changes rows in its `RowStore`, and names each changed row, output and count in a
`Decision`.
"""
